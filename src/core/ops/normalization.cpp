// Mean, variance, normalization, and its gradients: composite operations that the compiler expands.
//
// Each operation is defined by its decomposition, from which its derivative follows. The exception is a normalization
// by the source's own mean and variance, which is differentiated as a whole. Means and variances keep the reduced axes
// with size 1 so that they broadcast against the source.
#include <algorithm>
#include <optional>

#include "core/ops/shape.h"
#include "core/wide.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

using Inputs = std::vector<Tensor*>;

Shape reduced_shape(const InferContext& c, const Shape& shape) {
  if (!shape.ranked()) return shape;
  const Ints& axes = c.attributes.integers("axes");
  Dims dims = axes.empty() ? Dims(shape.dims().size(), 1) : shape.dims();
  for (int axis : distinct_axes(c, axes, shape.rank())) dims[axis] = 1;
  return Shape(dims);
}

// Checks that operand i can be broadcast to the shape of the source.
void require_fits(const InferContext& c, size_t i, const Shape& source, std::string_view role) {
  if (!source.ranked() || !c.shape(i).ranked()) return;
  auto merged = broadcast(source, c.shape(i));
  if (!merged || !compatible(*merged, source)) {
    c.shape_error(cat(role, " must broadcast to source ", source, ", got shape ", c.shape(i), "; it must have size 1 ",
                      "along each axis on which the ", role, " does not depend"));
  }
}

// ---- mean and variance ----

std::vector<TensorType> infer_mean(const InferContext& c) {
  c.require_inexact(0);
  return {{c.dtype(0), reduced_shape(c, c.shape(0))}};
}

std::vector<TensorType> infer_variance(const InferContext& c) {
  c.require_float(0);
  c.require_same_dtype();
  if (c.count() == 2) require_fits(c, 1, c.shape(0), "mean");
  return {{c.dtype(0), reduced_shape(c, c.shape(0))}};
}

Tensor* mean_of(Builder& b, Tensor* x, const Ints& axes) {
  Tensor* count = b.reduced_count(x, axes);
  return b.div(b.sum(x, axes), count);
}

Inputs mean_parts(Builder& b, const Inputs& in, const Attributes& a) { return {mean_of(b, in[0], a.integers("axes"))}; }

Inputs variance_parts(Builder& b, const Inputs& in, const Attributes& a) {
  const Ints& axes = a.integers("axes");
  Tensor* mean = in.size() == 2 ? in[1] : mean_of(b, in[0], axes);
  return {mean_of(b, b.unary("square", b.sub(in[0], mean)), axes)};
}

// ---- normalization: (x - mean) / sqrt(variance + epsilon) * gamma + beta ----

Tensor* inverse_deviation(Builder& b, Tensor* variance, const Attributes& a) {
  return b.unary("reciprocal_square_root", b.add(variance, a.real("epsilon")));
}

void require_operands(const InferContext& c, size_t expected) {
  if (c.count() != expected) {
    c.graph_error(cat("the attributes has_gamma and has_beta require ", expected, " operands, got ", c.count(),
                      ": set them to match the operands"));
  }
}

std::vector<TensorType> infer_normalization(const InferContext& c) {
  c.require_float(0);
  c.require_same_dtype();
  bool gamma = c.attributes.boolean("has_gamma"), beta = c.attributes.boolean("has_beta");
  require_operands(c, 3 + gamma + beta);
  require_fits(c, 1, c.shape(0), "mean");
  require_fits(c, 2, c.shape(0), "variance");
  if (gamma) require_fits(c, 3, c.shape(0), "gamma");
  if (beta) require_fits(c, 3 + gamma, c.shape(0), "beta");
  return {c.type(0)};
}

Inputs normalization_parts(Builder& b, const Inputs& in, const Attributes& a) {
  bool gamma = a.boolean("has_gamma"), beta = a.boolean("has_beta");
  Tensor* scale = inverse_deviation(b, in[2], a);
  if (gamma) scale = b.mul(scale, in[3]);
  Tensor* result = b.mul(b.sub(in[0], in[1]), scale);
  return {beta ? b.add(result, in[3 + gamma]) : result};
}

