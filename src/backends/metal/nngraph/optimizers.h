// Optimizers of ours as MPSNNOptimizers, over vectors or matrices.
#pragma once

#include <vector>

#include "backends/metal/frameworks.h"
#include "nngraph/optimizer.h"

namespace mpsgraph::metal {

// Float32 vectors of one length, or matrices of one size.
template <class Values>
struct ValuesStep {
  Values *gradient = nil, *values = nil;
  std::vector<Values*> moments;  // as Optimizer::moments() names them
  Values* result = nil;          // may be the values
};
using VectorStep = ValuesStep<MPSVector>;
using MatrixStep = ValuesStep<MPSMatrix>;
// For one step, the optimizer's next: its time step counts those before. UnsupportedError for what Apple's optimizers
// are not known to do.
MPSNNOptimizer* optimizer_kernel(id<MTLDevice> device, const nngraph::Optimizer& optimizer);
void encode_step(id<MTLCommandBuffer> commands, MPSNNOptimizer* kernel, const VectorStep& step);
void encode_step(id<MTLCommandBuffer> commands, MPSNNOptimizer* kernel, const MatrixStep& step);
// values += (1 - keep) * (now - values)
void encode_moving_average(id<MTLDevice> device, id<MTLCommandBuffer> commands, double keep, MPSVector* now,
                           MPSVector* values);
// sum += values
void encode_sum(id<MTLDevice> device, id<MTLCommandBuffer> commands, MPSVector* values, MPSVector* sum);

}  // namespace mpsgraph::metal
