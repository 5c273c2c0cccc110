// Optimizer steps, which compute new values from old values and a gradient. All are composites of element-wise
// operations.
//
// These operations do not assign variables; pass their result to assign, as in
// assign(variable, stochastic_gradient_descent(...)). Learning rates and coefficients are tensors, usually scalars.
#include "core/definition.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

using Inputs = std::vector<Tensor*>;

// Requires operand i to broadcast to the operand `values`.
void require_fits_values(const InferContext& c, size_t i, const Shape& values, std::string_view role) {
  if (!values.ranked() || !c.shape(i).ranked()) return;
  auto merged = broadcast(values, c.shape(i));
  if (!merged || !compatible(*merged, values)) {
    c.shape_error(cat(role, " must broadcast to values ", values, ", got shape ", c.shape(i)));
  }
}

std::vector<TensorType> infer_stochastic_gradient_descent(const InferContext& c) {
  c.require_inexact(0);
  c.require_same_dtype();
  require_fits_values(c, 0, c.shape(1), "learning_rate");
  require_fits_values(c, 2, c.shape(1), "gradient");
  return {c.type(1)};
}

Inputs stochastic_gradient_descent_parts(Builder& b, const Inputs& in, const Attributes&) {
  return {b.sub(in[1], b.mul(in[2], in[0]))};
}

// Positions of adam's operands: learning_rate, beta1, beta2, epsilon, [beta1_power, beta2_power,] values, momentum,
// velocity, [maximum_velocity,] gradient.
struct Adam {
  size_t first;  // index of the operand `values`
  bool amsgrad;
  size_t count() const { return first + 4 + amsgrad; }
  size_t gradient() const { return count() - 1; }
};
Adam adam_of(bool powers, const Attributes& a) { return {powers ? 6u : 4u, a.boolean("amsgrad")}; }

Infer infer_adam(bool powers) {
  return [=](const InferContext& c) -> std::vector<TensorType> {
    Adam adam = adam_of(powers, c.attributes);
    if (c.count() != adam.count()) {
      c.graph_error(cat("takes ", adam.count(), " operands ", adam.amsgrad ? "with" : "without",
                        " maximum_velocity, got ", c.count(), ": set amsgrad to match the operands"));
    }
    c.require_float(0);
    c.require_same_dtype();
    static constexpr std::string_view scalars[] = {"learning_rate", "beta1",       "beta2",
                                                   "epsilon",       "beta1_power", "beta2_power"};
    static constexpr std::string_view states[] = {"momentum", "velocity", "maximum_velocity"};
    const Shape& values = c.shape(adam.first);
    for (size_t i = 0; i < adam.first; ++i) require_fits_values(c, i, values, scalars[i]);
    std::vector<TensorType> result = {c.type(adam.first)};
    for (size_t i = adam.first + 1; i < adam.gradient(); ++i) {
      if (!compatible(c.shape(i), values)) {
        c.shape_error(cat(states[i - adam.first - 1], " must have the shape ", values, " of values, got ", c.shape(i)));
      }
      result.push_back({c.dtype(i), merge(c.shape(i), values)});
    }
    require_fits_values(c, adam.gradient(), values, "gradient");
    return result;
  };
}

// Decomposition of adam, with momentum m, velocity v, and gradient g:
//
//   m = β1 m + (1 - β1) g;  v = β2 v + (1 - β2) g²;  values -= rate m / (sqrt(v) + ε)
//
// If the powers β1^t and β2^t are operands, rate = learning_rate sqrt(1 - β2^t) / (1 - β1^t); otherwise rate =
// learning_rate. With amsgrad, the maximum of v so far takes the place of v in the square root.
Decompose adam_parts(bool powers) {
  return [=](Builder& b, const Inputs& in, const Attributes& a) -> Inputs {
    Adam adam = adam_of(powers, a);
    Tensor *rate = in[0], *beta1 = in[1], *beta2 = in[2], *epsilon = in[3];
    Tensor *values = in[adam.first], *momentum = in[adam.first + 1], *velocity = in[adam.first + 2],
           *g = in[adam.gradient()];
    if (powers) {
      Tensor* of_momentum = b.sub(1.0, in[4]);
      Tensor* correction = b.div(b.unary("square_root", b.sub(1.0, in[5])), of_momentum);
      rate = b.mul(rate, correction);
    }
    Tensor* added = b.mul(g, b.sub(1.0, beta1));
    momentum = b.add(b.mul(momentum, beta1), added);
    Tensor* rest = b.sub(1.0, beta2);
    added = b.mul(b.unary("square", g), rest);
    velocity = b.add(b.mul(velocity, beta2), added);
    Inputs result = {nullptr, momentum, velocity};
    Tensor* scale = velocity;
    if (adam.amsgrad) {
      scale = b.binary("maximum_with_nan_propagation", in[adam.first + 3], velocity);
      result.push_back(scale);
    }
    Tensor* root = b.add(b.unary("square_root", scale), epsilon);
    Tensor* step = b.div(b.mul(momentum, rate), root);
    result[0] = b.sub(values, step);
    return result;
  };
}

void optimizer(Kind name, int min_inputs, int max_inputs, std::vector<AttributeSpec> attributes, Infer infer,
               Decompose decompose) {
  OperationDefinition d;
  d.name = name;
  d.min_inputs = min_inputs;
  d.max_inputs = max_inputs;
  d.attributes = std::move(attributes);
  d.infer = std::move(infer);
  d.decompose = std::move(decompose);
  define(std::move(d));
}

}  // namespace

const Family optimizer_family("optimizer", [] {
  AttributeSpec amsgrad = optional("amsgrad", false);
  optimizer("stochastic_gradient_descent", 3, 3, {}, infer_stochastic_gradient_descent,
            stochastic_gradient_descent_parts);
  optimizer("adam", 10, 11, {amsgrad}, infer_adam(true), adam_parts(true));
  optimizer("adam_with_current_learning_rate", 8, 9, {amsgrad}, infer_adam(false), adam_parts(false));

  describe("stochastic_gradient_descent", "learning_rate: number, values, gradient", DTypeClass::floats, R"(
Compute one step of stochastic gradient descent.

result = values - learning_rate * gradient.

Args:
    learning_rate: A number or a tensor of rank 0.
    values: Current values, floating-point or complex; a variable is read.
    gradient: Gradient with respect to values, with the same shape and dtype as values.
Returns: The new values, to assign to the variable.
Raises:
    ShapeError: If the shapes do not match.
    DTypeError: If the dtypes differ or are not floating-point or complex.
Gradient: derived from the operation's decomposition.
Source: MPSGraph
stochasticGradientDescentWithLearningRateTensor:valuesTensor:gradientTensor:name:.
>>> g.run({}, g.stochastic_gradient_descent(0.5, g.constant([1.0]), g.constant([4.0]))).tolist()
[-1.0])");
});

}  // namespace mpsgraph::ops
