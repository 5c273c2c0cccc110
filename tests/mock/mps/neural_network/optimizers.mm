// The update rules of stochastic gradient descent, RMSProp, and Adam.
//
// Epsilon is added outside the root, and Adam's epsilon is not corrected for the time step. Plain momentum includes the
// learning rate; Nesterov momentum does not.
#include <algorithm>
#include <cmath>

#include "mps/neural_network/optimizer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace mock;

namespace {

template <class Array>
std::vector<Array*> present(std::initializer_list<Array*> arrays) {
  std::vector<Array*> result;
  for (Array* array : arrays)
    if (array) result.push_back(array);
  return result;
}

// Raise if an array that the update rule requires is nil.
void require_all(MPSNNOptimizer* optimizer, std::initializer_list<id> arrays) {
  for (id array : arrays)
    if (!array) misuse(@"%@: the running statistics must not be nil", [optimizer class]);
}

MPSNNOptimizerDescriptor* with_rate(float rate) {
  return [MPSNNOptimizerDescriptor optimizerDescriptorWithLearningRate:rate
                                                       gradientRescale:1
                                                    regularizationType:MPSNNRegularizationTypeNone
                                                   regularizationScale:0];
}

}  // namespace

// --- stochastic gradient descent -------------------------------------------------------------------------------------

@implementation MPSNNOptimizerStochasticGradientDescent {
  float _momentumScale;
  BOOL _isNesterov;
}

