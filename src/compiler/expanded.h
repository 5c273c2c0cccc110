// Programs for exporters that lower them outside the library. The programs have static shapes, and contain no
// composites and no device-specific operations.
#pragma once

#include <utility>
#include <vector>

#include "compiler/program.h"

namespace mpsgraph::compiler {

// Returns the part of the graph that the targets and target operations need, after specialization, pruning, and the
// passes that every backend relies on. Throws the errors of specialize(), and UnsupportedError if a shape depends on
// values that are only known at run time.
MPSGRAPH_API Program expanded(const Graph& graph, const std::vector<std::pair<Tensor*, TensorType>>& feeds,
                              const std::vector<Tensor*>& targets, const std::vector<Operation*>& target_operations);

}  // namespace mpsgraph::compiler
