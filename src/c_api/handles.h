// Handles, through which C programs refer to objects, and the lookup of their objects at the start of every function.
//
// A handle is a number that is used only once during the lifetime of the process. A registry maps each live handle to
// its object and kind. Released handles, handles of a different kind, and arbitrary values are therefore detected
// without accessing the memory that they seem to point to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mpsgraph/core/errors.h"
#include "mpsgraph/core/types.h"
#include "mpsgraph/mpsgraph.h"

namespace mpsgraph::c_api {

// An error in a call itself, such as an invalid argument or handle.
struct Failure : Error {
  Failure(mpsgraph_status status, const std::string& message) : Error(message), status(status) {}
  mpsgraph_status status;
};

enum class HandleKind : uint8_t {
  device,
  array,
  graph,
  tensor,
  operation,
  attributes,
  executable,
  execution,
  queue,
  command_buffer,
  event,
  trainer
};
std::string_view name(HandleKind kind);

struct Object {
  explicit Object(HandleKind kind) : kind(kind) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  const HandleKind kind;
};

// A counted handle lives until release() has been called once for give() and once for each retain(). A handle with
// ownership `of_graph` lives until the graph that owns its object calls forget().
enum class Ownership { counted, of_graph };
void* give(std::shared_ptr<Object> object, Ownership ownership = Ownership::counted);
std::shared_ptr<Object> find(void* handle,
                             HandleKind kind);  // throws Failure if the handle is invalid or of another kind
void retain(void* handle);
void release(void* handle);
void forget(void* handle) noexcept;  // removes a handle regardless of its reference count

template <class T>
std::shared_ptr<T> object(void* handle) {
  return std::static_pointer_cast<T>(find(handle, T::its_kind));
}

// The objects that an array of `count` handles refers to.
template <class T, class Handle>
std::vector<std::shared_ptr<T>> objects(const Handle* handles, size_t count);

// ---- functions of the interface -------------------------------------------------------------------------------------

mpsgraph_status report(std::exception_ptr error) noexcept;  // stores the message for this thread
mpsgraph_status status_of(const std::exception_ptr& error, std::string& message);

template <class Body>
mpsgraph_status guarded(Body&& body) noexcept {
  try {
    body();
    return MPSGRAPH_OK;
  } catch (...) {
    return report(std::current_exception());
  }
}

template <class T>
T* required(T* pointer, std::string_view what) {
  if (!pointer) throw Failure(MPSGRAPH_INVALID_ARGUMENT, cat(what, " must not be NULL"));
  return pointer;
}

inline constexpr size_t most_items = size_t{1} << 20;
template <class T>
void require_items(const T* items, size_t count, std::string_view what) {
  if (count > most_items)
    throw Failure(MPSGRAPH_INVALID_ARGUMENT, cat(what, " must have at most ", most_items, " items, got ", count));
  if (count > 0) required(items, what);
}

template <class T, class Handle>
std::vector<std::shared_ptr<T>> objects(const Handle* handles, size_t count) {
  require_items(handles, count, "the list of handles");
  std::vector<std::shared_ptr<T>> result;
  for (size_t i = 0; i < count; ++i) result.push_back(object<T>(handles[i]));
  return result;
}

void write_text(std::string_view text, char* buffer, size_t capacity, size_t* length);
DType to_dtype(mpsgraph_dtype dtype);
TensorType to_type(const mpsgraph_type* type);
mpsgraph_type from_type(const TensorType& type);

}  // namespace mpsgraph::c_api
