// Helpers that the optimizers share.
#pragma once

#include <functional>

#include "mps/core/matrix.h"
#include "mps/neural_network/states.h"

@interface MPSNNOptimizer () {
 @package
  MPSNNOptimizerDescriptor* settings;
}
- (instancetype)initForDevice:(id<MTLDevice>)device settings:(MPSNNOptimizerDescriptor*)given;
@end

namespace mock {

// Update rule of an optimizer: set the value and the running statistics of one element. The gradient has already been
// clipped, scaled, and regularized.
using Rule = std::function<void(double gradient, double& value, std::vector<double>& moments)>;

// Vectors of running statistics. Each array holds those of the weights and, if biases are updated too, those of the
// biases.
using Moments = std::vector<NSArray<MPSVector*>*>;

void encode_vector(MPSNNOptimizer* optimizer, id<MTLCommandBuffer> buffer, MPSVector* gradient, MPSVector* values,
                   const std::vector<MPSVector*>& moments, MPSVector* result, const Rule& rule);
void encode_matrix(MPSNNOptimizer* optimizer, id<MTLCommandBuffer> buffer, MPSMatrix* gradient, MPSMatrix* values,
                   const std::vector<MPSMatrix*>& moments, MPSMatrix* result, const Rule& rule);
void encode_convolution(MPSNNOptimizer* optimizer, id<MTLCommandBuffer> buffer,
                        MPSCNNConvolutionGradientState* gradient, MPSCNNConvolutionWeightsAndBiasesState* source,
                        const Moments& moments, MPSCNNConvolutionWeightsAndBiasesState* result, const Rule& rule);
void encode_normalization(MPSNNOptimizer* optimizer, id<MTLCommandBuffer> buffer,
                          MPSCNNBatchNormalizationState* gradient, MPSCNNBatchNormalizationState* source,
                          const Moments& moments, MPSCNNNormalizationGammaAndBetaState* result, const Rule& rule);

}  // namespace mock
