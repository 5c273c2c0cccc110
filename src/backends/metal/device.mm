// MetalDevice shares memory where possible: pooled arrays directly, and external memory by mapping the whole pages that
// contain it.
#include "backends/metal/device.h"

#include <unistd.h>

#include <algorithm>
#include <bit>

#include "backends/metal/availability.h"
#include "backends/metal/guarded.h"
#include "backends/metal/types.h"

namespace mpsgraph::metal {

using runtime::NDArray;

namespace {

size_t page_size() {
  static const auto size = static_cast<size_t>(getpagesize());
  return size;
}

bool has_room(const BufferView& view, size_t bytes) {
  const size_t needed = (bytes + least_buffer_bytes - 1) / least_buffer_bytes * least_buffer_bytes;
  return view.offset + needed <= view.buffer.length;
}

}  // namespace

// --- pool ------------------------------------------------------------------------------------------------------------

// Round up to a size class: at least 256 bytes, and four classes per doubling.
size_t BufferPool::size_class(size_t bytes) {
  bytes = std::max<size_t>(bytes, 256);
  const size_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

id<MTLBuffer> BufferPool::take(size_t bytes) {
  const size_t wanted = size_class(bytes);
  std::lock_guard lock(mutex_);
  id<MTLBuffer> buffer = nil;
  if (const auto found = free_.find(wanted); found != free_.end()) {
    buffer = found->second;
    free_.erase(found);
    statistics_.cached_bytes -= wanted;
    ++statistics_.reused;
  } else {
    buffer = [device_ newBufferWithLength:wanted options:MTLResourceStorageModeShared];
  }
  if (!buffer) {
    trim(0);
    buffer = [device_ newBufferWithLength:wanted options:MTLResourceStorageModeShared];
  }
  if (!buffer)
    throw DeviceError(cat("cannot allocate ", bytes, " bytes on ", text_of(device_.name), ", where ",
                          statistics_.live_bytes,
                          " bytes are in use; use smaller shapes or free results that are no longer needed"));
  ++statistics_.allocations;
  statistics_.live_bytes += wanted;
  statistics_.peak_live_bytes = std::max(statistics_.peak_live_bytes, statistics_.live_bytes);
  return buffer;
}

void BufferPool::give_back(id<MTLBuffer> buffer) {
  const size_t bytes = buffer.length;
  std::lock_guard lock(mutex_);
  statistics_.live_bytes -= bytes;
  if (bytes > limit_) return;
  trim(limit_ - bytes);
  free_.emplace(bytes, buffer);
  statistics_.cached_bytes += bytes;
}

void BufferPool::trim(size_t limit) {
  while (statistics_.cached_bytes > limit) {
    statistics_.cached_bytes -= free_.begin()->first;
    free_.erase(free_.begin());
  }
}

void BufferPool::set_limit(size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
  trim(bytes);
}

runtime::BufferStatistics BufferPool::statistics() {
  std::lock_guard lock(mutex_);
  runtime::BufferStatistics statistics = statistics_;
  statistics.live_by_use[0] = statistics.live_bytes;  // memory that MPSGraph allocates itself is not counted
  statistics.peak_by_use[0] = statistics.peak_live_bytes;
  return statistics;
}

// --- compiling -------------------------------------------------------------------------------------------------------

MPSGraphCompilationDescriptor* compilation_descriptor() {
  MPSGraphCompilationDescriptor* descriptor = [MPSGraphCompilationDescriptor new];
  descriptor.optimizationLevel = MPSGraphOptimizationLevel0;
  descriptor.waitForCompilationCompletion = YES;
  return descriptor;
}

MPSGraphExecutionDescriptor* execution_descriptor() {
  MPSGraphExecutionDescriptor* descriptor = [MPSGraphExecutionDescriptor new];
  descriptor.compilationDescriptor = compilation_descriptor();
  return descriptor;
}

// --- device ----------------------------------------------------------------------------------------------------------

namespace {

// A process without a window server may have no default device even if a device exists.
id<MTLDevice> system_device() {
  id<MTLDevice> device = MTLCreateSystemDefaultDevice();
#if !defined(__APPLE__) || TARGET_OS_OSX
  if (!device) device = MTLCopyAllDevices().firstObject;
#endif
  return device;
}

}  // namespace

bool MetalDevice::available() {
  return guarded([] {
    id<MTLDevice> device = system_device();
    return device && MPSSupportsMTLDevice(device);
  });
}

MetalDevice::MetalDevice()
    : device(system_device()),
      graph_device([MPSGraphDevice deviceWithMTLDevice:device]),
      pool(std::make_shared<BufferPool>(device)),
      queue([device newCommandQueue]) {
  if (!device || !queue) throw DeviceError("cannot open the system's Metal device");
  queue.label = @"mpsgraph host";
}

// The newest generation of Apple's GPUs whose features the device has, such as 7 for M1 and 9 for M3; 0 for other GPUs.
int MetalDevice::apple_generation() const {
  constexpr int before_first = 1000;  // the family of the first generation is 1001
  int generation = 0;
  while ([device supportsFamily:static_cast<MTLGPUFamily>(before_first + generation + 1)]) ++generation;
  return generation;
}

std::string MetalDevice::description() const {
  const NSOperatingSystemVersion system = NSProcessInfo.processInfo.operatingSystemVersion;
  const int generation = apple_generation();
  return cat("Metal: ", text_of(device.name), generation ? cat(", GPU family Apple ", generation) : "",
             device.hasUnifiedMemory ? ", unified memory" : "", ", macOS ", system.majorVersion, ".",
             system.minorVersion);
}

NDArray MetalDevice::allocate(DType dtype, const Dims& dims) {
  const size_t bytes = static_cast<size_t>(element_count(dims)) * size_of(dtype);
  if (bytes == 0) return NDArray::allocate(dtype, dims);
  auto memory = std::make_unique<PooledMemory>(pool, pool->take(bytes));
  void* data = memory->buffer.contents;
  return NDArray(runtime::Buffer::of_device(data, bytes, std::move(memory)), dtype, dims, contiguous_strides(dims));
}

// --- arrays ----------------------------------------------------------------------------------------------------------

BufferView MetalDevice::shared(const NDArray& array) {
  if (const auto* memory = dynamic_cast<const PooledMemory*>(array.buffer()->device_memory())) {
    const auto offset = static_cast<size_t>(array.data() - static_cast<std::byte*>(memory->buffer.contents));
    return {memory->buffer, offset, nullptr, true};
  }
  // Metal maps whole pages, so the mapping covers all pages that the array touches, including bytes outside the array.
  const size_t page = page_size();
  const auto address = reinterpret_cast<uintptr_t>(array.data());
  const uintptr_t first = address / page * page, end = (address + array.bytes() + page - 1) / page * page;
  id<MTLBuffer> buffer = [device newBufferWithBytesNoCopy:reinterpret_cast<void*>(first)
                                                   length:end - first
                                                  options:MTLResourceStorageModeShared
                                              deallocator:nil];
  return {buffer, address - first, nullptr,
          false};  // The buffer is nil if Metal refuses the memory, e.g. read-only pages.
}

BufferView MetalDevice::staged(const NDArray& array) {
  auto memory = std::make_shared<PooledMemory>(pool, pool->take(array.bytes()));
  return {memory->buffer, 0, memory, false};
}

BufferView MetalDevice::view_of(const NDArray& array) {
  BufferView view = shared(array);
  return view.buffer ? view : staged(array);
}

ArrayData MetalDevice::data_of(const NDArray& array) {
  MPSShape* shape = shape_of(array.dims());
  const MPSDataType type = data_type(array.dtype());
  BufferView view = view_of(array);
  if (!has_room(view, array.bytes())) view = staged(array);
  if (view.offset != 0) {
    if (METAL_AVAILABLE(15.0, 18.0)) {
      MPSNDArrayDescriptor* descriptor = [MPSNDArrayDescriptor descriptorWithDataType:type shape:shape];
      descriptor.preferPackedRows = YES;
      MPSNDArray* part = [[MPSNDArray alloc] initWithBuffer:view.buffer offset:view.offset descriptor:descriptor];
      return {[[MPSGraphTensorData alloc] initWithMPSNDArray:part], nullptr, view.tracked};
    }
    view = staged(array);
  }
  MPSGraphTensorData* data = [[MPSGraphTensorData alloc] initWithMTLBuffer:view.buffer shape:shape dataType:type];
  return {data, std::move(view.staged), view.tracked};
}

// --- uses in flight --------------------------------------------------------------------------------------------------

std::shared_ptr<const void> PendingUses::insert(const std::vector<Use>& uses) {
  std::list<Use> added(uses.begin(), uses.end());
  std::vector<std::list<Use>::iterator> places;
  for (auto place = added.begin(); place != added.end(); ++place) places.push_back(place);
  uses_.splice(uses_.end(), added);
  return {this, [places](PendingUses* self) {
            {
              std::lock_guard done(self->mutex_);
              for (const auto place : places) self->uses_.erase(place);
            }
            self->condition_.notify_all();
          }};
}

bool PendingUses::conflicts(const std::vector<Use>& uses) const {
  const auto conflict = [](const Use& a, const Use& b) {
    return a.begin < b.end && b.begin < a.end && (a.writes || b.writes) && !(a.tracked && b.tracked);
  };
  return std::ranges::any_of(uses, [&](const Use& use) {
    return std::ranges::any_of(uses_, [&](const Use& other) { return conflict(use, other); });
  });
}

std::shared_ptr<const void> PendingUses::add(const std::vector<Use>& uses) {
  std::unique_lock lock(mutex_);
  condition_.wait(lock, [&] { return !conflicts(uses); });
  return insert(uses);
}

std::shared_ptr<const void> PendingUses::try_add(const std::vector<Use>& uses) {
  std::lock_guard lock(mutex_);
  return conflicts(uses) ? nullptr : insert(uses);
}

void PendingUses::wait_for(const Use& use) {
  std::unique_lock lock(mutex_);
  condition_.wait(lock, [&] { return !conflicts({use}); });
}

}  // namespace mpsgraph::metal
