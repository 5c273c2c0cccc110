// The minimum cost of an operation, computed from its types and attributes alone: the number of arithmetic operations,
// and the bytes moved between memory and processor. Profiles compare measured times with this cost; no compiler
// decision depends on it.
//
// A multiplication and an addition count as two operations, even if a kernel fuses them. Window taps that only see
// padding are not counted, because a good kernel skips them. Each operand is read once and each result written once;
// operations that move elements read only the elements that they move.
#pragma once

#include "mpsgraph/core/graph.h"

namespace mpsgraph::compiler {

struct OperationCost {
  double flops = 0;
  double bytes_read = 0, bytes_written = 0;
};

// Control flow and calls have no cost of their own, because the operations within them are counted separately.
OperationCost cost_of(const Operation& operation);

}  // namespace mpsgraph::compiler
