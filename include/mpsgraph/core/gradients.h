// Reverse-mode differentiation: one walk over the graph from the results to the inputs. The gradient rules are defined
// next to the operations.
#pragma once

#include <vector>

#include "mpsgraph/core/graph.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

// Behavior of gradients() for a tensor on which `of` does not depend.
enum class Unconnected { zeros, error };

// Returns the gradient of `of` with respect to each tensor of `with_respect_to`, with the type of that tensor.
//
// `of` may have any shape. The walk starts from `start`, which must have the shape of `of`, or from ones if `start` is
// null, so that a non-scalar `of` yields the gradient of its sum. The gradient of a variable is the sum over all of its
// reads.
//
// Throws GraphError if a tensor belongs to another graph, if an operation on the path is not differentiable (the
// message names it), or, with Unconnected::error, if `of` does not depend on a tensor. With Unconnected::zeros, the
// gradient with respect to such a tensor is zero.
MPSGRAPH_API std::vector<Tensor*> gradients(Tensor* of, const std::vector<Tensor*>& with_respect_to,
                                            Tensor* start = nullptr, Unconnected unconnected = Unconnected::zeros);

}  // namespace mpsgraph
