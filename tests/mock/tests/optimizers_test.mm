// Tests of the Metal Performance Shaders optimizers: single steps against hand-computed values.
#include "mps_check.h"

using namespace check;

// The initializer with which batch normalization creates its state.
@interface MPSCNNBatchNormalizationState (Made)
- (instancetype)initForChannels:(NSUInteger)count device:(id<MTLDevice>)device;
@end

namespace {

const std::string misused = "NSInvalidArgumentException";

MPSNNOptimizerDescriptor* rate(float rate) {
  return [MPSNNOptimizerDescriptor optimizerDescriptorWithLearningRate:rate
                                                       gradientRescale:1
                                                    regularizationType:MPSNNRegularizationTypeNone
                                                   regularizationScale:0];
}

MPSNNOptimizerStochasticGradientDescent* descent(MPSNNOptimizerDescriptor* descriptor, float momentum = 0,
                                                 BOOL nesterov = NO) {
  return [[MPSNNOptimizerStochasticGradientDescent alloc] initWithDevice:device()
                                                           momentumScale:momentum
                                                     useNesterovMomentum:nesterov
                                                     optimizerDescriptor:descriptor];
}

// Take one step in place from the values 1 and -1 with the gradients 2 and 4.
Numbers step(MPSNNOptimizerDescriptor* descriptor) {
  MPSVector *const gradient = vector({2, 4}), *const values = vector({1, -1});
  MPSNNOptimizerStochasticGradientDescent* const optimizer = descent(descriptor);
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                [optimizer encodeToCommandBuffer:buffer
                             inputGradientVector:gradient
                               inputValuesVector:values
                             inputMomentumVector:nil
                              resultValuesVector:values];
              }),
              std::string());
  return numbers(values);
}

MPSCNNConvolutionDescriptor* two_weights() {
  return [MPSCNNConvolutionDescriptor cnnConvolutionDescriptorWithKernelWidth:1
                                                                 kernelHeight:1
                                                         inputFeatureChannels:2
                                                        outputFeatureChannels:1];
}

}  // namespace

TEST(optimizer_descriptor_defaults) {
  MPSNNOptimizerDescriptor* defaults = [[MPSNNOptimizerDescriptor alloc] init];
  CHECK(defaults.learningRate == 1e-3f && defaults.gradientRescale == 1 && !defaults.applyGradientClipping);
  CHECK(defaults.regularizationType == MPSNNRegularizationTypeNone && defaults.regularizationScale == 0);
}

TEST(gradients_are_clipped_then_scaled_then_regularized) {
  CHECK(are(step(rate(0.5f)), {0, -3}));
  MPSNNOptimizerDescriptor* descriptor = rate(1);
  descriptor.applyGradientClipping = YES;
  descriptor.gradientClipMax = 3;
  descriptor.gradientClipMin = -3;
  descriptor.gradientRescale = 0.5f;
  CHECK(are(step(descriptor), {0, -2.5f}));
  descriptor.regularizationType = MPSNNRegularizationTypeL2;
  descriptor.regularizationScale = 0.25f;
  CHECK(are(step(descriptor), {-0.25f, -2.25f}));
  // L1 adds the scale regardless of the value's sign, as documented by Apple.
  descriptor.regularizationType = MPSNNRegularizationTypeL1;
  CHECK(are(step(descriptor), {-0.25f, -2.75f}));
}

TEST(plain_momentum_includes_the_learning_rate_and_nesterov_does_not) {
  MPSVector *const gradient = vector({1}), *const values = vector({0}), *const momentum = vector({0});
  for (const BOOL nesterov : {NO, YES}) {
    MPSNNOptimizerStochasticGradientDescent* const optimizer = descent(rate(0.5f), 0.5f, nesterov);
    static_cast<float*>(values.data.contents)[0] = static_cast<float*>(momentum.data.contents)[0] = 0;
    CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                  for (int i = 0; i < 2; ++i)
                    [optimizer encodeToCommandBuffer:buffer
                                 inputGradientVector:gradient
                                   inputValuesVector:values
                                 inputMomentumVector:momentum
                                  resultValuesVector:values];
                }),
                std::string());
    // Plain momentum: m = 0.5, then 0.75; v = -0.5, then -1.25. Nesterov momentum: m = 1, then 1.5; v = -0.5 * 1.5 -
    // 0.5 * 1.75 = -1.625.
    CHECK(are(numbers(values), {nesterov ? -1.625f : -1.25f}));
    CHECK(are(numbers(momentum), {nesterov ? 1.5f : 0.75f}));
  }
}

TEST(negative_learning_rate_computes_a_moving_average) {
  MPSNNOptimizerDescriptor* const descriptor = rate(-0.1f);
  descriptor.regularizationType = MPSNNRegularizationTypeL2;
  descriptor.regularizationScale = -1;
  CHECK(are(step(descriptor), {1.1f, -0.5f}));  // v + 0.1 (g - v)
}

