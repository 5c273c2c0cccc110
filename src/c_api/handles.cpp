// The registry of live handles, the conversion of exceptions to statuses, and the conversion of types and strings to
// their C form.
#include "c_api/handles.h"

#include <atomic>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <unordered_map>

#include "mpsgraph/core/check_error.h"

namespace mpsgraph::c_api {

static_assert(sizeof(void*) >= 8, "a handle must have 64 bits, so that no number is used twice");

namespace {

struct Entry {
  std::shared_ptr<Object> object;
  Ownership ownership;
  uint64_t count;
};

struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<uintptr_t, Entry> living;
  uintptr_t last = uintptr_t{1} << 32;  // starts above small numbers, because stray values are often small
};

Registry& registry() {
  static Registry* all = new Registry;  // never destroyed, because handlers may run until the process ends
  return *all;
}

uintptr_t number(void* handle) { return reinterpret_cast<uintptr_t>(handle); }

thread_local std::string last_message;

}  // namespace

std::string_view name(HandleKind kind) {
  constexpr std::string_view names[] = {"device",     "array",     "graph", "tensor",         "operation", "attributes",
                                        "executable", "execution", "queue", "command buffer", "event",     "trainer"};
  return names[static_cast<size_t>(kind)];
}

void* give(std::shared_ptr<Object> object, Ownership ownership) {
  Registry& all = registry();
  const std::unique_lock lock(all.mutex);
  all.last += 16;
  all.living.emplace(all.last, Entry{std::move(object), ownership, 1});
  return reinterpret_cast<void*>(all.last);
}

std::shared_ptr<Object> find(void* handle, HandleKind kind) {
  if (!handle) throw Failure(MPSGRAPH_INVALID_HANDLE, cat("the ", name(kind), " handle must not be NULL"));
  Registry& all = registry();
  const std::shared_lock lock(all.mutex);
  const auto found = all.living.find(number(handle));
  if (found == all.living.end())
    throw Failure(MPSGRAPH_INVALID_HANDLE, cat("the ", name(kind), " handle is invalid or was already released"));
  if (found->second.object->kind != kind)
    throw Failure(MPSGRAPH_INVALID_HANDLE,
                  cat("expected a handle of kind ", name(kind), ", got ", name(found->second.object->kind)));
  return found->second.object;
}

void retain(void* handle) {
  Registry& all = registry();
  const std::unique_lock lock(all.mutex);
  const auto found = all.living.find(number(handle));
  if (found == all.living.end())
    throw Failure(MPSGRAPH_INVALID_HANDLE, "the handle to retain is NULL, invalid, or was already released");
  ++found->second.count;
}

void release(void* handle) {
  if (!handle) return;
  // Declared before the lock, so that the object is destroyed after the lock is released: its destructor may remove
  // other handles from the registry, which takes the lock again.
  std::shared_ptr<Object> last;
  Registry& all = registry();
  const std::unique_lock lock(all.mutex);
  const auto found = all.living.find(number(handle));
  if (found == all.living.end())
    throw Failure(MPSGRAPH_INVALID_HANDLE, "the handle to release is invalid or was already released");
  if (found->second.ownership == Ownership::of_graph || --found->second.count > 0) return;
  last = std::move(found->second.object);
  all.living.erase(found);
}

void forget(void* handle) noexcept {
  std::shared_ptr<Object> last;
  Registry& all = registry();
  const std::unique_lock lock(all.mutex);
  const auto found = all.living.find(number(handle));
  if (found == all.living.end()) return;
  last = std::move(found->second.object);
  all.living.erase(found);
}

