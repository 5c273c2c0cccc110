// Devices and arrays.
#pragma once

#include <cstddef>
#include <memory>

#include "mpsgraph/application/base.hpp"

namespace mpsgraph::application {

// A device, such as "cpu" or "metal". A default-constructed Device means the default device.
class Device : public Shared<mpsgraph_device> {
 public:
  using Shared::Shared;
  // Opens the device with this name.
  explicit Device(const char* device_name)
      : Shared(made([&](mpsgraph_device* device) { return mpsgraph_device_open(device_name, device); })) {}
  // Returns the names of all available devices, starting with that of the default device.
  static std::vector<std::string> names() {
    size_t count;
    check(mpsgraph_device_count(&count));
    std::vector<std::string> found;
    for (size_t i = 0; i < count; ++i)
      found.push_back(text_of([&](char* buffer, size_t capacity, size_t* length) {
        return mpsgraph_device_name_at(i, buffer, capacity, length);
      }));
    return found;
  }
  std::string name() const {
    return text_of([&](char* buffer, size_t capacity, size_t* length) {
      return mpsgraph_device_name(opened().handle(), buffer, capacity, length);
    });
  }
  // Returns a description for people, such as the instruction set and the number of threads.
  std::string description() const {
    return text_of([&](char* buffer, size_t capacity, size_t* length) {
      return mpsgraph_device_description(opened().handle(), buffer, capacity, length);
    });
  }

 private:
  Device opened() const { return *this ? *this : Device(static_cast<const char*>(nullptr)); }
};

// The library's version, such as "0.1.0".
inline const char* version() { return mpsgraph_version(); }
// The number of threads that the CPU device uses. set_thread_count(0) means automatic.
inline int32_t thread_count() {
  int32_t count;
  check(mpsgraph_thread_count(&count));
  return count;
}
inline void set_thread_count(int32_t count) { check(mpsgraph_set_thread_count(count)); }
// Statistics of the memory of all devices, and the number of freed bytes that each device keeps for new arrays.
inline mpsgraph_memory_statistics memory_statistics() {
  mpsgraph_memory_statistics statistics;
  check(mpsgraph_get_memory_statistics(&statistics));
  return statistics;
}
inline void set_memory_cache_limit(uint64_t bytes) { check(mpsgraph_set_memory_cache_limit(bytes)); }

// An array in CPU memory. Copies of an Array share its elements.
class Array : public Shared<mpsgraph_array> {
 public:
  using Shared::Shared;
  static Array zeros(const mpsgraph_type& wanted) {
    return Array(made([&](mpsgraph_array* array) { return mpsgraph_array_create(&wanted, array); }));
  }
  // Returns an array with a copy of `values` in row-major order.
  template <class T>
  static Array of(std::span<const int64_t> dims, std::span<const T> values) {
    const Array array = zeros(application::type(dtype_of<T>(), dims));
    check(mpsgraph_array_write(array.handle(), values.data(), values.size_bytes()));
    return array;
  }
  template <class T>
  static Array of(std::initializer_list<int64_t> dims, std::span<const T> values) {
    return of<T>(std::span(dims.begin(), dims.size()), values);
  }
  template <class T>
  static Array of(std::initializer_list<int64_t> dims, std::initializer_list<T> values) {
    return of<T>(std::span(dims.begin(), dims.size()), std::span(values.begin(), values.size()));
  }
  // Returns an array of rank 0.
  template <class T>
  static Array scalar(T value) {
    return of<T>({}, std::span<const T>(&value, 1));
  }
  // Returns an array in which all elements have this value.
  template <class T>
  static Array full(std::span<const int64_t> dims, T value) {
    const Array array = zeros(application::type(dtype_of<T>(), dims));
    for (T& element : array.span<T>()) element = value;
    return array;
  }
  template <class T>
  static Array full(std::initializer_list<int64_t> dims, T value) {
    return full<T>(std::span(dims.begin(), dims.size()), value);
  }
  // Returns an array over the caller's memory without copying it. The memory must outlive the array and all runs that
  // use it. `strides` are in elements; none means row-major.
  template <class T>
  static Array over(std::span<const int64_t> dims, std::span<T> memory, std::span<const int64_t> strides = {}) {
    return over_memory(application::type(dtype_of<T>(), dims), const_cast<std::remove_const_t<T>*>(memory.data()),
                       memory.size_bytes(), !std::is_const_v<T>, strides, nullptr, nullptr);
  }
  template <class T>
  static Array over(std::initializer_list<int64_t> dims, std::span<T> memory) {
    return over<T>(std::span(dims.begin(), dims.size()), memory);
  }
  // Returns an array over a vector, which the array owns.
  template <class T>
  static Array owning(std::span<const int64_t> dims, std::vector<T> values) {
    static_assert(!std::is_same_v<T, bool>, "a std::vector<bool> has no elements in memory; use std::vector<uint8_t>");
    auto held = std::make_unique<std::vector<T>>(std::move(values));
    Array array = over_memory(
        application::type(dtype_of<T>(), dims), held->data(), held->size() * sizeof(T), true, {},
        [](void*, void* context) { delete static_cast<std::vector<T>*>(context); }, held.get());
    held.release();  // the deleter deletes the vector
    return array;
  }
  template <class T>
  static Array owning(std::initializer_list<int64_t> dims, std::vector<T> values) {
    return owning<T>(std::span(dims.begin(), dims.size()), std::move(values));
  }
  // Shares memory with another library through DLPack. from_dlpack() takes ownership of the structure; the caller must
  // call the deleter of the structure that to_dlpack() returns. The overloads and names with `versioned` are for DLPack
  // 1.0.
  static Array from_dlpack(DLManagedTensor* managed) {
    return Array(made([&](mpsgraph_array* array) { return mpsgraph_array_from_dlpack(managed, array); }));
  }
  static Array from_dlpack(DLManagedTensorVersioned* managed) {
    return Array(made([&](mpsgraph_array* array) { return mpsgraph_array_from_dlpack_versioned(managed, array); }));
  }
  DLManagedTensor* to_dlpack() const {
    DLManagedTensor* managed;
    check(mpsgraph_array_to_dlpack(handle(), &managed));
    return managed;
  }
  DLManagedTensorVersioned* to_dlpack_versioned() const {
    DLManagedTensorVersioned* managed;
    check(mpsgraph_array_to_dlpack_versioned(handle(), &managed));
    return managed;
  }

