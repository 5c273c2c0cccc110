// The backward walk over one block, for the derivatives of control flow.
#pragma once

#include <unordered_set>
#include <utility>
#include <vector>

#include "mpsgraph/core/gradients.h"

namespace mpsgraph {

// The same walk over the operations of one block, from several tensors with their gradients: for the
// derivatives of control flow. Null where no gradient arrives. New operations go to the current block.
using Seeds = std::vector<std::pair<Tensor*, Tensor*>>;
std::vector<Tensor*> block_gradients(const Block& block, const Seeds& seeds,
                                     const std::vector<Tensor*>& with_respect_to);
// Of the tensors that are made in the block, those that depend on `sources` by values that have derivatives; and the
// sources.
std::unordered_set<const Tensor*> dependents(const Block& block, const std::vector<Tensor*>& sources);

}  // namespace mpsgraph