mpsgraph_status status_of(const std::exception_ptr& error, std::string& message) {
  try {
    std::rethrow_exception(error);
  } catch (const Failure& e) {
    return message = e.what(), e.status;
  } catch (const ShapeError& e) {
    return message = e.what(), MPSGRAPH_SHAPE_ERROR;
  } catch (const OutOfRangeError& e) {
    return message = e.what(), MPSGRAPH_OUT_OF_RANGE;
  } catch (const CheckError& e) {
    return message = e.what(), MPSGRAPH_CHECK_FAILED;
  } catch (const DTypeError& e) {
    return message = e.what(), MPSGRAPH_DTYPE_ERROR;
  } catch (const GraphError& e) {
    return message = e.what(), MPSGRAPH_GRAPH_ERROR;
  } catch (const PackageError& e) {
    return message = e.what(), MPSGRAPH_PACKAGE_ERROR;
  } catch (const UnsupportedError& e) {
    return message = e.what(), MPSGRAPH_UNSUPPORTED;
  } catch (const TimeoutError& e) {
    return message = e.what(), MPSGRAPH_TIMEOUT;
  } catch (const OutOfMemoryError& e) {
    return message = e.what(), MPSGRAPH_OUT_OF_MEMORY;
  } catch (const DeviceError& e) {
    return message = e.what(), MPSGRAPH_DEVICE_ERROR;
  } catch (const std::filesystem::filesystem_error& e) {
    return message = e.what(), MPSGRAPH_PACKAGE_ERROR;
  } catch (const std::bad_alloc&) {
    return message = "out of memory", MPSGRAPH_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    return message = e.what(), MPSGRAPH_INTERNAL_ERROR;
  } catch (...) {
    return message = "an exception that is not a std::exception was thrown", MPSGRAPH_INTERNAL_ERROR;
  }
}

mpsgraph_status report(std::exception_ptr error) noexcept {
  try {
    return status_of(error, last_message);
  } catch (...) {  // there was no memory for the message itself
    last_message.clear();
    return MPSGRAPH_OUT_OF_MEMORY;
  }
}

void write_text(std::string_view text, char* buffer, size_t capacity, size_t* length) {
  if (!buffer && (capacity > 0 || !length))
    throw Failure(
        MPSGRAPH_INVALID_ARGUMENT,
        "the buffer for the text must not be NULL; to query the length of the text, pass capacity 0 and `length`");
  if (length) *length = text.size();
  if (!buffer) return;
  if (capacity <= text.size())
    throw Failure(MPSGRAPH_BUFFER_TOO_SMALL,
                  cat("the buffer for the text must have at least ", text.size() + 1, " bytes, got ", capacity));
  std::memcpy(buffer, text.data(), text.size());
  buffer[text.size()] = 0;
}

DType to_dtype(mpsgraph_dtype dtype) {
  if (dtype < 0 || dtype >= dtype_count)
    throw Failure(MPSGRAPH_INVALID_ARGUMENT, cat("the dtype must be one of enum mpsgraph_dtype, got ", dtype));
  return static_cast<DType>(dtype);
}

TensorType to_type(const mpsgraph_type* type) {
  required(type, "the type");
  const DType dtype = to_dtype(type->dtype);
  if (type->rank < -1 || type->rank > MPSGRAPH_MAX_RANK)
    throw Failure(MPSGRAPH_INVALID_ARGUMENT,
                  cat("the rank must be between -1 and ", MPSGRAPH_MAX_RANK, ", got ", type->rank));
  if (type->rank < 0) return {dtype, Shape()};
  Dims dims(type->dims, type->dims + type->rank);
  for (const int64_t size : dims)
    if (size < -1) throw Failure(MPSGRAPH_INVALID_ARGUMENT, cat("a dimension must be at least -1, got ", size));
  return {dtype, Shape(std::move(dims))};
}

mpsgraph_type from_type(const TensorType& type) {
  mpsgraph_type result{static_cast<mpsgraph_dtype>(type.dtype), -1, {}};
  if (!type.shape.ranked()) return result;
  result.rank = type.shape.rank();
  for (int i = 0; i < result.rank && i < MPSGRAPH_MAX_RANK; ++i) result.dims[i] = type.shape[i];
  return result;
}

}  // namespace mpsgraph::c_api

using namespace mpsgraph::c_api;

mpsgraph_status mpsgraph_retain(void* handle) {
  return guarded([&] { retain(handle); });
}

mpsgraph_status mpsgraph_release(void* handle) {
  return guarded([&] { release(handle); });
}

const char* mpsgraph_error_message(void) { return last_message.c_str(); }

const char* mpsgraph_status_name(mpsgraph_status status) {
  constexpr const char* names[] = {
      "ok",           "invalid argument", "invalid handle", "buffer too small", "shape error",
      "out of range", "dtype error",      "graph error",    "package error",    "unsupported",
      "device error", "timeout",          "out of memory",  "internal error",   "check failed"};
  return status >= 0 && status <= MPSGRAPH_CHECK_FAILED ? names[status] : "unknown status";
}
