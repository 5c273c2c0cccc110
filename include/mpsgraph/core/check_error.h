// The error of checks that people ask for: of a graph's own conditions, and that all numbers are finite.
#pragma once

#include "mpsgraph/core/errors.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

// A check of a run that did not hold.
struct MPSGRAPH_API CheckError : Error {
  using Error::Error;
};

}  // namespace mpsgraph
