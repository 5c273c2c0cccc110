// Validation and strided copies of NDArrays.
#include "mpsgraph/runtime/ndarray.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "mpsgraph/runtime/profiler.h"

namespace mpsgraph::runtime {

namespace {

std::atomic<uint64_t> copies{0};

bool is_contiguous(const Dims& dims, const Dims& strides) {
  // An empty array is contiguous whatever its strides are.
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return true;
  int64_t expected = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    if (dims[axis] != 1 && strides[axis] != expected) return false;
    expected *= dims[axis];
  }
  return true;
}

// Offsets of the lowest and highest elements of a view, relative to its first element and both inclusive; the range is
// empty for an array without elements.
std::pair<int64_t, int64_t> extent(const Dims& dims, const Dims& strides) {
  int64_t lowest = 0, highest = 0;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    int64_t reach, *end = strides[axis] < 0 ? &lowest : &highest;
    if (__builtin_mul_overflow(dims[axis] - 1, strides[axis], &reach) || __builtin_add_overflow(*end, reach, end))
      throw ShapeError(
          cat("the strides ", to_string(strides), " of an array of shape ", to_string(dims), " are too large"));
  }
  return {lowest, highest};
}

// Copies elements between two memory layouts of the same shape. The trailing axes that are contiguous in both layouts
// are copied as blocks, and the index of the remaining axes is advanced like an odometer.
void copy_strided(std::byte* to, const Dims& to_strides, const std::byte* from, const Dims& from_strides,
                  const Dims& dims, size_t item) {
  int rank = static_cast<int>(dims.size());
  int64_t block = 1;
  while (rank > 0 && (dims[rank - 1] == 1 || (to_strides[rank - 1] == block && from_strides[rank - 1] == block)))
    block *= dims[--rank];
  const size_t bytes = static_cast<size_t>(block) * item;
  const auto step = [&](const Dims& strides, int axis) { return strides[axis] * static_cast<int64_t>(item); };
  int64_t index[max_rank] = {};
  for (;;) {
    std::memcpy(to, from, bytes);
    int axis = rank - 1;
    for (; axis >= 0; --axis) {
      to += step(to_strides, axis);
      from += step(from_strides, axis);
      if (++index[axis] < dims[axis]) break;
      index[axis] = 0;
      to -= step(to_strides, axis) * dims[axis];
      from -= step(from_strides, axis) * dims[axis];
    }
    if (axis < 0) return;
  }
}

}  // namespace

NDArray NDArray::allocate(DType dtype, Dims dims) {
  const int64_t elements = element_count(dims);
  size_t bytes;
  if (__builtin_mul_overflow(static_cast<size_t>(elements), size_of(dtype), &bytes))
    throw ShapeError(
        cat("the size in bytes of an array of shape ", to_string(dims), " and dtype ", name(dtype), " overflows"));
  auto strides = contiguous_strides(dims);
  return NDArray(Buffer::allocate(bytes), dtype, std::move(dims), std::move(strides));
}

NDArray::NDArray(std::shared_ptr<Buffer> buffer, DType dtype, Dims dims, Dims strides, size_t byte_offset)
    : buffer_(std::move(buffer)),
      dtype_(dtype),
      dims_(std::move(dims)),
      strides_(std::move(strides)),
      byte_offset_(byte_offset) {
  if (dims_.size() > max_rank)
    throw ShapeError(cat("an array must have at most ", max_rank, " dimensions, got ", dims_.size()));
  if (dims_.size() != strides_.size())
    throw ShapeError(cat("an array must have one stride per dimension, got ", strides_.size(), " stride(s) for shape ",
                         to_string(dims_)));
  elements_ = element_count(dims_);
  contiguous_ = is_contiguous(dims_, strides_);
  if (elements_ == 0) return;
  const auto [lowest, highest] = extent(dims_, strides_);
  const auto item = static_cast<__int128>(size_of(dtype_));
  const auto first = static_cast<__int128>(byte_offset_) + lowest * item;
  const auto end = static_cast<__int128>(byte_offset_) + (highest + __int128{1}) * item;
  if (first < 0 || end > static_cast<__int128>(buffer_->bytes()))
    throw ShapeError(cat("a view of shape ", to_string(dims_), " with strides ", to_string(strides_),
                         " at byte offset ", byte_offset_, " does not lie within its buffer of ", buffer_->bytes(),
                         " bytes"));
}

NDArray NDArray::borrow(void* first, DType dtype, Dims dims, Dims strides, std::function<void()> release,
                        bool writable) {
  // The buffer covers the memory between the view's lowest and highest elements. With negative strides, the lowest
  // element lies before the view's first element.
  int64_t offset = 0, bytes = 0;
  try {
    if (dims.size() > max_rank || dims.size() != strides.size())
      throw ShapeError(cat("an array must have at most ", max_rank, " dimensions and one stride per dimension, got ",
                           dims.size(), " dimension(s) and ", strides.size(), " stride(s)"));
    if (element_count(dims) > 0) {
      const auto [lowest, highest] = extent(dims, strides);
      const auto item = static_cast<int64_t>(size_of(dtype));
      if (__builtin_mul_overflow(-lowest, item, &offset) || __builtin_mul_overflow(highest - lowest + 1, item, &bytes))
        throw ShapeError(
            cat("the strides ", to_string(strides), " of an array of shape ", to_string(dims), " are too large"));
    }
  } catch (...) {
    if (release) release();
    throw;
  }
  auto buffer =
      Buffer::borrow(static_cast<std::byte*>(first) - offset, static_cast<size_t>(bytes), std::move(release), writable);
  return NDArray(std::move(buffer), dtype, std::move(dims), std::move(strides), static_cast<size_t>(offset));
}

NDArray NDArray::copy_contiguous() const {
  NDArray result = allocate(dtype_, dims_);
  result.copy_from(*this);
  return result;
}

void NDArray::copy_from(const NDArray& source) {
  if (source.dtype_ != dtype_)
    throw DTypeError(cat("[copy] the source must have the destination's dtype ", name(dtype_), ", got ",
                         name(source.dtype_), "; cast one of them"));
  if (source.dims_ != dims_)
    throw ShapeError(cat("[copy] the source must have the destination's shape ", to_string(dims_), ", got ",
                         to_string(source.dims_)));
  if (!writable()) throw DeviceError("[copy] the destination must be writable, got a read-only array");
  if (elements_ == 0) return;
  ProfileScope scope("copy", "copy");
  copy_strided(data(), strides_, source.data(), source.strides_, dims_, size_of(dtype_));
}

bool overlap(const NDArray& a, const NDArray& b) {
  if (!a.elements() || !b.elements()) return false;
  const auto range = [](const NDArray& array) {
    const auto [lowest, highest] = extent(array.dims(), array.strides());
    const auto item = static_cast<int64_t>(size_of(array.dtype()));
    const auto base = reinterpret_cast<intptr_t>(array.data());
    return std::pair<intptr_t, intptr_t>{base + lowest * item, base + (highest + 1) * item};
  };
  const auto [a_begin, a_end] = range(a);
  const auto [b_begin, b_end] = range(b);
  return a_begin < b_end && b_begin < a_end;
}

NDArray counted_copy(const NDArray& source) {
  count_copy();
  return source.copy_contiguous();
}

void count_copy() { copies.fetch_add(1, std::memory_order_relaxed); }

uint64_t copy_count() { return copies.load(std::memory_order_relaxed); }

}  // namespace mpsgraph::runtime
