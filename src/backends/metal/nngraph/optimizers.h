// Conversion of nngraph's optimizers to MPSNNOptimizers, over vectors or matrices.
#pragma once

#include <vector>

#include "backends/metal/frameworks.h"
#include "nngraph/optimizer.h"

namespace mpsgraph::metal {

// Float32 vectors of the same length, or matrices of the same size.
template <class Values>
struct ValuesStep {
  Values *gradient = nil, *values = nil;
  std::vector<Values*> moments;  // moments in the order of Optimizer::moments()
  Values* result = nil;          // array for the new values; may be the same as `values`
};
using VectorStep = ValuesStep<MPSVector>;
using MatrixStep = ValuesStep<MPSMatrix>;
// Create the kernel for the optimizer's next step. The kernel's time step is the number of preceding steps. Throws
// UnsupportedError for settings whose effect in Apple's optimizers is unknown.
MPSNNOptimizer* optimizer_kernel(id<MTLDevice> device, const nngraph::Optimizer& optimizer);
void encode_step(id<MTLCommandBuffer> commands, MPSNNOptimizer* kernel, const VectorStep& step);
void encode_step(id<MTLCommandBuffer> commands, MPSNNOptimizer* kernel, const MatrixStep& step);
// Encode values += (1 - keep) * (now - values).
void encode_moving_average(id<MTLDevice> device, id<MTLCommandBuffer> commands, double keep, MPSVector* now,
                           MPSVector* values);
// Encode sum += values.
void encode_sum(id<MTLDevice> device, id<MTLCommandBuffer> commands, MPSVector* values, MPSVector* sum);

}  // namespace mpsgraph::metal
