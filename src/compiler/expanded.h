// Programs for those who lower them outside of the library: known shapes, no composites, no device's own operations.
#pragma once

#include <utility>
#include <vector>

#include "compiler/program.h"

namespace mpsgraph::compiler {

// What targets and target operations need, specialised, pruned, and through the passes that every backend counts on.
// Throws as specialize(), and UnsupportedError where a shape depends on values.
MPSGRAPH_API Program expanded(const Graph& graph, const std::vector<std::pair<Tensor*, TensorType>>& feeds,
                              const std::vector<Tensor*>& targets, const std::vector<Operation*>& target_operations);

}  // namespace mpsgraph::compiler
