// Operation family cumulative: running sums, products, and extrema along an axis, and the operations that their
// derivatives need.
//
//   inclusive  y_i = x_0 ∘ ... ∘ x_i          exclusive  y_i = x_0 ∘ ... ∘ x_(i-1), starting with the neutral element
//   reverse    the same, but starting from the last element
//
// Once an extremum is NaN it stays NaN. If several of the elements up to position i attain the extremum, the last of
// them gets the gradient. Products are differentiated without division, so zeros need no special case. Derivatives
// conjugate complex factors.
#include "core/ops/indices.h"
#include "core/ops/primitive.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

void require_cumulable(const InferContext& c) {
  if (c.dtype(0) == DType::boolean)
    c.dtype_error("source must be numeric, got bool: cast it to int32 or float32 first");
  const bool ordered = c.definition.name != "cumulative_sum" && c.definition.name != "cumulative_product";
  if (is_complex(c.dtype(0)) && ordered)
    c.dtype_error(cat("source must be real because complex numbers have no order, got ", c.dtype(0),
                      ": take its absolute first"));
}

std::vector<TensorType> infer_numbers(const InferContext& c) {
  require_cumulable(c);
  if (c.shape(0).ranked()) c.axis(c.attributes.integer("axis"), c.shape(0).rank());
  return {c.type(0)};
}

std::vector<TensorType> infer_numbers_unvalued(const InferContext& c) {
  require_cumulable(c);
  return {c.type(0)};
}

// Attributes for a scan along the axis of the differentiated operation, in the opposite direction if `turned` is set.
Attributes direction(const GradientContext& g, bool turned, std::optional<bool> exclusive = {}) {
  Attributes attributes{{"axis", g.attributes().integer("axis")},
                        {"reverse", g.attributes().boolean("reverse") != turned}};
  if (exclusive) attributes.set("exclusive", *exclusive);
  return attributes;
}

void d_cumulative_sum(GradientContext& g) {
  g.set(0, g.add_alike("cumulative_sum", {g.incoming()}, direction(g, true, g.attributes().boolean("exclusive"))));
}

// Derivative of the cumulative product along the axis, without reverse. Let E_j be the product of the elements before
// j, and g the incoming gradient. For an exclusive product,
//
//   dx_j = E_j · Σ_(i>j) g_i Π_(j<k<i) x_k,
//
// where the sum is cumulative_recurrence run in the opposite direction. For an inclusive product, the sum is
//
//   Σ_(i>=j) g_i Π_(j<k<=i) x_k = g_j + the recurrence of x · g.
void d_cumulative_product(GradientContext& g) {
  Builder b(g.graph());
  Tensor *x = b.conjugate(g.input(0)), *incoming = g.incoming();
  Tensor* before = g.add_alike("cumulative_product", {x}, direction(g, false, true));
  const bool exclusive = g.attributes().boolean("exclusive");
  Tensor* behind =
      g.add_alike("cumulative_recurrence", {x, exclusive ? incoming : b.mul(x, incoming)}, direction(g, true));
  g.set(0, b.mul(before, exclusive ? behind : b.add(incoming, behind)));
}

void d_cumulative_extremum(GradientContext& g) {
  const bool maximum = g.operation.is("cumulative_maximum");
  Attributes attributes = direction(g, false, g.attributes().boolean("exclusive"));
  attributes.set("maximum", maximum);
  Tensor* chosen = g.add_alike("cumulative_arg_extremum", {g.input(0)}, attributes);
  Tensor* zeros = Builder(g.graph()).zeros_like(g.input(0));
  g.set(0, g.add_alike("scatter_along_axis", {zeros, g.incoming(), chosen},
                       {{"axis", g.attributes().integer("axis")}, {"mode", std::string("add")}}));
}

// Infers the result type of cumulative_arg_extremum, which returns for each element the int32 index along the axis at
// which the running extremum lies. In exclusive mode, the index is -1 at the element where the scan starts, because no
// element precedes it.
std::vector<TensorType> infer_arg_extremum(const InferContext& c) {
  infer_numbers(c);
  if (c.shape(0).ranked()) require_countable(c, c.shape(0), c.axis(c.attributes.integer("axis"), c.shape(0).rank()));
  return {{DType::int32, c.shape(0)}};
}

std::vector<TensorType> infer_arg_extremum_unvalued(const InferContext& c) { return {{DType::int32, c.shape(0)}}; }

// Inference of recurrence(a, b): y_0 = 0, y_(i+1) = b_i + a_i y_i. Its derivatives use the same operation in the
// opposite direction: db = the reversed recurrence(a, incoming), and da = db · y, because a_i is multiplied by y_i.
std::vector<TensorType> infer_recurrence(const InferContext& c) {
  c.require_inexact(0);
  c.require_same_dtype(0, 2);
  if (!compatible(c.shape(0), c.shape(1)))
    c.shape_error(cat("operands must have the same shape, got ", c.shape(0), " and ", c.shape(1)));
  return {{c.dtype(0), merge(c.shape(0), c.shape(1))}};
}

