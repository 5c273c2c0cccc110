// The GPU and its memory: pooled buffers, and buffers over external memory.
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

// Pool of free buffers by size, with a limit on their total size. The buffers use shared storage, so the CPU and NumPy
// see the same bytes as the GPU.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  explicit BufferPool(id<MTLDevice> device) : device_(device) {}
  id<MTLBuffer> take(size_t bytes);  // returns a buffer of at least `bytes`; throws DeviceError if out of memory
  void give_back(id<MTLBuffer> buffer);
  void set_limit(size_t bytes);  // limit on the total size of the free buffers
  runtime::BufferStatistics statistics();

 private:
  static size_t size_class(size_t bytes);
  void trim(size_t limit);  // the caller must hold mutex_
  const id<MTLDevice> device_;
  std::mutex mutex_;
  std::multimap<size_t, id<MTLBuffer>> free_;
  size_t limit_ = size_t{256} << 20;
  runtime::BufferStatistics statistics_;
};

// The memory behind an NDArray of this device.
struct PooledMemory final : runtime::DeviceMemory {
  PooledMemory(std::shared_ptr<BufferPool> pool, id<MTLBuffer> buffer) : pool(std::move(pool)), buffer(buffer) {}
  ~PooledMemory() override { pool->give_back(buffer); }
  const std::shared_ptr<BufferPool> pool;
  const id<MTLBuffer> buffer;
};

// An array in device memory. If the array's own memory cannot be shared with the device, `staged` holds a pooled
// buffer: inputs are copied into it before the work is submitted, and results are copied back after completion.
struct BufferView {
  id<MTLBuffer> buffer = nil;
  size_t offset = 0;
  std::shared_ptr<PooledMemory> staged;
  bool tracked = false;  // whether Metal orders the uses of `buffer`; see PendingUses
};
// Some Macs with macOS 27 abort if the buffer of an MPSNDArray has fewer bytes than this after the array's start, even
// if the array is smaller: https://github.com/apple/coreai-models/issues/61. Larger arrays get multiples of it, too.
inline constexpr size_t least_buffer_bytes = 64;
// An array as MPSGraph expects it.
struct ArrayData {
  MPSGraphTensorData* data = nil;
  std::shared_ptr<PooledMemory> staged;
  bool tracked = false;
};

// PendingUses tracks the memory that work in flight reads or writes.
//
// Metal orders two uses of the same MTLBuffer. Metal does not know about the host's copies to and from staging buffers,
// or that two buffers alias the same external memory, so these uses must wait until conflicting uses are over.
class PendingUses {
 public:
  struct Use {
    Use(const runtime::NDArray& array, bool writes, bool tracked)
        : begin(array.data()), end(begin + array.bytes()), writes(writes), tracked(tracked) {}
    const std::byte *begin, *end;
    bool writes;
    bool tracked;  // whether Metal orders this use: a pooled buffer, used by the device
  };
  // Mark the uses as pending as long as the returned token lives. All uses of a run are added in one call, because two
  // runs that each added a part of their uses could wait for each other forever.
  std::shared_ptr<const void> add(const std::vector<Use>& uses);      // waits for conflicting uses, then adds `uses`
  // returns null and adds nothing if there are conflicts
  std::shared_ptr<const void> try_add(const std::vector<Use>& uses);
  void wait_for(const Use& use);

 private:
  // The caller of the following functions must hold mutex_.
  bool conflicts(const std::vector<Use>& uses) const;
  std::shared_ptr<const void> insert(const std::vector<Use>& uses);
  std::mutex mutex_;
  std::condition_variable condition_;
  std::list<Use> uses_;
};

// Compile for the GPU only, in full precision, and before execution. By default, MPSGraph may place parts on the Neural
// Engine. Each use creates a new descriptor because several threads compile.
MPSGraphCompilationDescriptor* compilation_descriptor();
MPSGraphExecutionDescriptor* execution_descriptor();

class MetalDevice {
 public:
  static bool available();  // whether a device supports the Metal Performance Shaders
  MetalDevice();

  const id<MTLDevice> device;
  MPSGraphDevice* const graph_device;
  const std::shared_ptr<BufferPool> pool;
  // queue for work that is not part of a runtime command buffer, such as reads and writes of variables
  const id<MTLCommandQueue> queue;

  int apple_generation() const;
  std::string description() const;
  runtime::NDArray allocate(DType dtype, const Dims& dims);

  // The array must be contiguous and non-empty.
  BufferView view_of(const runtime::NDArray& array);
  ArrayData data_of(const runtime::NDArray& array);
  PendingUses uses;

 private:
  BufferView shared(const runtime::NDArray& array);  // returns no buffer if the memory cannot be shared
  BufferView staged(const runtime::NDArray& array);
};

MetalDevice& metal_device(runtime::Device& device);  // `device` must be the device "metal"

}  // namespace mpsgraph::metal
