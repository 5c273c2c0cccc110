// The mock's only device, its memory, and functions with which tests make it fail.
#include "faults.h"
#include "metal/counts.h"
#include "metal/resource.h"
#include "mock.h"

#include <atomic>
#include <chrono>
#include <cstdarg>
#include <random>
#include <thread>

#pragma clang diagnostic ignored "-Wprotocol"
#pragma clang diagnostic ignored "-Wobjc-protocol-property-synthesis"

namespace {

std::atomic<size_t> allocation_limit{0};
std::atomic<bool> refuses_memory{false}, hidden{false};
constexpr size_t page = 4096;

// Return the storage mode of resource options, and raise if they contain anything else.
MTLStorageMode storage_of(MTLResourceOptions options) {
  if (options != MTLResourceStorageModeShared && options != MTLResourceStorageModeManaged &&
      options != MTLResourceStorageModePrivate)
    mock::misuse(@"the mock only supports the options shared, managed, and private storage, got %lu", options);
  return static_cast<MTLStorageMode>(options >> 4);
}

}  // namespace

extern "C" {
void mock_limit_allocation(size_t bytes) { allocation_limit = bytes; }
void mock_refuse_memory_of_others(int refuse) { refuses_memory = refuse != 0; }
void mock_hide_device(int hide) { hidden = hide != 0; }
}

namespace mock {

void misuse(NSString* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  NSString* reason = [[NSString alloc] initWithFormat:format arguments:arguments];
  va_end(arguments);
  @throw [NSException exceptionWithName:NSInvalidArgumentException reason:reason userInfo:nil];
}

void pause_at_random() {
  static thread_local std::minstd_rand random(std::random_device{}());
  const auto draw = random() % 64;
  if (draw == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (draw < 8) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
}

}  // namespace mock

// --- device ----------------------------------------------------------------------------------------------------------

@implementation MockDevice
- (NSString*)name {
  return @"Linux mock (no GPU)";
}
- (BOOL)hasUnifiedMemory {
  return YES;
}
- (BOOL)supportsFamily:(MTLGPUFamily)family {
  return family >= MTLGPUFamilyApple1 && family < MTLGPUFamilyApple1 + mock_gpu_generation();
}
- (NSUInteger)maxBufferLength {
  return NSUInteger{1} << 36;
}
- (NSUInteger)currentAllocatedSize {
  return mock_live_buffer_bytes();
}

- (id<MTLCommandQueue>)newCommandQueue {
  return [self newCommandQueueWithMaxCommandBufferCount:64];
}
- (id<MTLCommandQueue>)newCommandQueueWithMaxCommandBufferCount:(NSUInteger)limit {
  return [[MockCommandQueue alloc] initWithDevice:self limit:limit];
}

- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
  ++mock::counters().buffers;
  if (length == 0) mock::misuse(@"newBufferWithLength: the length must not be 0");
  const MTLStorageMode storage = storage_of(options);
  if (allocation_limit != 0 && length > allocation_limit) return nil;
  return [[MockBuffer alloc] initWithDevice:self length:length storage:storage];
}

- (id<MTLBuffer>)newBufferWithBytes:(const void*)bytes length:(NSUInteger)length options:(MTLResourceOptions)options {
  id<MTLBuffer> buffer = [self newBufferWithLength:length options:options];
  if (buffer) [static_cast<MockBuffer*>(buffer) fillWithBytes:bytes];
  return buffer;
}

- (id<MTLBuffer>)newBufferWithBytesNoCopy:(void*)bytes
                                   length:(NSUInteger)length
                                  options:(MTLResourceOptions)options
                              deallocator:(void (^)(void*, NSUInteger))deallocator {
  ++mock::counters().shared_buffers;
  if (reinterpret_cast<uintptr_t>(bytes) % page != 0 || length % page != 0 || length == 0)
    mock::misuse(@"newBufferWithBytesNoCopy: memory must consist of whole pages, got %lu bytes at %p", length, bytes);
  if (options != MTLResourceStorageModeShared)
    mock::misuse(@"newBufferWithBytesNoCopy: the mock only supports shared storage, got options %lu", options);
  if (refuses_memory) return nil;
  return [[MockBuffer alloc] initWithDevice:self bytes:bytes length:length deallocator:deallocator];
}

- (id<MTLTexture>)newTextureWithDescriptor:(MTLTextureDescriptor*)descriptor {
  if (allocation_limit != 0 && mock::texture_bytes(descriptor) > allocation_limit) return nil;
  return [[MockTexture alloc] initWithDevice:self descriptor:descriptor];
}

- (id<MTLLibrary>)newLibraryWithSource:(NSString*)source options:(MTLCompileOptions*)options error:(NSError**)error {
  if (options) mock::misuse(@"newLibraryWithSource: the mock only supports default compile options");
  return mock_library(self, source, error);
}
- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function error:(NSError**)error {
  return mock_pipeline(function, error);
}

- (id<MTLSharedEvent>)newSharedEvent {
  return [[MockSharedEvent alloc] init];
}
@end

NSArray<id<MTLDevice>>* MTLCopyAllDevices(void) {
  id<MTLDevice> device = MTLCreateSystemDefaultDevice();
  return device ? @[ device ] : @[];
}

id<MTLDevice> MTLCreateSystemDefaultDevice(void) {
  static MockDevice* const device = [[MockDevice alloc] init];
  return hidden || mock_is_broken("no_device") ? nil : device;
}