TEST(rmsprop_adds_epsilon_outside_the_square_root) {
  MPSNNOptimizerRMSProp* const optimizer = [[MPSNNOptimizerRMSProp alloc] initWithDevice:device()
                                                                                   decay:0.75
                                                                                 epsilon:1
                                                                     optimizerDescriptor:rate(1)];
  MPSVector *const gradient = vector({2}), *const values = vector({0}), *const squares = vector({0});
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                [optimizer encodeToCommandBuffer:buffer
                             inputGradientVector:gradient
                               inputValuesVector:values
                         inputSumOfSquaresVector:squares
                              resultValuesVector:values];
              }),
              std::string());
  CHECK(are(numbers(squares), {1}) && are(numbers(values), {-1}));
  MPSNNOptimizerRMSProp* plain = [[MPSNNOptimizerRMSProp alloc] initWithDevice:device() learningRate:0.5f];
  CHECK(plain.decay == 0.9 && plain.epsilon == 1e-8f && plain.learningRate == 0.5f);
}

TEST(adam_counts_steps_and_corrects_the_learning_rate) {
  MPSNNOptimizerAdam* const optimizer = [[MPSNNOptimizerAdam alloc] initWithDevice:device()
                                                                             beta1:0.5
                                                                             beta2:0.75
                                                                           epsilon:1
                                                                          timeStep:0
                                                               optimizerDescriptor:rate(1)];
  MPSVector *const gradient = vector({2}), *const values = vector({0}), *const result = vector({0}),
                   *const momentum = vector({0}), *const velocity = vector({0});
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                [optimizer encodeToCommandBuffer:buffer
                             inputGradientVector:gradient
                               inputValuesVector:values
                             inputMomentumVector:momentum
                             inputVelocityVector:velocity
                              resultValuesVector:result];
              }),
              std::string());
  // m = 1, s = 1, lr = sqrt(1/4) / (1/2) = 1, v = -1 / (1 + 1)
  CHECK(are(numbers(result), {-0.5f}) && are(numbers(values), {0}) && optimizer.timeStep == 1);
  CHECK(are(numbers(momentum), {1}) && are(numbers(velocity), {1}));
  optimizer.timeStep = 0;
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                [optimizer encodeToCommandBuffer:buffer
                             inputGradientVector:gradient
                               inputValuesVector:result
                             inputMomentumVector:momentum
                             inputVelocityVector:velocity
                              resultValuesVector:result];
              }),
              std::string());
  // m = 1.5, s = 1.75, and lr = 1 again
  CHECK(are(numbers(result), {-0.5f - 1.5f / (std::sqrt(1.75f) + 1)}));
}

TEST(adam_keeps_the_maximum_velocity) {
  MPSNNOptimizerAdam* const optimizer = [[MPSNNOptimizerAdam alloc] initWithDevice:device()
                                                                             beta1:0.5
                                                                             beta2:0.75
                                                                           epsilon:0
                                                                          timeStep:0
                                                               optimizerDescriptor:rate(1)];
  MPSMatrix *const gradient = matrix(1, 2, {2, 2}), *const values = matrix(1, 2), *const momentum = matrix(1, 2),
                   *const velocity = matrix(1, 2), *const maximum = matrix(1, 2, {4, 0});
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                [optimizer encodeToCommandBuffer:buffer
                             inputGradientMatrix:gradient
                               inputValuesMatrix:values
                             inputMomentumMatrix:momentum
                             inputVelocityMatrix:velocity
                           maximumVelocityMatrix:maximum
                              resultValuesMatrix:values];
              }),
              std::string());
  CHECK(are(numbers(values), {-0.5f, -1}) && are(numbers(maximum), {4, 1}));
}

TEST(vectors_of_different_lengths_raise) {
  MPSVector *const one = vector({1}), *const two = vector({1, 2});
  run(^(id<MTLCommandBuffer> buffer) {
    CHECK_EQUAL(raised_by(^{
                  [descent(rate(1)) encodeToCommandBuffer:buffer
                                      inputGradientVector:one
                                        inputValuesVector:two
                                      inputMomentumVector:nil
                                       resultValuesVector:two];
                }),
                misused);
  });
}

