// Programs for exporters that lower them outside the library. The programs have static shapes, and contain no
// device-specific operations, and few composites.
#pragma once

#include <utility>
#include <vector>

#include "compiler/program.h"

namespace mpsgraph::compiler {

// Returns the part of the graph that the targets and target operations need, after specialization, pruning, and the
// passes that every backend relies on. Throws the errors of specialize(), and UnsupportedError if a shape depends on
// values that are only known at run time. Softmax cross-entropy
// and its gradient stay whole, and so does half-precision attention without a mask and dropout if `keep_attention`.
MPSGRAPH_API Program expanded(const Graph& graph, const std::vector<std::pair<Tensor*, TensorType>>& feeds,
                              const std::vector<Tensor*>& targets, const std::vector<Operation*>& target_operations,
                              bool keep_attention = false);

}  // namespace mpsgraph::compiler