// The axes of `source` along which `x` is broadcast; nullopt if a shape is unknown.
std::optional<Ints> axes_of_broadcast(const Tensor* x, const Tensor* source) {
  const Shape &small = x->shape(), &full = source->shape();
  if (!small.known() || !full.ranked()) return std::nullopt;
  Ints axes;
  for (int axis = 0; axis < full.rank(); ++axis) {
    const int own = axis - (full.rank() - small.rank());
    if (own < 0 || (small[own] == 1 && full[axis] != 1)) axes.push_back(axis);
  }
  return axes;
}

// Whether x has only one value along these axes of the source.
bool is_constant_along(const Ints& axes, const Tensor* x, const Tensor* source) {
  const Shape& small = x->shape();
  if (!small.known() || !source->shape().ranked()) return false;
  const int lead = source->shape().rank() - small.rank();
  return std::all_of(axes.begin(), axes.end(), [&](int64_t axis) {
    const int own = static_cast<int>(axis) - lead;
    return own < 0 || small[own] == 1;
  });
}

// If a normalization uses the mean and variance of its own source, the axes over which these are computed; otherwise
// nullopt.
std::optional<Ints> own_axes(const GradientContext& c) {
  const Operation &mean = *c.input(1)->operation, &variance = *c.input(2)->operation;
  if (!mean.is("mean") || !variance.is("variance")) return std::nullopt;
  if (mean.input(0) != c.input(0) || variance.input(0) != c.input(0) || !c.input(0)->shape().ranked())
    return std::nullopt;
  if (variance.inputs.size() == 2 && variance.input(1) != c.input(1)) return std::nullopt;
  const auto axes_of = [&](const Operation& statistic) {
    const int rank = c.input(0)->shape().rank();
    Ints axes;
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
    const Ints& given = statistic.attributes.integers("axes");
    if (given.empty()) return axes;
    axes.clear();
    for (int64_t axis : given) axes.push_back(wrap_axis(axis, rank));
    std::sort(axes.begin(), axes.end());
    return axes;
  };
  const Ints axes = axes_of(mean);
  return axes == axes_of(variance) ? std::optional(axes) : std::nullopt;
}

// Builds the gradient of a normalization. If the tensors are half precision, all computation is in float32, and only
// the resulting gradients are rounded.
struct NormalizationGradient {
  GradientContext& c;
  Builder b{c.graph()};
  Tensor *g = wide(c.incoming()), *x = wide(c.input(0)), *mean = wide(c.input(1)), *variance = wide(c.input(2));
  const Attribute epsilon{c.attributes().real("epsilon")};
  const bool has_gamma = c.attributes().boolean("has_gamma"), has_beta = c.attributes().boolean("has_beta");
  Tensor* gamma = has_gamma ? wide(c.input(3)) : nullptr;

  Tensor* wide(Tensor* given) { return is_half(given->dtype()) ? b.cast(given, DType::float32) : given; }
  void set(size_t i, Tensor* gradient) { c.set(i, b.cast(gradient, c.input(i)->dtype())); }

  Tensor* gamma_sum(const Ints& axes) {
    return c.graph().add("normalization_gamma_gradient", {g, x, mean, variance},
                         {{"axes", axes}, {"epsilon", epsilon}});
  }
  Tensor* beta_sum(const Ints& axes) { return c.graph().add("normalization_beta_gradient", {g, x}, {{"axes", axes}}); }

  // The gradient of gamma or beta, summed over the axes along which the parameter is broadcast.
  Tensor* parameter(Tensor* p, bool is_gamma) {
    const auto axes = axes_of_broadcast(p, x);
    if (axes && !axes->empty()) return b.reshape_like(is_gamma ? gamma_sum(*axes) : beta_sum(*axes), p);
    if (!is_gamma) return b.sum_to_like(g, p);
    Tensor* deviation = inverse_deviation(b, variance, c.attributes());
    Tensor* n = b.mul(b.sub(x, mean), deviation);
    return b.sum_to_like(b.mul(g, n), p);
  }

