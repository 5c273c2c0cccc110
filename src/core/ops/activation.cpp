// Activations: relu, sigmoid, leaky_relu, softmax, log_softmax, and their gradient operations.
//
// relu and sigmoid are differentiated in terms of their results, so their inputs need not be kept and the activation
// can be fused into the operation that produces its input. As in MPSGraph, the *_gradient operations take the source as
// an operand. They are differentiable themselves.
#include "core/ops/elementwise.h"
#include "core/ops/primitive.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

// ---- element-wise ----

std::vector<TensorType> infer_pointwise(const InferContext& c) {
  c.require_float(0);
  c.require_same_dtype();
  return {{c.dtype(0), broadcast_shapes(c)}};
}

Tensor* positive(Builder& b, Tensor* x) { return b.binary("greater_than", x, b.scalar_like(x, 0)); }

// relu(x) = max(x, 0); relu_gradient(g, x) = g where x > 0, else 0. This derivative passes the result relu(x) in place
// of x, which is valid because relu(x) > 0 exactly where x > 0.
void d_relu(GradientContext& c) { c.set(0, Builder(c.graph()).binary("relu_gradient", c.incoming(), c.output())); }
void d_relu_gradient(GradientContext& c) {
  Builder b(c.graph());
  if (c.needs(0)) c.set(0, b.sum_to_like(b.binary("relu_gradient", c.incoming(), c.input(1)), c.input(0)));
}

// sigmoid(x) = s = 1 / (1 + exp(-x)), with the derivatives s' = s (1 - s) and s'' = s' (1 - 2 s).
void d_sigmoid(GradientContext& c) {
  Builder b(c.graph());
  Tensor* s = c.output();
  c.set(0, b.mul(c.incoming(), b.mul(s, b.sub(1.0, s))));
}
void d_sigmoid_gradient(GradientContext& c) {
  Builder b(c.graph());
  Tensor *g = c.input(0), *x = c.input(1);
  if (c.needs(0)) c.set(0, b.sum_to_like(b.binary("sigmoid_gradient", c.incoming(), x), g));
  if (c.needs(1)) {
    Tensor* slope = b.sub(1.0, b.mul(b.unary("sigmoid", x), 2.0));
    c.set(1, b.sum_to_like(b.mul(c.incoming(), b.mul(c.output(), slope)), x));
  }
}

// leaky_relu(x, a) = x where x > 0, else a x; leaky_relu_gradient(g, x, a) = g where x >= 0, else a g.
void d_leaky_relu(GradientContext& c) {
  Builder b(c.graph());
  Tensor *x = c.input(0), *alpha = c.input(1), *g = c.incoming();
  if (c.needs(0)) c.set(0, b.sum_to_like(c.graph().add("leaky_relu_gradient", {g, x, alpha}), x));
  if (c.needs(1)) {
    Tensor *below = b.mul(g, x), *above = b.scalar_like(g, 0);
    c.set(1, b.sum_to_like(b.select(positive(b, x), above, below), alpha));
  }
}
void d_leaky_relu_gradient(GradientContext& c) {
  Builder b(c.graph());
  Tensor *g = c.input(0), *x = c.input(1), *alpha = c.input(2), *v = c.incoming();
  if (c.needs(0)) c.set(0, b.sum_to_like(c.graph().add("leaky_relu_gradient", {v, x, alpha}), g));
  if (c.needs(2)) {
    Tensor *below = b.mul(v, g), *above = b.scalar_like(g, 0);
    c.set(2, b.sum_to_like(b.select(positive(b, x), above, below), alpha));
  }
}

// ---- softmax along an axis ----

std::vector<TensorType> infer_softmax(const InferContext& c) {
  c.require_float(0);
  c.require_same_dtype();
  Shape shape = c.shape(0);
  if (c.count() == 2) {
    if (!compatible(shape, c.shape(1))) {
      c.shape_error(cat("incoming gradient and source must have the same shape, got ", shape, " and ", c.shape(1)));
    }
    shape = merge(shape, c.shape(1));
  }
  if (shape.ranked()) c.axis(c.attributes.integer("axis"), shape.rank());
  return {{c.dtype(0), shape}};
}

Ints axis_of(const Attributes& attributes) { return {attributes.integer("axis")}; }
Tensor* softmax_of(Builder& b, Tensor* x, const Attributes& a) {
  return b.graph().add("softmax", {x}, {{"axis", a.integer("axis")}});
}
Tensor* softmax_gradient_of(Builder& b, Tensor* g, Tensor* x, const Attributes& a) {
  return b.graph().add("softmax_gradient", {g, x}, {{"axis", a.integer("axis")}});
}

