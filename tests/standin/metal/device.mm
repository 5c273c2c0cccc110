// The one device, its memory, and how tests make it fail.
#include "metal/standin_metal.h"

#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#pragma clang diagnostic ignored "-Wprotocol"
#pragma clang diagnostic ignored "-Wobjc-protocol-property-synthesis"

namespace {

std::atomic<size_t> live_bytes{0}, allocation_limit{0};
std::atomic<bool> refuses_memory{false}, hidden{false};
constexpr size_t page = 4096;
constexpr int poison = 0xA5;  // no small integer, no plain number

}  // namespace

extern "C" {
void standin_limit_allocation(size_t bytes) { allocation_limit = bytes; }
void standin_refuse_memory_of_others(int refuse) { refuses_memory = refuse != 0; }
void standin_hide_device(int hide) { hidden = hide != 0; }
size_t standin_live_buffer_bytes(void) { return live_bytes; }
}

namespace standin {

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

}  // namespace standin

// --- buffers ---------------------------------------------------------------------------------------------------------

@implementation StandinBuffer {
  StandinDevice* _device;
  void* _bytes;
  NSUInteger _length;
  bool _owned;
  void (^_deallocator)(void*, NSUInteger);
}
@synthesize label = _label;

- (instancetype)initWithDevice:(StandinDevice*)device length:(NSUInteger)length {
  if (!(self = [super init])) return nil;
  _device = device;
  _length = length;
  _owned = true;
  _bytes = std::aligned_alloc(page, (length + page - 1) / page * page);
  std::memset(_bytes, poison, length);
  live_bytes += length;
  return self;
}

- (instancetype)initWithDevice:(StandinDevice*)device
                         bytes:(void*)bytes
                        length:(NSUInteger)length
                   deallocator:(void (^)(void*, NSUInteger))deallocator {
  if (!(self = [super init])) return nil;
  _device = device;
  _bytes = bytes;
  _length = length;
  _deallocator = deallocator;
  return self;
}

- (void)dealloc {
  if (_owned) {
    live_bytes -= _length;
    std::free(_bytes);
  } else if (_deallocator) {
    _deallocator(_bytes, _length);
  }
}

- (id<MTLDevice>)device {
  return _device;
}
- (NSUInteger)length {
  return _length;
}
- (void*)contents {
  return _bytes;
}
- (MTLStorageMode)storageMode {
  return MTLStorageModeShared;
}
@end

// --- device ----------------------------------------------------------------------------------------------------------

@implementation StandinDevice
- (NSString*)name {
  return @"Linux stand-in (no graphics processor)";
}
- (BOOL)hasUnifiedMemory {
  return YES;
}
- (NSUInteger)maxBufferLength {
  return NSUInteger{1} << 36;
}

- (id<MTLCommandQueue>)newCommandQueue {
  return [self newCommandQueueWithMaxCommandBufferCount:64];
}
- (id<MTLCommandQueue>)newCommandQueueWithMaxCommandBufferCount:(NSUInteger)limit {
  return [[StandinCommandQueue alloc] initWithDevice:self limit:limit];
}

- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
  if (length == 0) standin::misuse(@"a buffer of no bytes");
  if (options != MTLResourceStorageModeShared) standin::misuse(@"the stand-in has shared storage only");
  if (allocation_limit != 0 && length > allocation_limit) return nil;
  return [[StandinBuffer alloc] initWithDevice:self length:length];
}

- (id<MTLBuffer>)newBufferWithBytes:(const void*)bytes length:(NSUInteger)length options:(MTLResourceOptions)options {
  id<MTLBuffer> buffer = [self newBufferWithLength:length options:options];
  if (buffer) std::memcpy(buffer.contents, bytes, length);
  return buffer;
}

- (id<MTLBuffer>)newBufferWithBytesNoCopy:(void*)bytes
                                   length:(NSUInteger)length
                                  options:(MTLResourceOptions)options
                              deallocator:(void (^)(void*, NSUInteger))deallocator {
  if (reinterpret_cast<uintptr_t>(bytes) % page != 0 || length % page != 0 || length == 0)
    standin::misuse(@"memory of others must be whole pages: %p, %lu bytes", bytes, length);
  if (options != MTLResourceStorageModeShared) standin::misuse(@"the stand-in has shared storage only");
  if (refuses_memory) return nil;
  return [[StandinBuffer alloc] initWithDevice:self bytes:bytes length:length deallocator:deallocator];
}

- (id<MTLSharedEvent>)newSharedEvent {
  return [[StandinSharedEvent alloc] init];
}
@end

NSArray<id<MTLDevice>>* MTLCopyAllDevices(void) {
  id<MTLDevice> device = MTLCreateSystemDefaultDevice();
  return device ? @[ device ] : @[];
}

id<MTLDevice> MTLCreateSystemDefaultDevice(void) {
  static StandinDevice* const device = [[StandinDevice alloc] init];
  return hidden ? nil : device;
}
