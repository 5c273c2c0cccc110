// NDArray: dtype, shape, and strides over a buffer that the array owns or borrows.
//
// Views share the buffer and keep it alive. No function in this file converts dtypes.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>

#include "mpsgraph/core/errors.h"
#include "mpsgraph/core/types.h"
#include "mpsgraph/export.h"

namespace mpsgraph::runtime {

// The device's own object for a buffer's memory, such as an MTLBuffer.
class MPSGRAPH_API DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
};

// The purpose of memory: `arrays` for arrays and variables, `arenas` for intermediate results of programs, and
// `packed_weights` for constants of programs in the layout that kernels read.
enum class MemoryUse : uint8_t { arrays, arenas, packed_weights };

// Statistics of the memory of buffers, in bytes.
struct BufferStatistics {
  size_t live_bytes = 0, peak_live_bytes = 0;  // owned buffers, with their sizes rounded up
  size_t cached_bytes = 0, cache_limit = 0;    // freed blocks that are kept for new buffers of their size
  uint64_t allocations = 0, reused = 0;
  std::array<size_t, 3> live_by_use{}, peak_by_use{};  // indexed by MemoryUse, with sizes rounded up
};

// A block of memory. Owned blocks are aligned to 64 bytes and come from a cache, because new pages cost 1.15 us each.
// Borrowed blocks call `release` when the last reference to them is gone.
class MPSGRAPH_API Buffer {
 public:
  // Throws DeviceError if the memory cannot be allocated.
  static std::shared_ptr<Buffer> allocate(size_t bytes, MemoryUse use = MemoryUse::arrays);
  static std::shared_ptr<Buffer> borrow(void* data, size_t bytes, std::function<void()> release, bool writable = true);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  bool writable() const { return writable_; }
  bool owned() const { return !release_; }
  // Returns the memory that a device allocated, or null for other buffers.
  DeviceMemory* device_memory() const { return device_memory_.get(); }
  static std::shared_ptr<Buffer> of_device(void* data, size_t bytes, std::unique_ptr<DeviceMemory> memory);
  static BufferStatistics statistics();
  // default: 256 MiB; with 0, freed blocks return to the system immediately
  static void set_cache_limit(size_t bytes);

 private:
  Buffer() = default;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  bool writable_ = true;
  MemoryUse use_ = MemoryUse::arrays;
  std::function<void()> release_;
  std::unique_ptr<DeviceMemory> device_memory_;
};

// An n-dimensional array in CPU memory. Copies of an NDArray share its buffer.
class MPSGRAPH_API NDArray {
 public:
  NDArray() = default;                                           // an empty handle, for which valid() is false
  static NDArray allocate(DType dtype, Dims dims);               // contiguous and uninitialized
  // Creates a view of a buffer, with strides counted in elements. Throws ShapeError if the view does not lie within the
  // buffer.
  NDArray(std::shared_ptr<Buffer> buffer, DType dtype, Dims dims, Dims strides, size_t byte_offset = 0);

  // Borrows memory whose first element is at `first`. `release` is called exactly once, even if this function throws.
  static NDArray borrow(void* first, DType dtype, Dims dims, Dims strides, std::function<void()> release,
                        bool writable = true);

  bool valid() const { return buffer_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  const Dims& strides() const { return strides_; }  // counted in elements
  int64_t elements() const { return elements_; }
  size_t bytes() const { return static_cast<size_t>(elements_) * size_of(dtype_); }
  bool contiguous() const { return contiguous_; }
  bool writable() const { return buffer_->writable(); }
  std::byte* data() const { return buffer_->data() + byte_offset_; }
  TensorType type() const { return {dtype_, Shape(dims_)}; }
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }
  NDArray copy_contiguous() const;  // always allocates a new buffer
  // `source` must have the same dtype and shape as this array; its strides may differ
  void copy_from(const NDArray& source);

 private:
  std::shared_ptr<Buffer> buffer_;
  DType dtype_ = DType::float32;
  Dims dims_, strides_;
  size_t byte_offset_ = 0;
  int64_t elements_ = 0;
  bool contiguous_ = true;
};

// Whether two arrays share memory. Their whole address ranges are compared, so interleaved strided arrays count as
// overlapping.
MPSGRAPH_API bool overlap(const NDArray& a, const NDArray& b);

// Copies made because an array could not be shared, either because of its layout or because the caller asked for a
// copy. The copies are counted so that a program can verify that it makes none.
MPSGRAPH_API NDArray counted_copy(const NDArray& source);
MPSGRAPH_API void count_copy();
MPSGRAPH_API uint64_t copy_count();

}  // namespace mpsgraph::runtime