- (instancetype)initWithDevice:(id<MTLDevice>)device learningRate:(float)rate {
  return [self initForDevice:device settings:with_rate(rate)];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                 momentumScale:(float)scale
           useNesterovMomentum:(BOOL)nesterov
           optimizerDescriptor:(MPSNNOptimizerDescriptor*)given {
  if (!(self = [self initForDevice:device settings:given])) return nil;
  _momentumScale = scale;
  _isNesterov = nesterov;
  return self;
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                 momentumScale:(float)scale
            useNestrovMomentum:(BOOL)nesterov
           optimizerDescriptor:(MPSNNOptimizerDescriptor*)given {
  return [self initWithDevice:device momentumScale:scale useNesterovMomentum:nesterov optimizerDescriptor:given];
}
- (float)momentumScale {
  return _momentumScale;
}
- (BOOL)useNesterovMomentum {
  return _isNesterov;
}
- (BOOL)useNestrovMomentum {
  return _isNesterov;
}

- (Rule)rule {
  const double rate = self.learningRate, scale = _momentumScale;
  const bool nesterov = _isNesterov;
  return [=](double g, double& v, std::vector<double>& moments) {
    if (moments.empty()) {
      v -= rate * g;
    } else if (nesterov) {
      moments[0] = scale * moments[0] + g;
      v -= rate * (g + scale * moments[0]);
    } else {
      moments[0] = scale * moments[0] + rate * g;
      v -= moments[0];
    }
  };
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
          inputGradientVector:(MPSVector*)gradient
            inputValuesVector:(MPSVector*)values
          inputMomentumVector:(MPSVector*)momentum
           resultValuesVector:(MPSVector*)result {
  encode_vector(self, buffer, gradient, values, present<MPSVector>({momentum}), result, [self rule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
          inputGradientMatrix:(MPSMatrix*)gradient
            inputValuesMatrix:(MPSMatrix*)values
          inputMomentumMatrix:(MPSMatrix*)momentum
           resultValuesMatrix:(MPSMatrix*)result {
  encode_matrix(self, buffer, gradient, values, present<MPSMatrix>({momentum}), result, [self rule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
     convolutionGradientState:(MPSCNNConvolutionGradientState*)gradient
       convolutionSourceState:(MPSCNNConvolutionWeightsAndBiasesState*)source
         inputMomentumVectors:(NSArray<MPSVector*>*)momentum
                  resultState:(MPSCNNConvolutionWeightsAndBiasesState*)result {
  encode_convolution(self, buffer, gradient, source, present<NSArray<MPSVector*>>({momentum}), result, [self rule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
      batchNormalizationState:(MPSCNNBatchNormalizationState*)state
         inputMomentumVectors:(NSArray<MPSVector*>*)momentum
                  resultState:(MPSCNNNormalizationGammaAndBetaState*)result {
  encode_normalization(self, buffer, state, state, present<NSArray<MPSVector*>>({momentum}), result, [self rule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
    batchNormalizationGradientState:(MPSCNNBatchNormalizationState*)gradient
      batchNormalizationSourceState:(MPSCNNBatchNormalizationState*)source
               inputMomentumVectors:(NSArray<MPSVector*>*)momentum
                        resultState:(MPSCNNNormalizationGammaAndBetaState*)result {
  encode_normalization(self, buffer, gradient, source, present<NSArray<MPSVector*>>({momentum}), result, [self rule]);
}
@end

// --- RMSProp ---------------------------------------------------------------------------------------------------------

@implementation MPSNNOptimizerRMSProp {
  double _decay;
  float _epsilon;
}

- (instancetype)initWithDevice:(id<MTLDevice>)device learningRate:(float)rate {
  return [self initWithDevice:device decay:0.9 epsilon:1e-8f optimizerDescriptor:with_rate(rate)];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                         decay:(double)decay
                       epsilon:(float)epsilon
           optimizerDescriptor:(MPSNNOptimizerDescriptor*)given {
  if (!(self = [self initForDevice:device settings:given])) return nil;
  _decay = decay;
  _epsilon = epsilon;
  return self;
}
- (double)decay {
  return _decay;
}
- (float)epsilon {
  return _epsilon;
}

- (Rule)rule {
  const double rate = self.learningRate, decay = _decay, epsilon = _epsilon;
  return [=](double g, double& v, std::vector<double>& moments) {
    moments[0] = decay * moments[0] + (1 - decay) * g * g;
    v -= rate * g / (std::sqrt(moments[0]) + epsilon);
  };
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
          inputGradientVector:(MPSVector*)gradient
            inputValuesVector:(MPSVector*)values
      inputSumOfSquaresVector:(MPSVector*)squares
           resultValuesVector:(MPSVector*)result {
  require_all(self, {squares});
  encode_vector(self, buffer, gradient, values, present<MPSVector>({squares}), result, [self rule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
          inputGradientMatrix:(MPSMatrix*)gradient
            inputValuesMatrix:(MPSMatrix*)values
      inputSumOfSquaresMatrix:(MPSMatrix*)squares
           resultValuesMatrix:(MPSMatrix*)result {
  require_all(self, {squares});
  encode_matrix(self, buffer, gradient, values, present<MPSMatrix>({squares}), result, [self rule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
     convolutionGradientState:(MPSCNNConvolutionGradientState*)gradient
       convolutionSourceState:(MPSCNNConvolutionWeightsAndBiasesState*)source
     inputSumOfSquaresVectors:(NSArray<MPSVector*>*)squares
                  resultState:(MPSCNNConvolutionWeightsAndBiasesState*)result {
  require_all(self, {squares});
  encode_convolution(self, buffer, gradient, source, present<NSArray<MPSVector*>>({squares}), result, [self rule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
      batchNormalizationState:(MPSCNNBatchNormalizationState*)state
     inputSumOfSquaresVectors:(NSArray<MPSVector*>*)squares
                  resultState:(MPSCNNNormalizationGammaAndBetaState*)result {
  require_all(self, {squares});
  encode_normalization(self, buffer, state, state, present<NSArray<MPSVector*>>({squares}), result, [self rule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
    batchNormalizationGradientState:(MPSCNNBatchNormalizationState*)gradient
      batchNormalizationSourceState:(MPSCNNBatchNormalizationState*)source
           inputSumOfSquaresVectors:(NSArray<MPSVector*>*)squares
                        resultState:(MPSCNNNormalizationGammaAndBetaState*)result {
  require_all(self, {squares});
  encode_normalization(self, buffer, gradient, source, present<NSArray<MPSVector*>>({squares}), result, [self rule]);
}
@end

// --- Adam ------------------------------------------------------------------------------------------------------------

@implementation MPSNNOptimizerAdam {
  double _beta1, _beta2;
  float _epsilon;
}
@synthesize timeStep = _timeStep;

- (instancetype)initWithDevice:(id<MTLDevice>)device learningRate:(float)rate {
  return [self initWithDevice:device
                        beta1:0.9
                        beta2:0.999
                      epsilon:1e-8f
                     timeStep:0
          optimizerDescriptor:with_rate(rate)];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                         beta1:(double)beta1
                         beta2:(double)beta2
                       epsilon:(float)epsilon
                      timeStep:(NSUInteger)timeStep
           optimizerDescriptor:(MPSNNOptimizerDescriptor*)given {
  if (!(self = [self initForDevice:device settings:given])) return nil;
  _beta1 = beta1;
  _beta2 = beta2;
  _epsilon = epsilon;
  _timeStep = timeStep;
  return self;
}
- (double)beta1 {
  return _beta1;
}
- (double)beta2 {
  return _beta2;
}
- (float)epsilon {
  return _epsilon;
}

// Return the rule of the next time step. Each encode is one time step.
- (Rule)nextRule {
  ++_timeStep;
  const double t = static_cast<double>(_timeStep), beta1 = _beta1, beta2 = _beta2, epsilon = _epsilon;
  const double rate = self.learningRate * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
  return [=](double g, double& v, std::vector<double>& moments) {
    moments[0] = beta1 * moments[0] + (1 - beta1) * g;
    moments[1] = beta2 * moments[1] + (1 - beta2) * g * g;
    double square = moments[1];
    if (moments.size() > 2) square = moments[2] = std::max(moments[2], moments[1]);
    v -= rate * moments[0] / (std::sqrt(square) + epsilon);
  };
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
          inputGradientVector:(MPSVector*)gradient
            inputValuesVector:(MPSVector*)values
          inputMomentumVector:(MPSVector*)momentum
          inputVelocityVector:(MPSVector*)velocity
        maximumVelocityVector:(MPSVector*)maximum
           resultValuesVector:(MPSVector*)result {
  require_all(self, {momentum, velocity});
  encode_vector(self, buffer, gradient, values, present<MPSVector>({momentum, velocity, maximum}), result,
                [self nextRule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
          inputGradientMatrix:(MPSMatrix*)gradient
            inputValuesMatrix:(MPSMatrix*)values
          inputMomentumMatrix:(MPSMatrix*)momentum
          inputVelocityMatrix:(MPSMatrix*)velocity
        maximumVelocityMatrix:(MPSMatrix*)maximum
           resultValuesMatrix:(MPSMatrix*)result {
  require_all(self, {momentum, velocity});
  encode_matrix(self, buffer, gradient, values, present<MPSMatrix>({momentum, velocity, maximum}), result,
                [self nextRule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
     convolutionGradientState:(MPSCNNConvolutionGradientState*)gradient
       convolutionSourceState:(MPSCNNConvolutionWeightsAndBiasesState*)source
         inputMomentumVectors:(NSArray<MPSVector*>*)momentum
         inputVelocityVectors:(NSArray<MPSVector*>*)velocity
       maximumVelocityVectors:(NSArray<MPSVector*>*)maximum
                  resultState:(MPSCNNConvolutionWeightsAndBiasesState*)result {
  require_all(self, {momentum, velocity});
  encode_convolution(self, buffer, gradient, source, present<NSArray<MPSVector*>>({momentum, velocity, maximum}),
                     result, [self nextRule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
      batchNormalizationState:(MPSCNNBatchNormalizationState*)state
         inputMomentumVectors:(NSArray<MPSVector*>*)momentum
         inputVelocityVectors:(NSArray<MPSVector*>*)velocity
       maximumVelocityVectors:(NSArray<MPSVector*>*)maximum
                  resultState:(MPSCNNNormalizationGammaAndBetaState*)result {
  require_all(self, {momentum, velocity});
  encode_normalization(self, buffer, state, state, present<NSArray<MPSVector*>>({momentum, velocity, maximum}), result,
                       [self nextRule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
    batchNormalizationGradientState:(MPSCNNBatchNormalizationState*)gradient
      batchNormalizationSourceState:(MPSCNNBatchNormalizationState*)source
               inputMomentumVectors:(NSArray<MPSVector*>*)momentum
               inputVelocityVectors:(NSArray<MPSVector*>*)velocity
             maximumVelocityVectors:(NSArray<MPSVector*>*)maximum
                        resultState:(MPSCNNNormalizationGammaAndBetaState*)result {
  require_all(self, {momentum, velocity});
  encode_normalization(self, buffer, gradient, source, present<NSArray<MPSVector*>>({momentum, velocity, maximum}),
                       result, [self nextRule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
          inputGradientVector:(MPSVector*)gradient
            inputValuesVector:(MPSVector*)values
          inputMomentumVector:(MPSVector*)momentum
          inputVelocityVector:(MPSVector*)velocity
           resultValuesVector:(MPSVector*)result {
  [self encodeToCommandBuffer:buffer
          inputGradientVector:gradient
            inputValuesVector:values
          inputMomentumVector:momentum
          inputVelocityVector:velocity
        maximumVelocityVector:nil
           resultValuesVector:result];
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
          inputGradientMatrix:(MPSMatrix*)gradient
            inputValuesMatrix:(MPSMatrix*)values
          inputMomentumMatrix:(MPSMatrix*)momentum
          inputVelocityMatrix:(MPSMatrix*)velocity
           resultValuesMatrix:(MPSMatrix*)result {
  [self encodeToCommandBuffer:buffer
          inputGradientMatrix:gradient
            inputValuesMatrix:values
          inputMomentumMatrix:momentum
          inputVelocityMatrix:velocity
        maximumVelocityMatrix:nil
           resultValuesMatrix:result];
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
     convolutionGradientState:(MPSCNNConvolutionGradientState*)gradient
       convolutionSourceState:(MPSCNNConvolutionWeightsAndBiasesState*)source
         inputMomentumVectors:(NSArray<MPSVector*>*)momentum
         inputVelocityVectors:(NSArray<MPSVector*>*)velocity
                  resultState:(MPSCNNConvolutionWeightsAndBiasesState*)result {
  require_all(self, {momentum, velocity});
  [self encodeToCommandBuffer:buffer
      convolutionGradientState:gradient
        convolutionSourceState:source
          inputMomentumVectors:momentum
          inputVelocityVectors:velocity
        maximumVelocityVectors:nil
                   resultState:result];
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
      batchNormalizationState:(MPSCNNBatchNormalizationState*)state
         inputMomentumVectors:(NSArray<MPSVector*>*)momentum
         inputVelocityVectors:(NSArray<MPSVector*>*)velocity
                  resultState:(MPSCNNNormalizationGammaAndBetaState*)result {
  require_all(self, {momentum, velocity});
  [self encodeToCommandBuffer:buffer
      batchNormalizationState:state
         inputMomentumVectors:momentum
         inputVelocityVectors:velocity
       maximumVelocityVectors:nil
                  resultState:result];
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
    batchNormalizationGradientState:(MPSCNNBatchNormalizationState*)gradient
      batchNormalizationSourceState:(MPSCNNBatchNormalizationState*)source
               inputMomentumVectors:(NSArray<MPSVector*>*)momentum
               inputVelocityVectors:(NSArray<MPSVector*>*)velocity
                        resultState:(MPSCNNNormalizationGammaAndBetaState*)result {
  require_all(self, {momentum, velocity});
  [self encodeToCommandBuffer:buffer
      batchNormalizationGradientState:gradient
        batchNormalizationSourceState:source
                 inputMomentumVectors:momentum
                 inputVelocityVectors:velocity
               maximumVelocityVectors:nil
                          resultState:result];
}
@end
