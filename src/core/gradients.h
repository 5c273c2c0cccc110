// Reverse-mode differentiation: one backward walk over the same graph, by the rules beside the operations.
#pragma once

#include <unordered_set>
#include <utility>
#include <vector>

#include "core/graph.h"

namespace mpsgraph {

enum class Unconnected { zeros, error };

// For each of `with_respect_to`, d(of)/d(it): same type as it. `of` has any shape; the walk starts from `start`
// (same shape) or ones, so that a non-scalar `of` gives the gradient of its sum. A variable counts
// through all of its reads. Throws GraphError for foreign tensors, for a non-differentiable
// operation on the path (naming it), and, when asked, for a tensor without a path.
std::vector<Tensor*> gradients(Tensor* of, const std::vector<Tensor*>& with_respect_to, Tensor* start = nullptr,
                               Unconnected unconnected = Unconnected::zeros);

// The same walk over the operations of one block, from several tensors with their gradients: for the
// derivatives of control flow. Null where no gradient arrives. New operations go to the current block.
using Seeds = std::vector<std::pair<Tensor*, Tensor*>>;
std::vector<Tensor*> block_gradients(const Block& block, const Seeds& seeds,
                                     const std::vector<Tensor*>& with_respect_to);
// Of the tensors that are made in the block, those that depend on `sources` by values that have derivatives; and the
// sources.
std::unordered_set<const Tensor*> dependents(const Block& block, const std::vector<Tensor*>& sources);

}  // namespace mpsgraph
