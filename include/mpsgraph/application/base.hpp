// Failures, owned handles, dtypes, and types, which all other headers of this folder use.
#pragma once

#include <complex>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mpsgraph/mpsgraph.h"

namespace mpsgraph::application {

// The exception that all functions throw for a status other than MPSGRAPH_OK. It holds the status and the error
// message.
class Failure : public std::runtime_error {
 public:
  Failure(mpsgraph_status reason, const std::string& message) : std::runtime_error(message), status(reason) {}
  const mpsgraph_status status;
  // Returns the name of the status, such as "shape error".
  const char* status_name() const { return mpsgraph_status_name(status); }
};

// Throws Failure unless `status` is MPSGRAPH_OK.
inline void check(mpsgraph_status status) {
  if (status != MPSGRAPH_OK) throw Failure(status, mpsgraph_error_message());
}

// Owns one reference to the object behind a handle. Copies refer to the same object.
template <class Handle>
class Shared {
 public:
  Shared() = default;
  explicit Shared(Handle handle) : handle_(handle) {}  // takes ownership of one reference
  Shared(const Shared& other) : handle_(other.handle_) {
    if (handle_) application::check(mpsgraph_retain(handle_));
  }
  Shared(Shared&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Shared() { mpsgraph_release(handle_); }
  Handle handle() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }

 protected:
  // Returns the object that a function of the C interface stores through a pointer.
  template <class Make>
  static Handle made(Make&& make) {
    Handle handle = nullptr;
    application::check(make(&handle));
    return handle;
  }

 private:
  Handle handle_ = nullptr;
};

// Returns the text that a function of the C interface writes into a buffer.
template <class Write>
std::string text_of(Write&& write) {
  size_t length;
  check(write(nullptr, 0, &length));
  std::string text(length + 1, '\0');
  check(write(text.data(), text.size(), &length));
  text.resize(length);
  return text;
}

// Returns the handles of objects, such as arrays.
template <class Objects>
auto handles(const Objects& objects) {
  std::vector<std::decay_t<decltype(std::begin(objects)->handle())>> result;
  result.reserve(std::size(objects));
  for (const auto& object : objects) result.push_back(object.handle());
  return result;
}

// A sequence of arguments: a braced list, a vector, an array, or a span. It must not outlive the sequence.
template <class T>
class List : public std::span<const T> {
 public:
  List() = default;
  List(std::initializer_list<T> items) : std::span<const T>(std::data(items), items.size()) {}
  List(const T* items, size_t count) : std::span<const T>(items, count) {}
  template <class Range>
    requires std::is_convertible_v<const Range&, std::span<const T>>
  List(const Range& items) : std::span<const T>(items) {}
};

// Returns the dtype of elements of type T. Does not compile if no dtype corresponds to T.
template <class T>
constexpr mpsgraph_dtype dtype_of() {
  using Element = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<Element, float>)
    return MPSGRAPH_FLOAT32;
  else if constexpr (std::is_same_v<Element, double>)
    return MPSGRAPH_FLOAT64;
  else if constexpr (std::is_same_v<Element, bool>)
    return MPSGRAPH_BOOL;
  else if constexpr (std::is_same_v<Element, int8_t>)
    return MPSGRAPH_INT8;
  else if constexpr (std::is_same_v<Element, int16_t>)
    return MPSGRAPH_INT16;
  else if constexpr (std::is_same_v<Element, int32_t>)
    return MPSGRAPH_INT32;
  else if constexpr (std::is_same_v<Element, int64_t>)
    return MPSGRAPH_INT64;
  else if constexpr (std::is_same_v<Element, uint8_t>)
    return MPSGRAPH_UINT8;
  else if constexpr (std::is_same_v<Element, uint16_t>)
    return MPSGRAPH_UINT16;
  else if constexpr (std::is_same_v<Element, uint32_t>)
    return MPSGRAPH_UINT32;
  else if constexpr (std::is_same_v<Element, uint64_t>)
    return MPSGRAPH_UINT64;
  else if constexpr (std::is_same_v<Element, std::complex<float>>)
    return MPSGRAPH_COMPLEX64;
  else if constexpr (std::is_same_v<Element, std::complex<double>>)
    return MPSGRAPH_COMPLEX128;
  else
    static_assert(!sizeof(T), "the element type must have a corresponding dtype, as float and int32_t do");
}

// Returns a type with this dtype and shape; -1 means an unknown dimension.
inline mpsgraph_type type(mpsgraph_dtype dtype, std::span<const int64_t> dims) {
  if (dims.size() > MPSGRAPH_MAX_RANK)
    throw Failure(MPSGRAPH_INVALID_ARGUMENT,
                  "a type must have at most 16 dimensions, got " + std::to_string(dims.size()));
  mpsgraph_type result{dtype, static_cast<int32_t>(dims.size()), {}};
  for (size_t i = 0; i < dims.size(); ++i) result.dims[i] = dims[i];
  return result;
}
inline mpsgraph_type type(mpsgraph_dtype dtype, std::initializer_list<int64_t> dims) {
  return type(dtype, std::span(dims.begin(), dims.size()));
}
// Returns a type of unknown rank.
inline mpsgraph_type unranked_type(mpsgraph_dtype dtype) { return {dtype, -1, {}}; }

// Returns the shape of a type. Throws Failure if the rank is unknown; an unknown dimension is -1.
inline std::vector<int64_t> shape_of(const mpsgraph_type& of) {
  if (of.rank < 0) throw Failure(MPSGRAPH_SHAPE_ERROR, "the type must have a known rank to return its shape");
  return {of.dims, of.dims + of.rank};
}

}  // namespace mpsgraph::application
