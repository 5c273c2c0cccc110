// NDArray: dtype, shape and strides over a buffer that it owns or borrows.
//
// Views share the buffer and keep it alive. Nothing here converts element types.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>

#include "mpsgraph/core/errors.h"
#include "mpsgraph/core/types.h"
#include "mpsgraph/export.h"

namespace mpsgraph::runtime {

// What a device calls its own of a buffer's memory, e.g. an MTLBuffer over it.
class MPSGRAPH_API DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
};

// What memory is for: arrays and variables; what programs compute in between; constants of programs, packed as kernels
// read them.
enum class MemoryUse : uint8_t { arrays, arenas, packed_weights };

struct BufferStatistics {
  size_t live_bytes = 0, peak_live_bytes = 0;  // owned buffers, as rounded up
  size_t cached_bytes = 0, cache_limit = 0;    // freed blocks that wait for the next buffer of their size
  uint64_t allocations = 0, reused = 0;
  std::array<size_t, 3> live_by_use{}, peak_by_use{};  // by MemoryUse, as rounded up
};

// A block of memory. Owned blocks are aligned to 64 bytes and come from a cache, because fresh pages cost
// 1.15 us each; borrowed ones call `release` when the last user is gone.
class MPSGRAPH_API Buffer {
 public:
  // DeviceError when it cannot be met.
  static std::shared_ptr<Buffer> allocate(size_t bytes, MemoryUse use = MemoryUse::arrays);
  static std::shared_ptr<Buffer> borrow(void* data, size_t bytes, std::function<void()> release, bool writable = true);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  bool writable() const { return writable_; }
  bool owned() const { return !release_; }
  // Memory that a device allocated; null for all other.
  DeviceMemory* device_memory() const { return device_memory_.get(); }
  static std::shared_ptr<Buffer> of_device(void* data, size_t bytes, std::unique_ptr<DeviceMemory> memory);
  static BufferStatistics statistics();
  static void set_cache_limit(size_t bytes);              // default 256 MiB; 0 frees at once

 private:
  Buffer() = default;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  bool writable_ = true;
  MemoryUse use_ = MemoryUse::arrays;
  std::function<void()> release_;
  std::unique_ptr<DeviceMemory> device_memory_;
};

class MPSGRAPH_API NDArray {
 public:
  NDArray() = default;                                           // empty handle: valid() is false
  static NDArray allocate(DType dtype, Dims dims);               // contiguous, not initialised
  // Strides in elements. ShapeError when the view does not lie within the buffer.
  NDArray(std::shared_ptr<Buffer> buffer, DType dtype, Dims dims, Dims strides, size_t byte_offset = 0);

  // Over memory of others, with its first element at `first`. `release` is called once, also when this throws.
  static NDArray borrow(void* first, DType dtype, Dims dims, Dims strides, std::function<void()> release,
                        bool writable = true);

  bool valid() const { return buffer_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  const Dims& strides() const { return strides_; }               // in elements
  int64_t elements() const { return elements_; }
  size_t bytes() const { return static_cast<size_t>(elements_) * size_of(dtype_); }
  bool contiguous() const { return contiguous_; }
  bool writable() const { return buffer_->writable(); }
  std::byte* data() const { return buffer_->data() + byte_offset_; }
  TensorType type() const { return {dtype_, Shape(dims_)}; }
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }
  NDArray copy_contiguous() const;                               // always a new buffer
  void copy_from(const NDArray& source);                         // same dtype and shape; any strides

 private:
  std::shared_ptr<Buffer> buffer_;
  DType dtype_ = DType::float32;
  Dims dims_, strides_;
  size_t byte_offset_ = 0;
  int64_t elements_ = 0;
  bool contiguous_ = true;
};

// Do two arrays share bytes? (By their whole extents: strided arrays that interleave count as sharing.)
MPSGRAPH_API bool overlap(const NDArray& a, const NDArray& b);

// Copies made because an array could not be shared: of the wrong layout, or because the caller asked for a copy.
// Counted, so that a program that means to copy nothing can see that it does not.
MPSGRAPH_API NDArray counted_copy(const NDArray& source);
MPSGRAPH_API void count_copy();
MPSGRAPH_API uint64_t copy_count();

}  // namespace mpsgraph::runtime