  mpsgraph_type type() const {
    mpsgraph_type result;
    check(mpsgraph_array_type(handle(), &result));
    return result;
  }
  mpsgraph_dtype dtype() const { return type().dtype; }
  std::vector<int64_t> shape() const { return shape_of(type()); }
  // Returns the stride of each axis in elements.
  std::vector<int64_t> strides() const {
    std::vector<int64_t> result(static_cast<size_t>(type().rank));
    check(mpsgraph_array_strides(handle(), result.data(), result.size()));
    return result;
  }
  // Returns the array's own memory, which is valid as long as the array exists. Throws Failure if the elements are not
  // of type T.
  template <class T>
  std::span<T> span() const {
    require<T>();
    void* data;
    size_t bytes;
    check(mpsgraph_array_data(handle(), &data, &bytes));
    return {static_cast<T*>(data), bytes / sizeof(T)};
  }
  // Copies all elements out of the array, or into it, in row-major order.
  template <class T>
  std::vector<T> values() const {
    require<T>();
    size_t count = 1;
    for (const int64_t size : shape()) count *= static_cast<size_t>(size);
    std::vector<T> result(count);
    check(mpsgraph_array_read(handle(), result.data(), count * sizeof(T)));
    return result;
  }
  template <class T>
  void write(std::span<const T> values) const {
    require<T>();
    check(mpsgraph_array_write(handle(), values.data(), values.size_bytes()));
  }
  // Returns the value of an array with one element.
  template <class T>
  T item() const {
    T value;
    require<T>();
    check(mpsgraph_array_read(handle(), &value, sizeof value));
    return value;
  }

 private:
  template <class T>
  void require() const {
    if (dtype() != dtype_of<T>())
      throw Failure(MPSGRAPH_DTYPE_ERROR,
                    "the array's dtype must match the requested element type T, but the dtypes differ; call dtype() to "
                    "query the dtype");
  }
  static Array over_memory(const mpsgraph_type& wanted, void* memory, size_t bytes, bool writable,
                           std::span<const int64_t> strides, mpsgraph_deleter deleter, void* context) {
    if (!strides.empty() && strides.size() != static_cast<size_t>(wanted.rank))
      throw Failure(MPSGRAPH_SHAPE_ERROR, "strides must have one element for each axis, got " +
                                              std::to_string(strides.size()) + " for rank " +
                                              std::to_string(wanted.rank));
    return Array(made([&](mpsgraph_array* array) {
      return mpsgraph_array_from_memory(&wanted, strides.empty() ? nullptr : strides.data(), memory, bytes, writable,
                                        deleter, context, array);
    }));
  }
};

}  // namespace mpsgraph::application
