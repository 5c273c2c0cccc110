// The mock's own classes behind Metal's protocols, and what tests may ask of them.
//
// Stricter than Metal on purpose: new memory is filled with a pattern, completed handlers run on another thread and
// after a random delay, the commands of a queue run on a thread of its own, and a command buffer that is used after
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
void mock_fail_next_command_buffer(const char* _Nonnull message);  // its first work fails, like a fault of the device
void mock_fail_command_buffer(const char* _Nonnull label, const char* _Nonnull message);  // the next with this label
void mock_hold_command_buffers(int hold);  // what has been committed does not begin
void mock_limit_allocation(size_t bytes);  // larger buffers cannot be had; 0: no limit
void mock_refuse_memory_of_others(int refuse);  // newBufferWithBytesNoCopy gives nil
void mock_hide_device(int hide);  // there is no device
size_t mock_live_buffer_bytes(void);
uint64_t mock_committed_command_buffers(void);
// What a kernel of this name in Metal's language means, for one thread of the grid; NULL: nothing any more. Buffers are
// those that are bound, in the order of their indices.
typedef void (*mock_kernel)(void* _Nonnull const* _Nonnull buffers, const size_t* _Nonnull lengths, size_t count,
                            const uint32_t* _Nonnull position, const uint32_t* _Nonnull grid);
void mock_define_kernel(const char* _Nonnull function, mock_kernel _Nullable meaning);
}

namespace mock {

[[noreturn]] void misuse(NSString* _Nonnull format, ...);  // NSInvalidArgumentException
void pause_at_random();  // up to some 200 microseconds, seldom a millisecond

}  // namespace mock

@interface MockDevice : NSObject <MTLDevice>
@end

// An event's value is watched by the device's queues and by listeners.
@interface MockSharedEvent : NSObject <MTLSharedEvent>
- (void)waitForValue:(uint64_t)value;
@end

@interface MockCommandQueue : NSObject <MTLCommandQueue>
- (instancetype _Nonnull)initWithDevice:(MockDevice* _Nonnull)device limit:(NSUInteger)limit;
@end

@class MockCommandBuffer;

namespace mock {

// What is left of the life of a temporary object of Metal Performance Shaders: how often commands may still read it.
struct Temporary {
  NSString* _Nonnull what;  // its class
  __weak MockCommandBuffer* _Nullable buffer;  // the command buffer that it lives in
  NSUInteger reads = 1;
  std::function<void()> spoil;  // what happens to its memory when it has been read as often as it may be
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
- (void)encodeWork:(std::function<void()>)work;  // on the queue's thread; what it raises fails the command buffer
- (void)addTemporary:(std::shared_ptr<mock::Temporary>)temporary;  // with reads left at commit, the buffer fails
- (void)moveTemporariesTo:(MockCommandBuffer* _Nonnull)next;
- (void)encoderEnded;
@end
