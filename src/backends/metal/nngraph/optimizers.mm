// Encodes optimizer steps. A new MPSNNOptimizer is created for each step so that its properties match those of the
// nngraph optimizer; this is cheap, because an MPSNNOptimizer only holds a few properties.
#include "backends/metal/nngraph/optimizers.h"

#include "mpsgraph/core/errors.h"

namespace mpsgraph::metal {

using nngraph::OptimizerDescriptor;

namespace {

MPSNNOptimizerDescriptor* descriptor_of(const nngraph::Optimizer& optimizer) {
  const OptimizerDescriptor& d = optimizer.descriptor;
  using enum OptimizerDescriptor::Regularization;
  if (d.regularization_type == l1)
    throw UnsupportedError(cat(optimizer.name(),
                               ": l1 regularization is not supported on the Metal device: according to Apple's "
                               "documentation, regularization_scale is also added to the gradient of negative values, "
                               "which would push them away from zero, and it is unknown what a Mac computes; use l2, "
                               "or device=\"cpu\""));
  const auto number = [](double value) { return static_cast<float>(value); };
  return [MPSNNOptimizerDescriptor
      optimizerDescriptorWithLearningRate:number(d.learning_rate)
                          gradientRescale:number(d.gradient_rescale)
                    applyGradientClipping:d.apply_gradient_clipping
                          gradientClipMax:number(d.gradient_clip_max)
                          gradientClipMin:number(d.gradient_clip_min)
                       regularizationType:d.regularization_type == l2 ? MPSNNRegularizationTypeL2
                                                                      : MPSNNRegularizationTypeNone
                      regularizationScale:number(d.regularization_scale)];
}

MPSNNOptimizer* descent_kernel(id<MTLDevice> device, MPSNNOptimizerDescriptor* descriptor, double momentum,
                               bool nesterov) {
  return [[MPSNNOptimizerStochasticGradientDescent alloc] initWithDevice:device
                                                           momentumScale:static_cast<float>(momentum)
                                                     useNesterovMomentum:nesterov
                                                     optimizerDescriptor:descriptor];
}

void descend(id<MTLDevice> device, id<MTLCommandBuffer> commands, MPSNNOptimizerDescriptor* descriptor,
             const VectorStep& step) {
  encode_step(commands, descent_kernel(device, descriptor, 0, false), step);
}

// Settings of a plain gradient descent step, values -= rate * (gradient + scale * values), where `scale` is the L2
// regularization. encode_moving_average() passes the new statistics (`now`) as the gradient, rate = keep - 1, and scale
// = -1, so the step computes values += (1 - keep) * (now - values). encode_sum() passes the values to add as the
// gradient, with rate = -1 and scale = 0.
MPSNNOptimizerDescriptor* plain(double rate, double scale) {
  return [MPSNNOptimizerDescriptor
      optimizerDescriptorWithLearningRate:static_cast<float>(rate)
                          gradientRescale:1
                       regularizationType:scale == 0 ? MPSNNRegularizationTypeNone : MPSNNRegularizationTypeL2
                      regularizationScale:static_cast<float>(scale)];
}

}  // namespace

MPSNNOptimizer* optimizer_kernel(id<MTLDevice> device, const nngraph::Optimizer& optimizer) {
  MPSNNOptimizerDescriptor* descriptor = descriptor_of(optimizer);
  if (const auto* descent = dynamic_cast<const nngraph::StochasticGradientDescent*>(&optimizer))
    return descent_kernel(device, descriptor, descent->momentum_scale, descent->use_nesterov_momentum);
  if (const auto* rms = dynamic_cast<const nngraph::RMSProp*>(&optimizer))
    return [[MPSNNOptimizerRMSProp alloc] initWithDevice:device
                                                   decay:rms->decay
                                                 epsilon:static_cast<float>(rms->epsilon)
                                     optimizerDescriptor:descriptor];
  const auto& adam = dynamic_cast<const nngraph::Adam&>(optimizer);
  return [[MPSNNOptimizerAdam alloc] initWithDevice:device
                                              beta1:adam.beta1
                                              beta2:adam.beta2
                                            epsilon:static_cast<float>(adam.epsilon)
                                           timeStep:static_cast<NSUInteger>(adam.time_step())
                                optimizerDescriptor:descriptor];
}

namespace {

template <class Kernel>
Kernel* as_kind(MPSNNOptimizer* kernel) {
  return [kernel isKindOfClass:[Kernel class]] ? static_cast<Kernel*>(kernel) : nil;
}

}  // namespace

void encode_step(id<MTLCommandBuffer> commands, MPSNNOptimizer* kernel, const VectorStep& step) {
  const auto moment = [&](size_t i) { return i < step.moments.size() ? step.moments[i] : nil; };
  if (auto* descent = as_kind<MPSNNOptimizerStochasticGradientDescent>(kernel))
    return [descent encodeToCommandBuffer:commands
                      inputGradientVector:step.gradient
                        inputValuesVector:step.values
                      inputMomentumVector:moment(0)
                       resultValuesVector:step.result];
  if (auto* rms = as_kind<MPSNNOptimizerRMSProp>(kernel))
    return [rms encodeToCommandBuffer:commands
                  inputGradientVector:step.gradient
                    inputValuesVector:step.values
              inputSumOfSquaresVector:moment(0)
                   resultValuesVector:step.result];
  [static_cast<MPSNNOptimizerAdam*>(kernel) encodeToCommandBuffer:commands
                                              inputGradientVector:step.gradient
                                                inputValuesVector:step.values
                                              inputMomentumVector:moment(0)
                                              inputVelocityVector:moment(1)
                                            maximumVelocityVector:moment(2)
                                               resultValuesVector:step.result];
}

void encode_step(id<MTLCommandBuffer> commands, MPSNNOptimizer* kernel, const MatrixStep& step) {
  const auto moment = [&](size_t i) { return i < step.moments.size() ? step.moments[i] : nil; };
  if (auto* descent = as_kind<MPSNNOptimizerStochasticGradientDescent>(kernel))
    return [descent encodeToCommandBuffer:commands
                      inputGradientMatrix:step.gradient
                        inputValuesMatrix:step.values
                      inputMomentumMatrix:moment(0)
                       resultValuesMatrix:step.result];
  if (auto* rms = as_kind<MPSNNOptimizerRMSProp>(kernel))
    return [rms encodeToCommandBuffer:commands
                  inputGradientMatrix:step.gradient
                    inputValuesMatrix:step.values
              inputSumOfSquaresMatrix:moment(0)
                   resultValuesMatrix:step.result];
  [static_cast<MPSNNOptimizerAdam*>(kernel) encodeToCommandBuffer:commands
                                              inputGradientMatrix:step.gradient
                                                inputValuesMatrix:step.values
                                              inputMomentumMatrix:moment(0)
                                              inputVelocityMatrix:moment(1)
                                            maximumVelocityMatrix:moment(2)
                                               resultValuesMatrix:step.result];
}

void encode_moving_average(id<MTLDevice> device, id<MTLCommandBuffer> commands, double keep, MPSVector* now,
                           MPSVector* values) {
  descend(device, commands, plain(keep - 1, -1), {now, values, {}, values});
}

void encode_sum(id<MTLDevice> device, id<MTLCommandBuffer> commands, MPSVector* values, MPSVector* sum) {
  descend(device, commands, plain(-1, 0), {values, sum, {}, sum});
}

}  // namespace mpsgraph::metal
