// The graphics processor, and its memory: pooled buffers, and buffers over memory of others.
#pragma once

#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "backends/metal/frameworks.h"
#include "mpsgraph/runtime/device.h"
#include "mpsgraph/runtime/ndarray.h"

namespace mpsgraph::metal {

// Buffers that are free again, by size, bounded in total. Shared storage: the processor and numpy see the same bytes.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  explicit BufferPool(id<MTLDevice> device) : device_(device) {}
  id<MTLBuffer> take(size_t bytes);  // at least so many; DeviceError when there is no more
  void give_back(id<MTLBuffer> buffer);
  void set_limit(size_t bytes);  // of what is free
  runtime::BufferStatistics statistics();

 private:
  static size_t size_class(size_t bytes);
  void trim(size_t limit);  // with mutex_ held
  const id<MTLDevice> device_;
  std::mutex mutex_;
  std::multimap<size_t, id<MTLBuffer>> free_;
  size_t limit_ = size_t{256} << 20;
  runtime::BufferStatistics statistics_;
};

// What an NDArray of this device lies in.
struct PooledMemory final : runtime::DeviceMemory {
  PooledMemory(std::shared_ptr<BufferPool> pool, id<MTLBuffer> buffer) : pool(std::move(pool)), buffer(buffer) {}
  ~PooledMemory() override { pool->give_back(buffer); }
  const std::shared_ptr<BufferPool> pool;
  const id<MTLBuffer> buffer;
};

// An array as device memory. Where its own cannot be shared, `staged` holds a buffer of the pool: what is read is
// copied into it before the work is submitted, what was computed is copied back when it is done.
struct BufferView {
  id<MTLBuffer> buffer = nil;
  size_t offset = 0;
  std::shared_ptr<PooledMemory> staged;
  bool tracked = false;  // by Metal; see PendingUses
};
// The same as MPSGraph takes it.
struct ArrayData {
  MPSGraphTensorData* data = nil;
  std::shared_ptr<PooledMemory> staged;
  bool tracked = false;
};

// Memory that work in flight reads or writes.
//
// Metal orders two uses of one MTLBuffer. It knows nothing of copies by the host, into and out of staging buffers, nor
// that two buffers lie over the same memory of others; what concerns these has to wait until the other use is over.
class PendingUses {
 public:
  struct Use {
    Use(const runtime::NDArray& array, bool writes, bool tracked)
        : begin(array.data()), end(begin + array.bytes()), writes(writes), tracked(tracked) {}
    const std::byte *begin, *end;
    bool writes;
    bool tracked;  // by Metal: in a buffer of the pool, by the device
  };
  // Pending while the token lives. All uses of a run at once, so that no two runs wait for a use of each other's.
  std::shared_ptr<const void> add(const std::vector<Use>& uses);      // waits for those that it has to wait for
  std::shared_ptr<const void> try_add(const std::vector<Use>& uses);  // null when there are any
  void wait_for(const Use& use);

 private:
  bool conflicts(const std::vector<Use>& uses) const;  // these with mutex_ held
  std::shared_ptr<const void> insert(const std::vector<Use>& uses);
  std::mutex mutex_;
  std::condition_variable condition_;
  std::list<Use> uses_;
};

// How everything is compiled: for the graphics processor alone, in the stated precision, and before anything runs.
// Apple's default may place parts on the Neural Engine. Made anew for each use, as several threads compile.
MPSGraphCompilationDescriptor* compilation_descriptor();
MPSGraphExecutionDescriptor* execution_descriptor();

class MetalDevice {
 public:
  static bool available();  // is there a device that the Metal Performance Shaders run on?
  MetalDevice();

  const id<MTLDevice> device;
  MPSGraphDevice* const graph_device;
  const std::shared_ptr<BufferPool> pool;
  const id<MTLCommandQueue> queue;  // for what is done at once: variables, programs that run in parts

  std::string description() const;
  runtime::NDArray allocate(DType dtype, const Dims& dims);

  // Of arrays that are contiguous and have elements.
  BufferView view_of(const runtime::NDArray& array);
  ArrayData data_of(const runtime::NDArray& array);
  PendingUses uses;

 private:
  BufferView shared(const runtime::NDArray& array);  // no buffer when the memory cannot be shared
  BufferView staged(const runtime::NDArray& array);
};

MetalDevice& metal_device(runtime::Device& device);  // of device "metal"

}  // namespace mpsgraph::metal
