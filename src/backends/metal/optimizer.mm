// Optimizer steps. MPSGraph's own steps take scalar rates and gradients with the shape of the values; steps with other
// operands are composed.
#include <algorithm>

#include "backends/metal/complex.h"

namespace mpsgraph::metal {
namespace {

bool is_scalar(const Lowering& l, size_t i) { return element_count(l.dims(i)) == 1; }

// Return operand i, a scalar, in the shape (1) that MPSGraph expects of scalars.
MPSGraphTensor* scalar(const Lowering& l, size_t i) { return l.rank(i) <= 1 ? l.input(i) : l.reshape(l.input(i), {1}); }

GraphTensors lower_stochastic_gradient_descent(Lowering& l) {
  if (is_complex(l.dtype())) {
    const Parts rate = parts_of(l, l.input(0)), values = parts_of(l, l.input(1)), gradient = parts_of(l, l.input(2));
    return {complex_tensor(l, {values.re - (rate.re * gradient.re - rate.im * gradient.im),
                               values.im - (rate.re * gradient.im + rate.im * gradient.re)})};
  }
  if (!is_scalar(l, 0) || l.dims(1) != l.dims(2)) return Term::input(l, 1) - Term::input(l, 2) * Term::input(l, 0);
  return {[l.graph() stochasticGradientDescentWithLearningRateTensor:scalar(l, 0)
                                                        valuesTensor:l.input(1)
                                                      gradientTensor:l.input(2)
                                                                name:l.name()]};
}

// Operands of an Adam step: learning_rate, beta1, beta2, epsilon, [beta1_power, beta2_power,] values, momentum,
// velocity, [maximum_velocity,] gradient.
struct Adam {
  Lowering& l;
  const size_t values;
  const bool amsgrad = l.attributes().boolean("amsgrad");
  const size_t gradient = values + 3 + amsgrad;

  bool is_native() const {
    bool scalars = true;
    for (size_t i = 0; i < values; ++i) scalars = scalars && is_scalar(l, i);
    return scalars && l.dims(values) == l.dims(gradient);
  }
  Term operator[](size_t i) const { return Term::input(l, i); }
  MPSGraphTensor* maximum_velocity() const { return amsgrad ? l.input(values + 3) : nil; }

  GraphTensors composed() const {
    const Adam& in = *this;
    Term rate = in[0];
    if (values == 6) rate = rate * square_root(1 - in[5]) / (1 - in[4]);
    const Term g = in[gradient];
    const Term momentum = in[values + 1] * in[1] + g * (1 - in[1]);
    const Term velocity = in[values + 2] * in[2] + square(g) * (1 - in[2]);
    const Term largest = amsgrad ? select(in[values + 3] > velocity, in[values + 3], velocity) : velocity;
    GraphTensors results{(in[values] - momentum * rate / (square_root(largest) + in[3])).tensor(), momentum.tensor(),
                         velocity.tensor()};
    if (amsgrad) results.push_back(largest.tensor());
    return results;
  }
};

GraphTensors listed(NSArray<MPSGraphTensor*>* tensors) {
  GraphTensors result;
  for (MPSGraphTensor* tensor in tensors) result.push_back(tensor);
  return result;
}

GraphTensors lower_adam(Lowering& l) {
  const Adam adam{l, 6};
  if (!adam.is_native()) return adam.composed();
  return listed([l.graph() adamWithLearningRateTensor:scalar(l, 0)
                                          beta1Tensor:scalar(l, 1)
                                          beta2Tensor:scalar(l, 2)
                                        epsilonTensor:scalar(l, 3)
                                     beta1PowerTensor:scalar(l, 4)
                                     beta2PowerTensor:scalar(l, 5)
                                         valuesTensor:l.input(6)
                                       momentumTensor:l.input(7)
                                       velocityTensor:l.input(8)
                                maximumVelocityTensor:adam.maximum_velocity()
                                       gradientTensor:l.input(adam.gradient)
                                                 name:l.name()]);
}

GraphTensors lower_adam_with_current_learning_rate(Lowering& l) {
  const Adam adam{l, 4};
  if (!adam.is_native()) return adam.composed();
  return listed([l.graph() adamWithCurrentLearningRateTensor:scalar(l, 0)
                                                 beta1Tensor:scalar(l, 1)
                                                 beta2Tensor:scalar(l, 2)
                                               epsilonTensor:scalar(l, 3)
                                                valuesTensor:l.input(4)
                                              momentumTensor:l.input(5)
                                              velocityTensor:l.input(6)
                                       maximumVelocityTensor:adam.maximum_velocity()
                                              gradientTensor:l.input(adam.gradient)
                                                        name:l.name()]);
}

}  // namespace

const Lowerings optimizer_lowerings("optimizer", [] {
  define_lowering("stochastic_gradient_descent", lower_stochastic_gradient_descent);
  define_lowering("adam", lower_adam);
  define_lowering("adam_with_current_learning_rate", lower_adam_with_current_learning_rate);
});

}  // namespace mpsgraph::metal
