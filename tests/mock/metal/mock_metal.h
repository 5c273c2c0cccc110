// The mock's own classes behind Metal's protocols, and functions for tests.
//
// The mock is deliberately stricter than Metal. New memory is filled with a pattern, completion handlers run on another
// thread after a random delay, each queue executes its commands on its own thread, and using a command buffer after
// commit raises an exception.
#pragma once

#import <Metal/Metal.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

// --- for tests -------------------------------------------------------------------------------------------------------
extern "C" {
// fails the first work of the next command buffer, like a device error
void mock_fail_next_command_buffer(const char* _Nonnull message);
// fails the next command buffer with this label
void mock_fail_command_buffer(const char* _Nonnull label, const char* _Nonnull message);
void mock_hold_command_buffers(int hold);  // holds back committed command buffers
void mock_limit_allocation(size_t bytes);  // larger buffers cannot be allocated; 0 removes the limit
void mock_refuse_memory_of_others(int refuse);  // makes newBufferWithBytesNoCopy return nil
void mock_hide_device(int hide);  // makes the system have no device
size_t mock_live_buffer_bytes(void);
uint64_t mock_committed_command_buffers(void);
// Implementation of the Metal kernel with a given name, called for each thread of the grid. Its buffers are the bound
// ones, in the order of their indices. Registering NULL removes an implementation.
typedef void (*mock_kernel)(void* _Nonnull const* _Nonnull buffers, const size_t* _Nonnull lengths, size_t count,
                            const uint32_t* _Nonnull position, const uint32_t* _Nonnull grid);
void mock_define_kernel(const char* _Nonnull function, mock_kernel _Nullable meaning);
}

namespace mock {

[[noreturn]] void misuse(NSString* _Nonnull format, ...);  // raises NSInvalidArgumentException
void pause_at_random();  // sleeps up to about 200 microseconds, occasionally a millisecond

}  // namespace mock

@interface MockDevice : NSObject <MTLDevice>
@end

// A shared event, whose value queues of the device and listeners can wait for.
@interface MockSharedEvent : NSObject <MTLSharedEvent>
- (void)waitForValue:(uint64_t)value;
@end

@interface MockCommandQueue : NSObject <MTLCommandQueue>
- (instancetype _Nonnull)initWithDevice:(MockDevice* _Nonnull)device limit:(NSUInteger)limit;
@end

@class MockCommandBuffer;

namespace mock {

// State of a temporary object of Metal Performance Shaders, including how many more times commands may read it.
struct Temporary {
  NSString* _Nonnull what;  // class name of the object
  __weak MockCommandBuffer* _Nullable buffer;  // command buffer to which the object belongs
  NSUInteger reads = 1;
  std::function<void()> spoil;  // called when no reads are left, to overwrite the object's memory
};

}  // namespace mock

@interface MockLibrary : NSObject <MTLLibrary>
- (instancetype _Nonnull)initWithDevice:(MockDevice* _Nonnull)device source:(NSString* _Nonnull)source;
@end

@interface MockPipeline : NSObject <MTLComputePipelineState>
@end
MockPipeline* _Nullable mock_pipeline(id<MTLFunction> _Nonnull function, NSError* _Nullable* _Nullable error);
MockLibrary* _Nullable mock_library(MockDevice* _Nonnull device, NSString* _Nonnull source,
                                    NSError* _Nullable* _Nullable error);

@interface MockComputeEncoder : NSObject <MTLComputeCommandEncoder>
- (instancetype _Nonnull)initWithCommandBuffer:(MockCommandBuffer* _Nonnull)buffer
                                      commands:(std::vector<std::function<void()>>* _Nonnull)commands;
@end

@interface MockCommandBuffer : NSObject <MTLCommandBuffer>
- (instancetype _Nonnull)initWithQueue:(MockCommandQueue* _Nonnull)queue;
- (void)encodeWork:(std::function<void()>)work;  // runs on the queue's thread; an exception fails the command buffer
- (void)addTemporary:(std::shared_ptr<mock::Temporary>)temporary;  // the buffer fails if reads are left at commit
- (void)moveTemporariesTo:(MockCommandBuffer* _Nonnull)next;
- (void)encoderEnded;
@end