TEST(convolution_update_decrements_both_read_counts) {
  MPSCNNConvolutionWeightsAndBiasesState* const own =
      [[MPSCNNConvolutionWeightsAndBiasesState alloc] initWithWeights:buffer({9, 1, 2})
                                                        weightsOffset:4
                                                               biases:buffer({3})
                                                         biasesOffset:0
                                             cnnConvolutionDescriptor:two_weights()];
  MPSCNNConvolutionWeightsAndBiasesState* const result =
      [[MPSCNNConvolutionWeightsAndBiasesState alloc] initWithWeights:buffer({0, 0}) biases:buffer({0})];
  CHECK_EQUAL(raised_by(^{
                (void)[[MPSCNNConvolutionWeightsAndBiasesState alloc] initWithWeights:buffer({1})
                                                                        weightsOffset:0
                                                                               biases:nil
                                                                         biasesOffset:0
                                                             cnnConvolutionDescriptor:two_weights()];
              }),
              misused);
  CHECK_EQUAL(
      run(^(id<MTLCommandBuffer> commands) {
        // No kernel computed this gradient; a blit fills its memory.
        MPSCNNConvolutionGradientState* gradient = (MPSCNNConvolutionGradientState*)[MPSCNNConvolutionGradientState
            temporaryStateWithCommandBuffer:commands
                               resourceList:^{
                                 MPSStateResourceList* list = [MPSStateResourceList resourceList];
                                 [list appendBuffer:8];
                                 [list appendBuffer:4];
                                 return list;
                               }()];
        id<MTLBlitCommandEncoder> blit = [commands blitCommandEncoder];
        [blit copyFromBuffer:buffer({1, 2})
                 sourceOffset:0
                     toBuffer:gradient.gradientForWeights
            destinationOffset:0
                         size:8];
        [blit copyFromBuffer:buffer({4}) sourceOffset:0 toBuffer:gradient.gradientForBiases destinationOffset:0 size:4];
        [blit endEncoding];
        gradient.readCount = 2;
        [descent(rate(0.5f)) encodeToCommandBuffer:commands
                          convolutionGradientState:gradient
                            convolutionSourceState:own
                              inputMomentumVectors:nil
                                       resultState:result];
        CHECK(gradient.readCount == 1 && own.readCount == 1);
        [descent(rate(1), 0.5f) encodeToCommandBuffer:commands
                             convolutionGradientState:gradient
                               convolutionSourceState:own
                                 inputMomentumVectors:@[ vector({2, 2}) ]
                                          resultState:own];
        CHECK(gradient.readCount == 0);
      }),
      std::string());
  CHECK(are(numbers(result.weights), {0.5f, 1}) && are(numbers(result.biases), {1}));
  // With a single momentum vector, the biases are not updated.
  CHECK(are(numbers(own.weights), {9, -1, -1}) && are(numbers(own.biases), {3}));
}

TEST(normalization_states_hold_two_buffers) {
  MPSCNNNormalizationGammaAndBetaState* scale =
      [[MPSCNNNormalizationGammaAndBetaState alloc] initWithGamma:buffer({1}) beta:buffer({2})];
  CHECK(are(numbers(scale.gamma), {1}) && are(numbers(scale.beta), {2}));
  MPSCNNNormalizationMeanAndVarianceState* moments =
      [[MPSCNNNormalizationMeanAndVarianceState alloc] initWithMean:buffer({3}) variance:buffer({4})];
  CHECK(are(numbers(moments.mean), {3}) && are(numbers(moments.variance), {4}));
  CHECK_EQUAL(raised_by(^{
                (void)[[MPSCNNNormalizationGammaAndBetaState alloc] initWithGamma:buffer({1}) beta:buffer({2, 3})];
              }),
              misused);
}

TEST(gamma_and_beta_are_updated_from_a_normalization_state) {
  MPSCNNBatchNormalizationState* const state = [[MPSCNNBatchNormalizationState alloc] initForChannels:1
                                                                                               device:device()];
  const auto fill = [](id<MTLBuffer> buffer, float number) {
    *static_cast<float*>(buffer.contents) = number;
    [buffer didModifyRange:NSMakeRange(0, 4)];
  };
  fill((id<MTLBuffer>)state.gamma, 1);
  fill((id<MTLBuffer>)state.beta, 2);
  fill((id<MTLBuffer>)state.gradientForGamma, 4);
  fill((id<MTLBuffer>)state.gradientForBeta, 8);
  MPSCNNNormalizationGammaAndBetaState* const result =
      [[MPSCNNNormalizationGammaAndBetaState alloc] initWithGamma:buffer({0}) beta:buffer({0})];
  MPSCNNNormalizationGammaAndBetaState* const squared =
      [[MPSCNNNormalizationGammaAndBetaState alloc] initWithGamma:buffer({0}) beta:buffer({0})];
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> commands) {
                [descent(rate(0.5f)) encodeToCommandBuffer:commands
                                   batchNormalizationState:state
                                      inputMomentumVectors:nil
                                               resultState:result];
                MPSNNOptimizerRMSProp* root = [[MPSNNOptimizerRMSProp alloc] initWithDevice:device()
                                                                                      decay:0
                                                                                    epsilon:0
                                                                        optimizerDescriptor:rate(1)];
                [root encodeToCommandBuffer:commands
                    batchNormalizationGradientState:state
                      batchNormalizationSourceState:state
                           inputSumOfSquaresVectors:@[ vector({0}), vector({0}) ]
                                        resultState:squared];
                CHECK_EQUAL(raised_by(^{
                              [root encodeToCommandBuffer:commands
                                   batchNormalizationState:state
                                  inputSumOfSquaresVectors:nil
                                               resultState:squared];
                            }),
                            misused);
              }),
              std::string());
  CHECK(are(numbers(result.gamma), {-1}) && are(numbers(result.beta), {-2}));
  CHECK(are(numbers(squared.gamma), {0}) && are(numbers(squared.beta), {1}));
}

int main() { return check::run_all(); }
