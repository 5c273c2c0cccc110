// Optimizers of ours as MPSNNOptimizers, over vectors.
#pragma once

#include <vector>

#include "backends/metal/frameworks.h"
#include "nngraph/optimizer.h"

namespace mpsgraph::metal {

// Float32 vectors of one length. The step is the optimizer's next: its time step counts those before.
struct VectorStep {
  MPSVector *gradient = nil, *values = nil;
  std::vector<MPSVector*> moments;  // as Optimizer::moments() names them
  MPSVector* result = nil;          // may be the values
};
// UnsupportedError for what Apple's optimizers are not known to do.
void encode_step(id<MTLDevice> device, id<MTLCommandBuffer> commands, const nngraph::Optimizer& optimizer,
                 const VectorStep& step);
// values += (1 - keep) * (now - values)
void encode_moving_average(id<MTLDevice> device, id<MTLCommandBuffer> commands, double keep, MPSVector* now,
                           MPSVector* values);
// sum += values
void encode_sum(id<MTLDevice> device, id<MTLCommandBuffer> commands, MPSVector* values, MPSVector* sum);

}  // namespace mpsgraph::metal
