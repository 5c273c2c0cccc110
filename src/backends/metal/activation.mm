// Activations: relu, sigmoid, leaky relu, softmax, and their gradients.
//
// MPSGraph has gradient operations, too, but Apple documents neither their values at 0, nor whether `sourceTensor` is
// the operand or the result, nor the result of leaky relu for slopes outside [0, 1]. These operations are therefore
// composed, in float32 where differences and sums are involved. The core expands softmax cross-entropy and its
// gradient: Apple documents the formula, but not that the result stays finite.
#include "backends/metal/formula.h"

namespace mpsgraph::metal {
namespace {

// Like MPSGraph's reLU, but NaN stays NaN.
GraphTensors lower_relu(Lowering& l) {
  const Term x = input(l);
  return {[l.graph() maximumWithNaNPropagationWithPrimaryTensor:x.tensor()
                                                secondaryTensor:x.constant(0).tensor()
                                                           name:l.name()]};
}

GraphTensors lower_relu_gradient(Lowering& l) { return select(input(l, 1) > 0, input(l, 0), 0); }

Term sigmoid(const Term& x) {
  return apply(x, [](MPSGraph* g, MPSGraphTensor* t) { return [g sigmoidWithTensor:t name:nil]; });
}

GraphTensors lower_sigmoid(Lowering& l) { return sigmoid(input(l)); }

GraphTensors lower_sigmoid_gradient(Lowering& l) {
  const Term s = sigmoid(wide_input(l, 1));
  return narrow(l, wide_input(l, 0) * s * (1 - s));
}

GraphTensors lower_leaky_relu(Lowering& l) {
  const Term x = input(l, 0), alpha = input(l, 1);
  return select(x >= 0, x, x * alpha);
}

GraphTensors lower_leaky_relu_gradient(Lowering& l) {
  const Term incoming = input(l, 0), source = input(l, 1), alpha = input(l, 2);
  return select(source >= 0, incoming, incoming * alpha);
}

// Whether `x` is computed from a matmul through at most seven element-wise operations, casts, or reshapes. MPSGraph
// treats a softmax between two matmuls as attention.
bool follows_product(const Tensor* x) {
  for (int steps = 0; steps < 8; ++steps) {
    const Operation& operation = *x->operation;
    if (operation.is("matrix_multiplication")) return true;
    const bool passes = operation.is({"multiplication", "division"}) || operation.is({"addition", "subtraction"}) ||
                        operation.is({"cast", "reshape"}) || operation.is({"identity", "select"});
    if (!passes) return false;
    const bool of_select = operation.is("select");
    const Tensor *first = operation.input(of_select ? 1 : 0), *second = nullptr;
    if (operation.inputs.size() > 1 && !operation.is("reshape")) second = operation.input(of_select ? 2 : 1);
    x = second && second->shape().rank() > first->shape().rank() ? second : first;
  }
  return false;
}

// An addition that MPSGraph does not optimize away is inserted before the softmax, so that the graph does not match
// MPSGraph's attention pattern. matrix.mm does the same for attention scores.
GraphTensors lower_softmax(Lowering& l) {
  if (follows_product(l.operation.input(0))) {
    const Term scores = wide_input(l) + 1e-20;
    return narrow(l, scores.with([l.graph() softMaxWithTensor:scores.tensor() axis:l.axis() name:l.name()]));
  }
  return {[l.graph() softMaxWithTensor:l.input() axis:l.axis() name:l.name()]};
}

Term softmax(const Term& x, int64_t axis) {
  return x.with([x.graph() softMaxWithTensor:x.tensor() axis:axis name:nil]);
}

// s (g - Σ g s)
GraphTensors lower_softmax_gradient(Lowering& l) {
  const Term g = wide_input(l, 0), s = softmax(wide_input(l, 1), l.axis());
  return narrow(l, s * (g - sum(g * s, {l.axis()})));
}

// The maximum is subtracted first so that the exponentials stay finite.
GraphTensors lower_log_softmax(Lowering& l) {
  const Term x = wide_input(l);
  const Ints axis{l.axis()};
  const Term most = x.with([x.graph() reductionMaximumPropagateNaNWithTensor:x.tensor() axes:numbers(axis) name:nil]);
  const Term shifted = x - most;
  return narrow(l, shifted - logarithm(sum(exponent(shifted), axis)));
}

// g - s Σ g
GraphTensors lower_log_softmax_gradient(Lowering& l) {
  const Term g = wide_input(l, 0);
  return narrow(l, g - softmax(wide_input(l, 1), l.axis()) * sum(g, {l.axis()}));
}

}  // namespace

const Lowerings activation_lowerings("activation", [] {
  define_lowering("relu", lower_relu);
  define_lowering("relu_gradient", lower_relu_gradient);
  define_lowering("sigmoid", lower_sigmoid);
  define_lowering("sigmoid_gradient", lower_sigmoid_gradient);
  define_lowering("leaky_relu", lower_leaky_relu);
  define_lowering("leaky_relu_gradient", lower_leaky_relu_gradient);
  define_lowering("softmax", lower_softmax);
  define_lowering("softmax_gradient", lower_softmax_gradient);
  define_lowering("log_softmax", lower_log_softmax);
  define_lowering("log_softmax_gradient", lower_log_softmax_gradient);
});

}  // namespace mpsgraph::metal
