// The typed errors that every layer throws and that Python sees under the same names.
//
// A message says the operation, what was expected, what came, what to do, and where the operation
// was built: "[reshape] 12 elements cannot become (5,3): source (3,4); built at model.py:41".
// Nothing else is thrown on purpose; anything else that reaches a user is a bug.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace mpsgraph {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct ShapeError : Error {        // ranks, dimensions, sizes, axes
  using Error::Error;
};
struct OutOfRangeError : Error {   // an index, a class number or a length that lies outside of what it counts
  using Error::Error;
};
struct DTypeError : Error {        // element types that do not match or are not supported there
  using Error::Error;
};
struct GraphError : Error {  // structure: foreign tensors, missing feeds, names, attributes, text that does not parse
  using Error::Error;
};
struct PackageError : Error {  // a package that is damaged, foreign, or cannot be written
  using Error::Error;
};
struct UnsupportedError : Error {  // valid, but this device or this slice cannot do it
  using Error::Error;
};
struct DeviceError : Error {  // the run itself: memory, queues, command buffers, fork
  using Error::Error;
};
struct TimeoutError : DeviceError {  // an event or command buffer that did not come in time
  using DeviceError::DeviceError;
};

// cat("a", 1, shape): the arguments streamed into one string.
template <class... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

}  // namespace mpsgraph
