// Activations: relu, sigmoid, leaky_relu, softmax, log_softmax, and their gradient operations.
//
// relu and sigmoid are differentiated in terms of their results, so their inputs need not be kept and the activation
// can be fused into the operation that produces its input. As in MPSGraph, the *_gradient operations take the source as
// an operand. They are differentiable themselves.
#include "core/definition.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

// ---- element-wise ----

std::vector<TensorType> infer_pointwise(const InferContext& c) {
  c.require_float(0);
  c.require_same_dtype();
  Shape shape = c.shape(0);
  for (size_t i = 1; i < c.count(); ++i) {
    auto merged = broadcast(shape, c.shape(i));
    if (!merged)
      c.shape_error(cat("operand shapes ", shape, " and ", c.shape(i),
                        " cannot be broadcast: dimensions, aligned from the last, must be equal or 1"));
    shape = *merged;
  }
  return {{c.dtype(0), shape}};
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

void pointwise(std::string_view name, int operands, Gradient gradient) {
  OperationDefinition d;
  d.name = name;
  d.min_inputs = d.max_inputs = operands;
  d.infer = infer_pointwise;
  d.gradient = std::move(gradient);
  d.elementwise = true;
  define(std::move(d));
}

void along_axis(std::string_view name, int operands, Gradient gradient, Decompose decompose) {
  OperationDefinition d;
  d.name = name;
  d.min_inputs = d.max_inputs = operands;
  d.attributes = {optional("axis", int64_t{-1})};
  d.infer = infer_softmax;
  d.gradient = std::move(gradient);
  d.decompose = std::move(decompose);
  define(std::move(d));
}

}  // namespace

const Family activation_family("activation", [] {
  pointwise("relu", 1, d_relu);
  pointwise("relu_gradient", 2, d_relu_gradient);
  pointwise("sigmoid", 1, d_sigmoid);
  pointwise("sigmoid_gradient", 2, d_sigmoid_gradient);
  pointwise("leaky_relu", 2, d_leaky_relu);
  pointwise("leaky_relu_gradient", 3, d_leaky_relu_gradient);
  along_axis("softmax", 1, d_softmax, softmax_parts);
  along_axis("softmax_gradient", 2, d_softmax_gradient, softmax_gradient_parts);
  along_axis("log_softmax", 1, d_log_softmax, log_softmax_parts);
  along_axis("log_softmax_gradient", 2, d_log_softmax_gradient, log_softmax_gradient_parts);
});

}  // namespace mpsgraph::ops