void d_recurrence(GradientContext& g) {
  Builder b(g.graph());
  Tensor* db = g.add_alike("cumulative_recurrence", {b.conjugate(g.input(0)), g.incoming()}, direction(g, true));
  g.set(1, db);
  if (g.needs(0)) g.set(0, b.mul(db, b.conjugate(g.output())));
}

constexpr std::string_view running_arguments = R"(
Args:
    axis: Axis to accumulate along: an int, where negative values count from the end, or an integer tensor of one
        element.
    exclusive: Whether to exclude the element itself from its result.
    reverse: Whether to accumulate from the last element to the first.)";

}  // namespace

const Family cumulative_family("cumulative", [] {
  const AttributeSpec axis = optional("axis", int64_t{0}), exclusive = optional("exclusive", false),
                      reverse = optional("reverse", false);
  const auto cumulative = [](OperationDefinition d, Infer unvalued) {
    d.tensor_attributes = {"axis"};
    d.infer_unvalued = std::move(unvalued);
    define(std::move(d));
  };
  const auto running = [&](Kind name, std::string_view documentation, Gradient gradient) {
    OperationDefinition d = primitive(name, 1, {axis, exclusive, reverse}, infer_numbers, std::move(gradient));
    d.parameters = "x, axis: required, exclusive, reverse";
    d.dtypes = DTypeClass::numbers;
    d.documentation = cat(documentation, running_arguments);
    cumulative(std::move(d), infer_numbers_unvalued);
  };
  running("cumulative_sum", R"(
Compute the cumulative sum along an axis.

result_i = x_0 + ... + x_i; with `exclusive`, x_0 + ... + x_(i-1), starting with 0.

Gradient: the cumulative sum of the incoming gradient in the opposite direction.
Source: MPSGraph cumulativeSumWithTensor:axis:exclusive:reverse:name:, …axisTensor:…, and both without flags.
>>> g.run({}, g.cumulative_sum(g.constant([1.0, 2.0, 3.0]), 0)).tolist()
[1.0, 3.0, 6.0]
>>> g.run({}, g.cumulative_sum(g.constant([1.0, 2.0, 3.0]), 0, exclusive=True, reverse=True)).tolist()
[5.0, 3.0, 0.0])",
          d_cumulative_sum);
  running("cumulative_product", R"(
Compute the cumulative product along an axis.

result_i = x_0 * ... * x_i; with `exclusive`, x_0 * ... * x_(i-1), starting with 1.

Gradient: computed without division, so that it is correct where elements are zero, for derivatives of every
order.
Source: MPSGraph cumulativeProductWithTensor:axis:exclusive:reverse:name:, …axisTensor:…, and both without
flags.
>>> g.run({}, g.cumulative_product(g.constant([2.0, 3.0, 4.0]), 0)).tolist()
[2.0, 6.0, 24.0])",
          d_cumulative_product);
  running("cumulative_minimum", R"(
Compute the cumulative minimum along an axis; from the first NaN on, results are NaN.

result_i = min(x_0, ..., x_i); with `exclusive`, min(x_0, ..., x_(i-1)), starting with infinity or the largest
integer of the dtype.

Gradient: the incoming gradient to the element that is the minimum, or to the last of several equal elements.
Source: MPSGraph cumulativeMinimumWithTensor:axis:exclusive:reverse:name:, …axisTensor:…, and both without
flags.
>>> g.run({}, g.cumulative_minimum(g.constant([2.0, 3.0, 1.0]), 0)).tolist()
[2.0, 2.0, 1.0])",
          d_cumulative_extremum);
  running("cumulative_maximum", R"(
Compute the cumulative maximum along an axis; from the first NaN on, results are NaN.

result_i = max(x_0, ..., x_i); with `exclusive`, max(x_0, ..., x_(i-1)), starting with -infinity or the lowest
integer of the dtype.

Gradient: the incoming gradient to the element that is the maximum, or to the last of several equal elements.
Source: MPSGraph cumulativeMaximumWithTensor:axis:exclusive:reverse:name:, …axisTensor:…, and both without
flags.
>>> g.run({}, g.cumulative_maximum(g.constant([2.0, 3.0, 1.0]), 0)).tolist()
[2.0, 3.0, 3.0])",
          d_cumulative_extremum);

  OperationDefinition arg =
      primitive("cumulative_arg_extremum", 1, {axis, exclusive, reverse, required("maximum", AttributeKind::boolean)},
                infer_arg_extremum, nullptr);
  arg.gradient_is_zero = arg.internal = true;
  cumulative(std::move(arg), infer_arg_extremum_unvalued);

  OperationDefinition recurrence =
      primitive("cumulative_recurrence", 2, {axis, reverse}, infer_recurrence, d_recurrence);
  recurrence.internal = true;
  cumulative(std::move(recurrence), infer_recurrence);
});

}  // namespace mpsgraph::ops
