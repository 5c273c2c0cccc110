// Programs for exporters that lower them outside the library: static shapes, no composites, no device-specific
// operations.
#pragma once

#include <utility>
#include <vector>

#include "compiler/program.h"

namespace mpsgraph::compiler {

// The part of the graph that the targets and target operations need, specialized, pruned, and run through the passes
// that every backend relies on. Throws the errors of specialize(), and UnsupportedError if a shape depends on values.
MPSGRAPH_API Program expanded(const Graph& graph, const std::vector<std::pair<Tensor*, TensorType>>& feeds,
                              const std::vector<Tensor*>& targets, const std::vector<Operation*>& target_operations);

}  // namespace mpsgraph::compiler
