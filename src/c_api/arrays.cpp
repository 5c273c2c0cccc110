// Arrays of the C interface: memory owned by the library or by the caller, DLPack, and copies in and out.
#include <atomic>
#include <cstring>

#include "c_api/objects.h"
#include "mpsgraph/runtime/dlpack.h"

using namespace mpsgraph;
using namespace mpsgraph::c_api;
using runtime::NDArray;

namespace {

// Number of bytes from the first element of an array to the end of its last element. Throws ShapeError if this number
// overflows.
size_t extent(const Dims& dims, const Dims& strides, DType dtype) {
  int64_t last = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0) return 0;
    int64_t step;
    if (__builtin_mul_overflow(dims[i] - 1, strides[i], &step) || __builtin_add_overflow(last, step, &last))
      throw ShapeError(cat("the size of an array of shape ", to_string(dims), " with strides ", to_string(strides),
                           " overflows; use smaller dimensions or strides"));
  }
  size_t bytes;
  if (__builtin_mul_overflow(static_cast<size_t>(last) + 1, size_of(dtype), &bytes))
    throw ShapeError(cat("the size of an array of shape ", to_string(dims), " overflows; use smaller dimensions"));
  return bytes;
}

Dims known_dims(const TensorType& type) {
  if (!type.shape.known())
    throw ShapeError(
        cat("an array must have a static shape, got ", to_string(type), "; give the size of each dimension"));
  element_count(type.shape.dims());  // throws if the number of elements overflows
  return type.shape.dims();
}

void give_array(NDArray array, mpsgraph_array* result) {
  *result = static_cast<mpsgraph_array>(give(std::make_shared<ArrayObject>(std::move(array))));
}

void require_size(const NDArray& array, size_t bytes) {
  if (bytes != array.bytes())
    throw Failure(MPSGRAPH_INVALID_ARGUMENT, cat("the number of bytes must be ", array.bytes(),
                                                 " for an array of type ", to_string(array.type()), ", got ", bytes));
}

}  // namespace

mpsgraph_status mpsgraph_array_create(const mpsgraph_type* type, mpsgraph_array* array) {
  return guarded([&] {
    required(array, "array");
    const TensorType wanted = to_type(type);
    const Dims dims = known_dims(wanted);
    extent(dims, contiguous_strides(dims), wanted.dtype);
    NDArray made = NDArray::allocate(wanted.dtype, dims);
    if (made.bytes() > 0) std::memset(made.data(), 0, made.bytes());
    give_array(std::move(made), array);
  });
}

mpsgraph_status mpsgraph_array_from_memory(const mpsgraph_type* type, const int64_t* strides, void* data, size_t bytes,
                                           int32_t writable, mpsgraph_deleter deleter, void* context,
                                           mpsgraph_array* array) {
  return guarded([&] {
    required(array, "array");
    required(data, "data");
    const TensorType wanted = to_type(type);
    const Dims dims = known_dims(wanted);
    const Dims steps = strides ? Dims(strides, strides + dims.size()) : contiguous_strides(dims);
    for (const int64_t step : steps)
      if (step < 0)
        throw Failure(MPSGRAPH_INVALID_ARGUMENT, cat("strides must not be negative, got ", to_string(steps)));
    const size_t needed = extent(dims, steps, wanted.dtype);
    if (needed > bytes)
      throw Failure(MPSGRAPH_INVALID_ARGUMENT,
                    cat("the memory for an array of type ", to_string(wanted), " with strides ", to_string(steps),
                        " must have at least ", needed, " bytes, got ", bytes));
    const size_t alignment = size_of(real_type(wanted.dtype));
    if (reinterpret_cast<uintptr_t>(data) % alignment != 0)
      throw Failure(MPSGRAPH_INVALID_ARGUMENT, cat("the memory for an array of ", name(wanted.dtype),
                                                   " must be aligned to ", alignment, " bytes"));
    const auto taken = std::make_shared<std::atomic<bool>>(false);  // stays false if a later statement throws
    NDArray made = NDArray::borrow(
        data, wanted.dtype, dims, steps,
        [=] {
          if (deleter && *taken) deleter(data, context);
        },
        writable != 0);
    give_array(std::move(made), array);
    *taken = true;
  });
}

