// Reverse-mode differentiation: one backward walk over the same graph, by the rules beside the operations.
#pragma once

#include <vector>

#include "mpsgraph/core/graph.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

enum class Unconnected { zeros, error };

// For each of `with_respect_to`, d(of)/d(it): same type as it. `of` has any shape; the walk starts from `start`
// (same shape) or ones, so that a non-scalar `of` gives the gradient of its sum. A variable counts
// through all of its reads. Throws GraphError for foreign tensors, for a non-differentiable
// operation on the path (naming it), and, when asked, for a tensor without a path.
MPSGRAPH_API std::vector<Tensor*> gradients(Tensor* of, const std::vector<Tensor*>& with_respect_to,
                                            Tensor* start = nullptr, Unconnected unconnected = Unconnected::zeros);

}  // namespace mpsgraph
