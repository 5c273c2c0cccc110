// Optimizer steps, by the formulas in Apple's descriptions:
//
//   variable = variable - (learningRate * g)
//   lr[t] = learningRate * sqrt(1 - beta2^t) / (1 - beta1^t)
//   m[t] = beta1 * m[t-1] + (1 - beta1) * g
//   v[t] = beta2 * v[t-1] + (1 - beta2) * (g ^ 2)
//   maxVel[t] = max(maxVel[t-1], v[t])
//   variable = variable - lr[t] * m[t] / (sqrt(maxVel) + epsilon)
#include <cmath>

#include "graph/elementwise.h"

using namespace mock;

namespace {

double scalar(const Value& value) {
  if (value.dims != Dims{1}) misuse(@"optimizer: coefficients must be scalars, got shape %@", text_of(value.dims));
  return value.real(0);
}

void require_alike(const Values& in, size_t first) {
  require_same_type(@"an optimizer", in);
  for (size_t i = first; i < in.size(); ++i) {
    require(@"optimizer", in[i], Takes::floats);
    if (in[i].dims != in[first].dims)
      misuse(@"optimizer: operands must have the same shape, got %@ and %@", text_of(in[first].dims),
             text_of(in[i].dims));
  }
}

// Inputs: beta1, beta2, epsilon, values, momentum, velocity, [maximum velocity,] gradient.
Values adam(double rate, const Values& in) {
  require_alike(in, 3);
  const double beta1 = scalar(in[0]), beta2 = scalar(in[1]), epsilon = scalar(in[2]);
  const bool keeps_maximum = in.size() == 8;
  Values results(in.begin() + 3, in.begin() + (keeps_maximum ? 7 : 6));
  for (int64_t i = 0; i < in[3].count(); ++i) {
    const double g = in.back().real(i);
    const double m = beta1 * in[4].real(i) + (1 - beta1) * g, v = beta2 * in[5].real(i) + (1 - beta2) * g * g;
    const double most = keeps_maximum ? std::fmax(in[6].real(i), v) : v;
    results[0].set(i, in[3].real(i) - rate * m / (std::sqrt(most) + epsilon));
    results[1].set(i, m);
    results[2].set(i, v);
    if (keeps_maximum) results[3].set(i, most);
  }
  return results;
}

}  // namespace

@implementation MPSGraph (MockOptimizer)

- (MPSGraphTensor*)stochasticGradientDescentWithLearningRateTensor:(MPSGraphTensor*)rate
                                                      valuesTensor:(MPSGraphTensor*)values
                                                    gradientTensor:(MPSGraphTensor*)gradient
                                                              name:(NSString*)name {
  return add_one(self, @"stochasticGradientDescent", name, {rate, values, gradient}, [](const Values& in) {
    require_alike(in, 1);
    Value result = in[1];
    for (int64_t i = 0; i < result.count(); ++i) result.set(i, in[1].real(i) - scalar(in[0]) * in[2].real(i));
    return result;
  });
}

- (NSArray<MPSGraphTensor*>*)adamWithLearningRateTensor:(MPSGraphTensor*)rate
                                            beta1Tensor:(MPSGraphTensor*)beta1
                                            beta2Tensor:(MPSGraphTensor*)beta2
                                          epsilonTensor:(MPSGraphTensor*)epsilon
                                       beta1PowerTensor:(MPSGraphTensor*)beta1_power
                                       beta2PowerTensor:(MPSGraphTensor*)beta2_power
                                           valuesTensor:(MPSGraphTensor*)values
                                         momentumTensor:(MPSGraphTensor*)momentum
                                         velocityTensor:(MPSGraphTensor*)velocity
                                  maximumVelocityTensor:(MPSGraphTensor*)maximum_velocity
                                         gradientTensor:(MPSGraphTensor*)gradient
                                                   name:(NSString*)name {
  std::vector<MPSGraphTensor*> operands{rate,    beta1_power, beta2_power, beta1,   beta2,
                                        epsilon, values,      momentum,    velocity};
  if (maximum_velocity) operands.push_back(maximum_velocity);
  operands.push_back(gradient);
  return add(self, @"adam", name, operands, [](const Values& in) {
    const double effective = scalar(in[0]) * std::sqrt(1 - scalar(in[2])) / (1 - scalar(in[1]));
    return adam(effective, Values(in.begin() + 3, in.end()));
  });
}

- (NSArray<MPSGraphTensor*>*)adamWithCurrentLearningRateTensor:(MPSGraphTensor*)rate
                                                   beta1Tensor:(MPSGraphTensor*)beta1
                                                   beta2Tensor:(MPSGraphTensor*)beta2
                                                 epsilonTensor:(MPSGraphTensor*)epsilon
                                                  valuesTensor:(MPSGraphTensor*)values
                                                momentumTensor:(MPSGraphTensor*)momentum
                                                velocityTensor:(MPSGraphTensor*)velocity
                                         maximumVelocityTensor:(MPSGraphTensor*)maximum_velocity
                                                gradientTensor:(MPSGraphTensor*)gradient
                                                          name:(NSString*)name {
  std::vector<MPSGraphTensor*> operands{rate, beta1, beta2, epsilon, values, momentum, velocity};
  if (maximum_velocity) operands.push_back(maximum_velocity);
  operands.push_back(gradient);
  return add(self, @"adam", name, operands,
             [](const Values& in) { return adam(scalar(in[0]), Values(in.begin() + 1, in.end())); });
}
@end
