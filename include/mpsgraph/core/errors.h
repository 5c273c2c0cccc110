// The typed errors that every layer throws and that Python sees under the same names.
//
// A message says the operation, what was expected, what came, what to do, and where the operation
// was built: "[reshape] 12 elements cannot become (5,3): source (3,4); built at model.py:41".
// Nothing else is thrown on purpose; anything else that reaches a user is a bug.
#pragma once

#include <initializer_list>
#include <ostream>
#include <stdexcept>
#include <string>

#include "mpsgraph/export.h"

namespace mpsgraph {

struct MPSGRAPH_API Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Ranks, dimensions, sizes, axes.
struct MPSGRAPH_API ShapeError : Error {
  using Error::Error;
};

// An index, a class number or a length that lies outside of what it counts.
struct MPSGRAPH_API OutOfRangeError : Error {
  using Error::Error;
};

// Element types that do not match, or are not supported there.
struct MPSGRAPH_API DTypeError : Error {
  using Error::Error;
};

// Structure: foreign tensors, missing feeds, names, attributes, text that does not parse.
struct MPSGRAPH_API GraphError : Error {
  using Error::Error;
};

// A package that is damaged, foreign, or cannot be written.
struct MPSGRAPH_API PackageError : Error {
  using Error::Error;
};

// Valid, but this device or this slice cannot do it.
struct MPSGRAPH_API UnsupportedError : Error {
  using Error::Error;
};

// The run itself: memory, queues, command buffers, fork.
struct MPSGRAPH_API DeviceError : Error {
  using Error::Error;
};

// An event or command buffer that did not come in time.
struct MPSGRAPH_API TimeoutError : DeviceError {
  using DeviceError::DeviceError;
};

// cat("a", 1, shape): the arguments streamed into one string.
class MPSGRAPH_API Piece {  // of it: something that can be streamed, without its type
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