mpsgraph_status mpsgraph_array_from_dlpack(DLManagedTensor* managed, mpsgraph_array* array) {
  return guarded([&] {
    required(array, "array");
    give_array(runtime::from_dlpack(required(managed, "managed")), array);
  });
}

mpsgraph_status mpsgraph_array_to_dlpack(mpsgraph_array array, DLManagedTensor** managed) {
  return guarded([&] { *required(managed, "managed") = runtime::to_dlpack(object<ArrayObject>(array)->array); });
}

mpsgraph_status mpsgraph_array_from_dlpack_versioned(DLManagedTensorVersioned* managed, mpsgraph_array* array) {
  return guarded([&] {
    required(array, "array");
    give_array(runtime::from_dlpack(required(managed, "managed")), array);
  });
}

mpsgraph_status mpsgraph_array_to_dlpack_versioned(mpsgraph_array array, DLManagedTensorVersioned** managed) {
  return guarded(
      [&] { *required(managed, "managed") = runtime::to_dlpack_versioned(object<ArrayObject>(array)->array); });
}

mpsgraph_status mpsgraph_array_type(mpsgraph_array array, mpsgraph_type* type) {
  return guarded([&] { *required(type, "type") = from_type(object<ArrayObject>(array)->array.type()); });
}

mpsgraph_status mpsgraph_array_strides(mpsgraph_array array, int64_t* strides, size_t capacity) {
  return guarded([&] {
    const auto source = object<ArrayObject>(array);
    const Dims& steps = source->array.strides();
    if (capacity < steps.size())
      throw Failure(MPSGRAPH_BUFFER_TOO_SMALL,
                    cat("the buffer must have room for ", steps.size(), " stride(s), got a capacity of ", capacity));
    if (!steps.empty()) std::copy(steps.begin(), steps.end(), required(strides, "strides"));
  });
}

mpsgraph_status mpsgraph_array_data(mpsgraph_array array, void** data, size_t* bytes) {
  return guarded([&] {
    required(data, "data");
    const auto source = object<ArrayObject>(array);
    const NDArray& held = source->array;
    for (const int64_t step : held.strides())
      if (step < 0)
        throw UnsupportedError(
            "the data of an array with negative strides cannot be accessed, because it begins before the first "
            "element; copy it with mpsgraph_array_read");
    *data = held.data();
    if (bytes) *bytes = extent(held.dims(), held.strides(), held.dtype());
  });
}

mpsgraph_status mpsgraph_array_read(mpsgraph_array array, void* destination, size_t bytes) {
  return guarded([&] {
    const auto source = object<ArrayObject>(array);
    require_size(source->array, bytes);
    if (bytes == 0) return;
    required(destination, "destination");
    const NDArray dense = source->array.contiguous() ? source->array : source->array.copy_contiguous();
    std::memcpy(destination, dense.data(), bytes);
  });
}

mpsgraph_status mpsgraph_array_write(mpsgraph_array array, const void* source, size_t bytes) {
  return guarded([&] {
    const auto target = object<ArrayObject>(array);
    require_size(target->array, bytes);
    if (!target->array.writable())
      throw Failure(MPSGRAPH_INVALID_ARGUMENT, "the array must be writable, but its memory is read-only");
    if (bytes == 0) return;
    required(source, "source");
    if (target->array.contiguous()) {
      std::memcpy(target->array.data(), source, bytes);
      return;
    }
    NDArray held = target->array;
    held.copy_from(NDArray::borrow(
        const_cast<void*>(source), held.dtype(), held.dims(), contiguous_strides(held.dims()), [] {}, false));
  });
}
