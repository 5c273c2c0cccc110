// The exception types that all layers throw. Python sees them under the same names.
//
// A message names the operation, what was expected, what was given, how to fix it, and where the operation was built,
// for example "[reshape] cannot reshape 12 elements to (5,3): source (3,4); built at model.py:41". The library throws
// no other exception types intentionally; any other exception that reaches a user is a bug.
#pragma once

#include <initializer_list>
#include <ostream>
#include <stdexcept>
#include <string>

#include "mpsgraph/export.h"

namespace mpsgraph {

// Base class of all errors of the library.
struct MPSGRAPH_API Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Thrown if a rank, dimension, size, or axis is wrong.
struct MPSGRAPH_API ShapeError : Error {
  using Error::Error;
};

// Thrown if an index, class index, or length is out of range.
struct MPSGRAPH_API OutOfRangeError : Error {
  using Error::Error;
};

// Thrown if dtypes do not match or are not supported.
struct MPSGRAPH_API DTypeError : Error {
  using Error::Error;
};

// Thrown if the structure of a graph is wrong: tensors of another graph, missing feeds, invalid names or attributes, or
// text that cannot be parsed.
struct MPSGRAPH_API GraphError : Error {
  using Error::Error;
};

// Thrown if a package is damaged, is not a package, or cannot be written.
struct MPSGRAPH_API PackageError : Error {
  using Error::Error;
};

// Thrown if the request is valid, but this device or configuration does not support it.
struct MPSGRAPH_API UnsupportedError : Error {
  using Error::Error;
};

// Thrown if a run failed for a reason outside the graph, such as memory, queues, command buffers, or a fork.
struct MPSGRAPH_API DeviceError : Error {
  using Error::Error;
};

// Thrown if an event or command buffer was not completed in time.
struct MPSGRAPH_API TimeoutError : DeviceError {
  using DeviceError::DeviceError;
};

// Thrown by a run that was cancelled. Variables have the values from before the run.
struct MPSGRAPH_API CancelledError : DeviceError {
  using DeviceError::DeviceError;
};

// Thrown if there is not enough memory.
struct MPSGRAPH_API OutOfMemoryError : DeviceError {
  using DeviceError::DeviceError;
};

// Thrown if a graph or a file exceeds a limit that the caller has set for untrusted input.
struct MPSGRAPH_API LimitError : Error {
  using Error::Error;
};

// Concatenates its arguments, for example cat("a", 1, shape), by writing each of them to a stream.
class MPSGRAPH_API Piece {  // one argument of cat(): a value that can be written to a stream, with its type erased
 public:
  template <class T>
  Piece(const T& value)
      : value_(&value), write_([](std::ostream& out, const void* p) { out << *static_cast<const T*>(p); }) {}
  Piece(const char* text) : value_(text), write_(write_text) {}
  static std::string join(std::initializer_list<Piece> pieces);

 private:
  static void write_text(std::ostream& out, const void* text);
  const void* value_;
  void (*write_)(std::ostream&, const void*);
};

template <class... Args>
std::string cat(const Args&... args) {
  return Piece::join({Piece(args)...});
}

}  // namespace mpsgraph