// Decompositions of softmax, log_softmax, and their gradients into simpler operations. Each subtracts the maximum first
// so that exp cannot overflow.
std::vector<Tensor*> softmax_parts(Builder& b, const std::vector<Tensor*>& in, const Attributes& a) {
  Tensor* e = b.unary("exponent", b.sub(in[0], b.max(in[0], axis_of(a))));
  return {b.div(e, b.sum(e, axis_of(a)))};
}
std::vector<Tensor*> log_softmax_parts(Builder& b, const std::vector<Tensor*>& in, const Attributes& a) {
  Tensor* shifted = b.sub(in[0], b.max(in[0], axis_of(a)));
  return {b.sub(shifted, b.unary("logarithm", b.sum(b.unary("exponent", shifted), axis_of(a))))};
}
// s (g - Σ g s)
std::vector<Tensor*> softmax_gradient_parts(Builder& b, const std::vector<Tensor*>& in, const Attributes& a) {
  Tensor* s = softmax_of(b, in[1], a);
  return {b.mul(s, b.sub(in[0], b.sum(b.mul(in[0], s), axis_of(a))))};
}
// g - s Σ g
std::vector<Tensor*> log_softmax_gradient_parts(Builder& b, const std::vector<Tensor*>& in, const Attributes& a) {
  Tensor* sum = b.sum(in[0], axis_of(a));
  return {b.sub(in[0], b.mul(softmax_of(b, in[1], a), sum))};
}

void d_softmax(GradientContext& c) {
  Builder b(c.graph());
  c.set(0, softmax_gradient_of(b, c.incoming(), c.input(0), c.attributes()));
}
void d_log_softmax(GradientContext& c) {
  c.set(0,
        c.graph().add("log_softmax_gradient", {c.incoming(), c.input(0)}, {{"axis", c.attributes().integer("axis")}}));
}

// softmax_gradient is r = s (u - c), where s is the softmax of x, u the incoming gradient, and c = Σ u s. It is linear
// and symmetric in u. For an incoming gradient v of r, the gradient of s is dL/ds = v (u - c) - u Σ v s.
void d_softmax_gradient(GradientContext& c) {
  Builder b(c.graph());
  Tensor *u = c.input(0), *x = c.input(1), *v = c.incoming();
  if (c.needs(0)) c.set(0, softmax_gradient_of(b, v, x, c.attributes()));
  if (c.needs(1)) {
    Ints axis = axis_of(c.attributes());
    Tensor* s = softmax_of(b, x, c.attributes());
    Tensor* centred = b.sub(u, b.sum(b.mul(u, s), axis));
    Tensor* through_sum = b.mul(u, b.sum(b.mul(v, s), axis));
    Tensor* ds = b.sub(b.mul(v, centred), through_sum);
    c.set(1, softmax_gradient_of(b, ds, x, c.attributes()));
  }
}

// log_softmax_gradient is r = u - s U, where s is the softmax of x, u the incoming gradient, and U = Σ u. For an
// incoming gradient v of r, the gradient of u is du = v - Σ v s, and the gradient of s is dL/ds = -v U.
void d_log_softmax_gradient(GradientContext& c) {
  Builder b(c.graph());
  Tensor *u = c.input(0), *x = c.input(1), *v = c.incoming();
  Ints axis = axis_of(c.attributes());
  if (c.needs(0)) c.set(0, b.sub(v, b.sum(b.mul(v, softmax_of(b, x, c.attributes())), axis)));
  if (c.needs(1)) c.set(1, softmax_gradient_of(b, b.neg(b.mul(v, b.sum(u, axis))), x, c.attributes()));
}

void along_axis(Kind name, std::string_view parameters, std::string documentation, Gradient gradient,
                Decompose decompose) {
  const int operands = static_cast<int>(std::ranges::count(parameters, ','));  // the last parameter is the axis
  OperationDefinition d =
      primitive(name, operands, {optional("axis", int64_t{-1})}, infer_softmax, std::move(gradient));
  d.parameters = parameters;
  d.dtypes = DTypeClass::floats;
  d.documentation = std::move(documentation);
  d.decompose = std::move(decompose);
  define(std::move(d));
}

constexpr std::string_view axis_argument = R"(
Args:
    axis: Axis to normalize along; negative values count from the end.)";

}  // namespace