  void parameters() {
    if (has_gamma && c.needs(3)) set(3, parameter(gamma, true));
    if (has_beta && c.needs(3 + has_gamma)) set(3 + has_gamma, parameter(c.input(3 + has_gamma), false));
  }

  // Builds the gradients of a normalization whose mean and variance are computed from its source. The source's gradient
  // includes the contributions through the mean and the variance. If gamma is constant along the axes, the source's
  // gradient also needs the sums that form the gradients of gamma and beta, so these sums are computed once.
  void by_own_statistics(const Ints& axes) {
    // If the mean and variance come from a loop, which has saved them for its derivative in half precision, recompute
    // them in float32.
    if (is_half(c.input(0)->dtype()) && c.graph().resolve(c.input(1)) != c.input(1)) {
      mean = b.mean(x, axes);
      variance = c.graph().add("variance", {x, mean}, {{"axes", axes}});
    }
    std::vector<Tensor*> operands{g, x, mean, variance};
    if (has_gamma) operands.push_back(gamma);
    if (!has_gamma || is_constant_along(axes, gamma, x)) {
      Tensor *for_gamma = gamma_sum(axes), *for_beta = beta_sum(axes);
      operands.insert(operands.end(), {for_gamma, for_beta});
      const auto fit = [&](Tensor* sum, Tensor* p) {
        return axes_of_broadcast(p, x) == axes ? b.reshape_like(sum, p) : b.sum_to_like(sum, p);
      };
      if (has_gamma && c.needs(3)) set(3, fit(for_gamma, gamma));
      const size_t beta = 3 + has_gamma;
      if (has_beta && c.needs(beta)) {
        const bool from_sum = is_constant_along(axes, c.input(beta), x);
        set(beta, from_sum ? fit(for_beta, c.input(beta)) : parameter(c.input(beta), false));
      }
    } else {
      parameters();
    }
    const Attributes attributes{{"axes", axes}, {"epsilon", epsilon}, {"has_gamma", has_gamma}};
    set(0, c.graph().add("normalization_gradient", operands, attributes));
  }

  void by_given_statistics() {
    parameters();
    if (!c.needs(0) && !c.needs(1) && !c.needs(2)) return;
    Tensor* deviation = inverse_deviation(b, variance, c.attributes());
    Tensor* slope = b.mul(g, gamma ? b.mul(deviation, gamma) : deviation);
    if (c.needs(0)) set(0, slope);
    if (c.needs(1)) set(1, b.sum_to_like(b.neg(slope), mean));
    if (c.needs(2)) {
      Tensor* along = b.sum_to_like(b.mul(slope, b.sub(x, mean)), variance);
      set(2, b.mul(b.mul(along, b.unary("square", deviation)), -0.5));
    }
  }
};

void d_normalization(GradientContext& c) {
  NormalizationGradient gradient{c};
  const auto axes = own_axes(c);
  if (axes && c.needs(0))
    gradient.by_own_statistics(*axes);
  else
    gradient.by_given_statistics();
}

// ---- gradients; mean and variance are computed from the source over `axes` ----

std::vector<TensorType> infer_normalization_gradient(const InferContext& c) {
  c.require_float(0);
  c.require_same_dtype();
  bool gamma = c.attributes.boolean("has_gamma");
  bool sums = c.count() > 4u + gamma;
  require_operands(c, 4 + gamma + 2 * sums);
  if (!compatible(c.shape(0), c.shape(1))) {
    c.shape_error(cat("incoming gradient and source must have the same shape, got ", c.shape(0), " and ", c.shape(1)));
  }
  Shape source = merge(c.shape(0), c.shape(1));
  static constexpr std::string_view roles[] = {"mean", "variance", "gamma"};
  for (int i = 0; i < 2 + gamma; ++i) require_fits(c, 2 + i, source, roles[i]);
  if (sums) {
    require_fits(c, 4 + gamma, source, "gamma_gradient");
    require_fits(c, 5 + gamma, source, "beta_gradient");
  }
  reduced_shape(c, source);
  return {{c.dtype(0), source}};
}

