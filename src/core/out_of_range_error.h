// The error for an index, a label or a length that lies outside of what it counts.
#pragma once

#include "core/errors.h"

namespace mpsgraph {

struct OutOfRangeError : Error {
  using Error::Error;
};

}  // namespace mpsgraph