const Family activation_family("activation", [] {
  const auto activation = [](Kind name, std::string_view parameters, std::string_view documentation,
                             Gradient gradient) {
    define(elementwise(name, parameters, DTypeClass::floats, documentation, infer_pointwise, std::move(gradient)));
  };
  activation("relu", "x", R"(
Apply the rectified linear unit element-wise.

result = max(x, 0).

Gradient: the incoming gradient where x > 0, zero elsewhere.
Source: MPSGraph reLUWithTensor:name:.
>>> g.run({}, g.relu(g.constant([-1.0, 2.0]))).tolist()
[0.0, 2.0])",
             d_relu);
  activation("relu_gradient", "incoming, source", R"(
Compute the gradient of relu with respect to its source.

result = source > 0 ? incoming : 0.

Gradient: to incoming, the incoming gradient where source > 0 and zero elsewhere; to source, zero.
Source: MPSGraph reLUGradientWithIncomingGradient:sourceTensor:name:.
>>> g.run({}, g.relu_gradient(g.constant([5.0, 5.0]), g.constant([-1.0, 2.0]))).tolist()
[0.0, 5.0])",
             d_relu_gradient);
  activation("sigmoid", "x", R"(
Apply the logistic function element-wise.

result = 1 / (1 + e^-x).

Gradient: incoming gradient * result * (1 - result).
Source: MPSGraph sigmoidWithTensor:name:.
>>> g.run({}, g.sigmoid(g.constant([0.0]))).tolist()
[0.5])",
             d_sigmoid);
  activation("sigmoid_gradient", "incoming, source", R"(
Compute the gradient of sigmoid with respect to its source.

result = incoming * s * (1 - s), where s = sigmoid(source).

Gradient: incoming gradient * s * (1 - s) to incoming; the second derivative of sigmoid to source.
Source: MPSGraph sigmoidGradientWithIncomingGradient:sourceTensor:name:.
>>> g.run({}, g.sigmoid_gradient(g.constant([4.0]), g.constant([0.0]))).tolist()
[1.0])",
             d_sigmoid_gradient);
  activation("leaky_relu", "x, alpha: number = 0.01", R"(
Apply the leaky rectified linear unit, which is linear with slope `alpha` below 0.

result = x > 0 ? x : alpha * x.

Args:
    alpha: Slope for negative x, a number or a tensor that broadcasts to x.
Gradient: incoming gradient * (x >= 0 ? 1 : alpha) to x; the sum of incoming gradient * min(x, 0) to alpha.
Source: MPSGraph leakyReLUWithTensor:alphaTensor:name: and leakyReLUWithTensor:alpha:name:.
>>> g.run({}, g.leaky_relu(g.constant([-4.0, 2.0]), 0.25)).tolist()
[-1.0, 2.0])",
             d_leaky_relu);
  activation("leaky_relu_gradient", "incoming, source, alpha: number = 0.01", R"(
Compute the gradient of leaky_relu with respect to its source.

result = incoming * (source >= 0 ? 1 : alpha). PyTorch uses the slope alpha at 0.

Args:
    alpha: Slope for negative source, a number or a tensor that broadcasts to source.
Gradient: incoming gradient * (source >= 0 ? 1 : alpha) to incoming; zero to source.
Source: MPSGraph leakyReLUGradientWithIncomingGradient:sourceTensor:alphaTensor:name:.
>>> g.run({}, g.leaky_relu_gradient(g.constant([8.0, 8.0]), g.constant([-1.0, 1.0]), 0.25)).tolist()
[2.0, 8.0])",
             d_leaky_relu_gradient);
  along_axis("softmax", "x, axis",
             cat(R"(
Normalize values along an axis into positive weights that sum to 1.

result = e^(x - m) / sum(e^(x - m)), where m = max(x). The sum and the maximum are along `axis`; subtracting m
prevents overflow.

Gradient: result * (incoming gradient - sum(incoming gradient * result)).
Source: MPSGraph softMaxWithTensor:axis:name:.
>>> g.run({}, g.softmax(g.constant([3.0, 3.0]))).tolist()
[0.5, 0.5])",
                 axis_argument),
             d_softmax, softmax_parts);
  along_axis("softmax_gradient", "incoming, source, axis", R"(
Compute the gradient of softmax with respect to its source.

result = s * (incoming - sum(incoming * s)), where s = softmax(source) and sums are along `axis`.

Gradient: to incoming and source; the gradient to source is the second derivative of softmax.
Source: MPSGraph softMaxGradientWithIncomingGradient:sourceTensor:axis:name:.
>>> g.run({}, g.softmax_gradient(g.constant([4.0, 0.0]), g.constant([3.0, 3.0]))).tolist()
[1.0, -1.0])",
             d_softmax_gradient, softmax_gradient_parts);
  along_axis("log_softmax", "x, axis",
             cat(R"(
Compute the logarithm of softmax without overflow or loss of small probabilities.

result = x - m - ln(sum(e^(x - m))), where m = max(x). The sum and the maximum are along `axis`.

Gradient: incoming gradient - e^result * sum(incoming gradient).
Source: this package, for numerically stable losses; the Metal device composes it from other MPSGraph
operations.
>>> g.run({}, g.exponent(g.log_softmax(g.constant([0.0])))).tolist()
[1.0])",
                 axis_argument),
             d_log_softmax, log_softmax_parts);
  along_axis("log_softmax_gradient", "incoming, source, axis", R"(
Compute the gradient of log_softmax with respect to its source.

result = incoming - softmax(source) * sum(incoming), where the sum and softmax are along `axis`.

Gradient: to incoming and source.
Source: this package, as the gradient of log_softmax.
>>> g.run({}, g.log_softmax_gradient(g.constant([4.0, 0.0]), g.constant([3.0, 3.0]))).tolist()
[2.0, -2.0])",
             d_log_softmax_gradient, log_softmax_gradient_parts);
});

}  // namespace mpsgraph::ops