// Gradient of a normalization with respect to its source. With n = (x - mean) r, r = 1 / sqrt(variance + epsilon), the
// incoming gradient g, and h = g gamma:
//
//   dx = r (h - mean(h) - n mean(h n)).
//
// Where gamma is constant along the axes, mean(h) = gamma beta_gradient / count and mean(h n) = gamma gamma_gradient /
// count. Passing beta_gradient and gamma_gradient as operands therefore saves two passes over the source.
Inputs normalization_gradient_parts(Builder& b, const Inputs& in, const Attributes& a) {
  const Ints& axes = a.integers("axes");
  bool gamma = a.boolean("has_gamma"), sums = in.size() > 4u + gamma;
  Tensor *g = in[0], *x = in[1], *deviation = inverse_deviation(b, in[3], a);
  Tensor* n = b.mul(b.sub(x, in[2]), deviation);
  if (!sums) {
    Tensor* h = gamma ? b.mul(g, in[4]) : g;
    Tensor* along = b.mul(n, mean_of(b, b.mul(h, n), axes));
    return {b.mul(deviation, b.sub(b.sub(h, mean_of(b, h, axes)), along))};
  }
  Tensor *gamma_gradient = in[4 + gamma], *beta_gradient = in[5 + gamma], *count = b.reduced_count(x, axes);
  Tensor* along = b.mul(n, b.div(gamma_gradient, count));
  Tensor* centred = b.sub(b.sub(g, b.div(beta_gradient, count)), along);
  return {b.mul(gamma ? b.mul(deviation, in[4]) : deviation, centred)};
}

std::vector<TensorType> infer_parameter_gradient(const InferContext& c) {
  c.require_float(0);
  c.require_same_dtype();
  if (!compatible(c.shape(0), c.shape(1))) {
    c.shape_error(cat("incoming gradient and source must have the same shape, got ", c.shape(0), " and ", c.shape(1)));
  }
  Shape source = merge(c.shape(0), c.shape(1));
  if (c.count() == 4) {
    require_fits(c, 2, source, "mean");
    require_fits(c, 3, source, "variance");
  }
  return {{c.dtype(0), reduced_shape(c, source)}};
}

Inputs gamma_gradient_parts(Builder& b, const Inputs& in, const Attributes& a) {
  Tensor* deviation = inverse_deviation(b, in[3], a);
  Tensor* n = b.mul(b.sub(in[1], in[2]), deviation);
  return {b.sum(b.mul(in[0], n), a.integers("axes"))};
}

Inputs beta_gradient_parts(Builder& b, const Inputs& in, const Attributes& a) {
  return {b.sum(in[0], a.integers("axes"))};
}

void composite(Kind name, int min_inputs, int max_inputs, std::vector<AttributeSpec> attributes, Infer infer,
               Decompose decompose, Gradient gradient = {}) {
  OperationDefinition d;
  d.name = name;
  d.min_inputs = min_inputs;
  d.max_inputs = max_inputs;
  d.attributes = std::move(attributes);
  d.infer = std::move(infer);
  d.decompose = std::move(decompose);
  d.gradient = std::move(gradient);
  define(std::move(d));
}

}  // namespace

