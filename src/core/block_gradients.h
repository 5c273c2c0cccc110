// Backpropagation through one block, used by the derivatives of control flow.
#pragma once

#include <unordered_set>
#include <utility>
#include <vector>

#include "mpsgraph/core/gradients.h"

namespace mpsgraph {

// Backpropagates through the operations of one block, as gradients() does for a graph, starting from several tensors
// with given gradients. An entry of the result is null if no gradient reaches its tensor. New operations are added to
// the current block.
using Seeds = std::vector<std::pair<Tensor*, Tensor*>>;
std::vector<Tensor*> block_gradients(const Block& block, const Seeds& seeds,
                                     const std::vector<Tensor*>& with_respect_to);
// Returns the tensors in `sources`, and the tensors of the block that depend on them through differentiable values.
std::unordered_set<const Tensor*> dependents(const Block& block, const std::vector<Tensor*>& sources);

}  // namespace mpsgraph
