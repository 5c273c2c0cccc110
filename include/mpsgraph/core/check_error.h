// CheckError: the error of a failed check. A check is a condition that a graph contains, or the check that all numbers
// are finite.
#pragma once

#include "mpsgraph/core/errors.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

// Thrown by a run in which a check failed.
struct MPSGRAPH_API CheckError : Error {
  using Error::Error;
};

}  // namespace mpsgraph
