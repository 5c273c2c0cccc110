// What an operation has to do at least, from its types and attributes alone: arithmetic, and bytes between memory and
// processor. It is what profiles compare times with; nothing is decided by it.
//
// A multiplication and an addition are two operations, also where a kernel fuses them. Taps of windows that only see
// padding are not counted, because a good kernel does not compute them. Each operand is read once and each result
// written once; what moves elements reads only those that it moves.
#pragma once

#include "mpsgraph/core/graph.h"

namespace mpsgraph::compiler {

struct OperationCost {
  double flops = 0;
  double bytes_read = 0, bytes_written = 0;
};

// Of control flow and calls nothing: what runs within them has costs of its own.
OperationCost cost_of(const Operation& operation);

}  // namespace mpsgraph::compiler