const Family normalization_family("normalization", [] {
  AttributeSpec axes = optional("axes", Ints{}), epsilon = optional("epsilon", 1e-5);
  AttributeSpec gamma = optional("has_gamma", false), beta = optional("has_beta", false);
  composite("mean", 1, 1, {axes}, infer_mean, mean_parts);
  composite("variance", 1, 2, {axes}, infer_variance, variance_parts);
  composite("normalization", 3, 5, {epsilon, gamma, beta}, infer_normalization, normalization_parts, d_normalization);
  composite("normalization_gradient", 4, 7, {axes, epsilon, gamma}, infer_normalization_gradient,
            normalization_gradient_parts);
  composite("normalization_gamma_gradient", 4, 4, {axes, epsilon}, infer_parameter_gradient, gamma_gradient_parts);
  composite("normalization_beta_gradient", 2, 2, {axes}, infer_parameter_gradient, beta_gradient_parts);

  describe("mean", "x, axes: axes", DTypeClass::analytic, R"(
Compute the mean over axes.

result = sum of x over `axes` / number of elements summed. The reduced axes stay, with size 1.

Gradient: incoming gradient / number of elements summed, broadcast to the shape of x.
Source: MPSGraph meanOfTensor:axes:name:.
>>> g.run({}, g.mean(g.constant([[1.0, 3.0], [5.0, 7.0]]), axes=1)).tolist()
[[2.0], [6.0]])");
  describe("variance", "x, mean: optional, axes: axes", DTypeClass::analytic, R"(
Compute the population variance over axes (dividing by n, not n - 1).

result = mean of (x - mean)^2 over `axes`. The reduced axes stay, with size 1.

Args:
    x: Floating-point tensor.
    mean: Mean of x over the same axes. None, the default, computes it.
Raises:
    ShapeError: If an axis is out of range or repeated, axes is empty, or mean does not broadcast to x.
    DTypeError: If x is not floating-point, or mean has a different dtype.
Gradient: incoming gradient * 2 (x - mean) / n to x; if mean is given, to mean as well.
Source: MPSGraph varianceOfTensor:meanTensor:axes:name: and varianceOfTensor:axes:name:.
>>> g.run({}, g.variance(g.constant([[1.0, 3.0], [5.0, 9.0]]), axes=1)).tolist()
[[1.0], [4.0]])");
  describe("normalization_gamma_gradient", "incoming, source, mean, variance, axes: axes, epsilon", DTypeClass::floats,
           R"(
Compute the gradient of a normalization with respect to gamma.

result = sum over `axes` of incoming * (source - mean) / sqrt(variance + epsilon). The reduced axes stay, with
size 1.

Args:
    incoming: Gradient with respect to the result of normalization, with the shape of that result.
    source: The input of normalization.
    mean: The mean given to normalization.
    variance: The variance given to normalization.
    axes: Axes over which gamma is shared: an int, a sequence of ints, or None (the default) for all.
    epsilon: The epsilon given to normalization. Defaults to 1e-5.
Raises:
    ShapeError: If the shapes do not match, or an axis is out of range.
    DTypeError: If the dtypes differ or are not floating-point.
Gradient: derived from the operation's decomposition.
Source: MPSGraph normalizationGammaGradientWithIncomingGradientTensor:sourceTensor:meanTensor:varianceTensor:
reductionAxes:epsilon:name:.
>>> x = g.constant([1.0, 5.0])
>>> d = g.normalization_gamma_gradient(g.constant([0.0, 3.0]), x, g.mean(x), g.variance(x), 0, epsilon=0.0)
>>> g.run({}, d).tolist()
[3.0])");
  describe("normalization_beta_gradient", "incoming, source, axes: axes", DTypeClass::floats, R"(
Compute the gradient of a normalization with respect to beta.

result = sum of incoming over `axes`, which stay with size 1.

Args:
    incoming: Gradient with respect to the result of normalization, with the shape of that result.
    source: The input of normalization, with the shape and dtype of incoming.
    axes: Axes over which beta is shared: an int, a sequence of ints, or None (the default) for all.
Raises:
    ShapeError: If the shapes do not match, or an axis is out of range.
    DTypeError: If the dtypes differ or are not floating-point.
Gradient: derived from the operation's decomposition.
Source: MPSGraph normalizationBetaGradientWithIncomingGradientTensor:sourceTensor:reductionAxes:name:.
>>> x = g.constant([1.0, 5.0])
>>> g.run({}, g.normalization_beta_gradient(g.constant([2.0, 3.0]), x, 0)).tolist()
[5.0])");
});

}  // namespace mpsgraph::ops
