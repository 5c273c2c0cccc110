// The stand-in's own classes behind Metal's protocols, and what tests may ask of them.
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
void standin_fail_next_command_buffer(
    const char* _Nonnull message);  // its first work fails, like a fault of the device
void standin_fail_command_buffer(const char* _Nonnull label, const char* _Nonnull message);  // the next with this label
void standin_hold_command_buffers(int hold);  // what has been committed does not begin
void standin_limit_allocation(size_t bytes);  // larger buffers cannot be had; 0: no limit
void standin_refuse_memory_of_others(int refuse);  // newBufferWithBytesNoCopy gives nil
void standin_hide_device(int hide);  // there is no device
size_t standin_live_buffer_bytes(void);
uint64_t standin_committed_command_buffers(void);
// What a kernel of this name in Metal's language means, for one thread of the grid; NULL: nothing any more. Buffers are
// those that are bound, in the order of their indices.
typedef void (*standin_kernel)(void* _Nonnull const* _Nonnull buffers, const size_t* _Nonnull lengths, size_t count,
                               const uint32_t* _Nonnull position, const uint32_t* _Nonnull grid);
void standin_define_kernel(const char* _Nonnull function, standin_kernel _Nullable meaning);
}

namespace standin {

[[noreturn]] void misuse(NSString* _Nonnull format, ...);  // NSInvalidArgumentException
void pause_at_random();  // up to some 200 microseconds, seldom a millisecond

}  // namespace standin

@interface StandinDevice : NSObject <MTLDevice>
@end

// An event's value is watched by the device's queues and by listeners.
@interface StandinSharedEvent : NSObject <MTLSharedEvent>
- (void)waitForValue:(uint64_t)value;
@end

@interface StandinCommandQueue : NSObject <MTLCommandQueue>
- (instancetype _Nonnull)initWithDevice:(StandinDevice* _Nonnull)device limit:(NSUInteger)limit;
@end

@class StandinCommandBuffer;

namespace standin {

// What is left of the life of a temporary object of Metal Performance Shaders: how often commands may still read it.
struct Temporary {
  NSString* _Nonnull what;  // its class
  __weak StandinCommandBuffer* _Nullable buffer;  // the command buffer that it lives in
  NSUInteger reads = 1;
  std::function<void()> spoil;  // what happens to its memory when it has been read as often as it may be
};

}  // namespace standin

@interface StandinLibrary : NSObject <MTLLibrary>
- (instancetype _Nonnull)initWithDevice:(StandinDevice* _Nonnull)device source:(NSString* _Nonnull)source;
@end

@interface StandinPipeline : NSObject <MTLComputePipelineState>
@end
StandinPipeline* _Nullable standin_pipeline(id<MTLFunction> _Nonnull function, NSError* _Nullable* _Nullable error);
StandinLibrary* _Nullable standin_library(StandinDevice* _Nonnull device, NSString* _Nonnull source,
                                          NSError* _Nullable* _Nullable error);

@interface StandinComputeEncoder : NSObject <MTLComputeCommandEncoder>
- (instancetype _Nonnull)initWithCommandBuffer:(StandinCommandBuffer* _Nonnull)buffer
                                      commands:(std::vector<std::function<void()>>* _Nonnull)commands;
@end

@interface StandinCommandBuffer : NSObject <MTLCommandBuffer>
- (instancetype _Nonnull)initWithQueue:(StandinCommandQueue* _Nonnull)queue;
- (void)encodeWork:(std::function<void()>)work;  // on the queue's thread; what it raises fails the command buffer
- (void)addTemporary:(std::shared_ptr<standin::Temporary>)temporary;  // with reads left at commit, the buffer fails
- (void)moveTemporariesTo:(StandinCommandBuffer* _Nonnull)next;
- (void)encoderEnded;
@end
