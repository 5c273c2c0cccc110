// Reductions: sum, product, extrema, logical and arg reductions along axes.
//
// Reduced axes are kept with size 1. An empty list of axes means all axes. Tied extrema share their gradient equally.
// Where the extremum is NaN, the gradient of all elements that were reduced to it is NaN.
#include "core/ops/extrema.h"
#include "core/ops/indices.h"
#include "core/ops/primitive.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

std::vector<TensorType> infer_axes(const InferContext& c, DTypeClass operands) {
  if ((c.dtype(0) == DType::boolean) != (operands == DTypeClass::booleans)) {
    c.dtype_error(operands == DTypeClass::booleans
                      ? cat("source must be bool, got ", c.dtype(0), ": compare or cast it first")
                      : std::string("source must be numeric, got bool: cast it to int32 or float32 first"));
  }
  if (is_complex(c.dtype(0)) && operands == DTypeClass::numbers)
    c.dtype_error(cat("source must be real because complex numbers have no order, got ", c.dtype(0),
                      ": take its absolute first"));
  if (!c.shape(0).ranked()) return {{c.dtype(0), Shape()}};
  Dims dims = c.shape(0).dims();
  const Ints& axes = c.attributes.integers("axes");
  if (axes.empty()) dims.assign(dims.size(), 1);
  for (int axis : distinct_axes(c, axes, c.shape(0).rank())) dims[axis] = 1;
  return {{c.dtype(0), Shape(dims)}};
}

// Inference of extrema. An extremum over no elements is an error, whereas empty sums and products are 0 and 1.
std::vector<TensorType> infer_extremum(const InferContext& c) {
  std::vector<TensorType> result = infer_axes(c, DTypeClass::numbers);
  if (c.shape(0).ranked()) {
    for (int i = 0; i < c.shape(0).rank(); ++i) {
      if (c.shape(0)[i] == 0 && result[0].shape[i] == 1) {
        c.shape_error(cat("a reduced axis must not be empty, got axis ", i, " of source ", c.shape(0)));
      }
    }
  }
  return result;
}

std::vector<TensorType> infer_arg(const InferContext& c) {
  if (c.dtype(0) == DType::boolean) c.dtype_error("source must be numeric, got bool: cast it to int32 first");
  if (is_complex(c.dtype(0)))
    c.dtype_error(cat("source must be real because complex numbers have no order, got ", c.dtype(0),
                      ": take its absolute first"));
  if (!c.shape(0).ranked()) return {{DType::int32, Shape()}};
  Dims dims = c.shape(0).dims();
  int axis = c.axis(c.attributes.integer("axis"), c.shape(0).rank());
  if (dims[axis] == 0)
    c.shape_error(cat("the reduced axis must not be empty, got axis ", axis, " of source ", c.shape(0)));
  require_countable(c, c.shape(0), axis);
  dims[axis] = 1;
  return {{DType::int32, Shape(dims)}};
}

void d_reduction_sum(GradientContext& c) {
  Builder b(c.graph());
  c.set(0, b.broadcast_like(c.incoming(), c.input(0)));
}

void d_reduction_extremum(GradientContext& c) {
  Builder b(c.graph());
  Tensor* x = c.input(0);
  Tensor* chosen = b.binary("equal", x, c.output());
  Tensor* count = b.sum(b.cast(chosen, x->dtype()), c.attributes().integers("axes"));
  Tensor* others = zero_or_nan(b, c.output());
  c.set(0, b.select(chosen, b.div(c.incoming(), count), others));
}

// Derivative of a product reduction. The gradient of an element needs the product of all other elements, which is the
// product of the elements before it times the product of the elements after it, computed axis by axis. Because no
// division is involved, zeros need no special case in derivatives of any order.
void d_reduction_product(GradientContext& c) {
  Builder b(c.graph());
  Tensor *x = b.conjugate(c.input(0)), *gradient = c.incoming();
  Ints axes = c.attributes().integers("axes");
  if (axes.empty()) {  // An empty list of axes means all axes.
    x = b.reshape(x, Ints{-1});
    gradient = b.reshape(gradient, Ints{-1});
    axes = {0};
  }
  std::vector<Tensor*> partial{x};  // the source, reduced along a growing number of axes
  for (int64_t axis : axes)
    partial.push_back(c.graph().add("reduction_product", {partial.back()}, {{"axes", Ints{axis}}}));
  for (size_t i = axes.size(); i-- > 0;) {
    const auto without = [&](bool reverse) {
      return c.graph().add("cumulative_product", {partial[i]},
                           {{"axis", axes[i]}, {"exclusive", true}, {"reverse", reverse}});
    };
    Tensor* after = without(true);
    gradient = b.mul(gradient, b.mul(without(false), after));
  }
  c.set(0, b.reshape_like(gradient, c.input(0)));
}

void reduction(Kind name, DTypeClass dtypes, std::string documentation, Infer infer, Gradient gradient,
               AttributeSpec attribute) {
  OperationDefinition d = primitive(name, 1, {attribute}, std::move(infer), std::move(gradient));
  d.parameters = attribute.name == "axes" ? "x, axes: axes" : "x, axis";
  d.dtypes = dtypes;
  d.documentation = std::move(documentation);
  d.gradient_is_zero = !d.gradient;
  define(std::move(d));
}

constexpr std::string_view arg_sections = R"(
Args:
    axis: Axis to search; negative values count from the end.
Returns: An int32 tensor with the shape of x, except for size 1 along `axis`.)";

}  // namespace

const Family reduction_family("reduction", [] {
  using enum DTypeClass;
  const AttributeSpec axes = optional("axes", Ints{}), axis = optional("axis", int64_t{-1});
  const Infer of_algebraic = [](const InferContext& c) { return infer_axes(c, algebraic); };
  const Infer of_booleans = [](const InferContext& c) { return infer_axes(c, booleans); };
  reduction("reduction_sum", algebraic, R"(
Sum elements along axes.

result = sum of x over `axes`. The reduced axes stay, with size 1.

Gradient: the incoming gradient, broadcast to the shape of x.
Source: MPSGraph reductionSumWithTensor:axes:name: (or axis:).
>>> g.run({}, g.reduction_sum(g.constant([[1.0, 2.0], [3.0, 4.0]]), axes=1)).tolist()
[[3.0], [7.0]])",
            of_algebraic, d_reduction_sum, axes);
  reduction("reduction_product", algebraic, R"(
Multiply elements along axes.

result = product of x over `axes`. The reduced axes stay, with size 1.

Gradient: incoming gradient * the product of the other elements, which is also correct where elements are 0.
Source: MPSGraph reductionProductWithTensor:axes:name: (or axis:).
>>> g.run({}, g.reduction_product(g.constant([[1.0, 2.0], [3.0, 4.0]]), axes=1)).tolist()
[[2.0], [12.0]])",
            of_algebraic, d_reduction_product, axes);
  reduction("reduction_maximum", numbers, R"(
Return the largest element along axes, ignoring NaN.

result = maximum of x over `axes`. The reduced axes stay, with size 1.

Gradient: the incoming gradient to the maximum, split equally between ties. A NaN that was ignored gets zero;
where all elements are NaN, the gradient is NaN.
Source: MPSGraph reductionMaximumWithTensor:axes:name: (or axis:).
>>> g.run({}, g.reduction_maximum(g.constant([[1.0, 2.0], [3.0, 4.0]]), axes=1)).tolist()
[[2.0], [4.0]])",
            infer_extremum, d_reduction_extremum, axes);
  reduction("reduction_minimum", numbers, R"(
Return the smallest element along axes, ignoring NaN.

result = minimum of x over `axes`. The reduced axes stay, with size 1.

Gradient: the incoming gradient to the minimum, split equally between ties. A NaN that was ignored gets zero;
where all elements are NaN, the gradient is NaN.
Source: MPSGraph reductionMinimumWithTensor:axes:name: (or axis:).
>>> g.run({}, g.reduction_minimum(g.constant([[1.0, 2.0], [3.0, 4.0]]), axes=1)).tolist()
[[1.0], [3.0]])",
            infer_extremum, d_reduction_extremum, axes);
  reduction("reduction_maximum_propagate_nan", numbers, R"(
Return the largest element along axes, or NaN if any element is NaN.

result = maximum of x over `axes`. The reduced axes stay, with size 1.

Gradient: the incoming gradient to the maximum, split equally between ties; NaN for all elements where the
result is NaN.
Source: MPSGraph reductionMaximumPropagateNaNWithTensor:axes:name: (or axis:).
>>> g.run({}, g.reduction_maximum_propagate_nan(g.constant([[1.0, 2.0], [3.0, 4.0]]), axes=1)).tolist()
[[2.0], [4.0]])",
            infer_extremum, d_reduction_extremum, axes);
  reduction("reduction_minimum_propagate_nan", numbers, R"(
Return the smallest element along axes, or NaN if any element is NaN.

result = minimum of x over `axes`. The reduced axes stay, with size 1.

Gradient: the incoming gradient to the minimum, split equally between ties; NaN for all elements where the
result is NaN.
Source: MPSGraph reductionMinimumPropagateNaNWithTensor:axes:name: (or axis:).
>>> g.run({}, g.reduction_minimum_propagate_nan(g.constant([[1.0, 2.0], [3.0, 4.0]]), axes=1)).tolist()
[[1.0], [3.0]])",
            infer_extremum, d_reduction_extremum, axes);
  reduction("reduction_and", booleans, R"(
Return whether all elements along axes are true.

result = the logical AND of x over `axes`. The reduced axes stay, with size 1.

Source: MPSGraph reductionAndWithTensor:axes:name: (or axis:).
>>> g.run({}, g.reduction_and(g.constant([[True, False], [True, True]]), axes=1)).tolist()
[[False], [True]])",
            of_booleans, nullptr, axes);
  reduction("reduction_or", booleans, R"(
Return whether any element along axes is true.

result = the logical OR of x over `axes`. The reduced axes stay, with size 1.

Source: MPSGraph reductionOrWithTensor:axes:name: (or axis:).
>>> g.run({}, g.reduction_or(g.constant([[True, False], [False, False]]), axes=1)).tolist()
[[True], [False]])",
            of_booleans, nullptr, axes);
  reduction("reduction_arg_maximum", numbers,
            cat(R"(
Return the index of the largest element along an axis, or of the first of several equal elements.

result = the index of the maximum along `axis`; the axis stays, with size 1.

Gradient: none, because the result is an integer.
Source: MPSGraph reductionArgMaximumWithTensor:axis:name:.
>>> g.run({}, g.reduction_arg_maximum(g.constant([[1.0, 5.0], [4.0, 3.0]]), axis=1)).tolist()
[[1], [0]])",
                arg_sections),
            infer_arg, nullptr, axis);
  reduction("reduction_arg_minimum", numbers,
            cat(R"(
Return the index of the smallest element along an axis, or of the first of several equal elements.

result = the index of the minimum along `axis`; the axis stays, with size 1.

Gradient: none, because the result is an integer.
Source: MPSGraph reductionArgMinimumWithTensor:axis:name:.
>>> g.run({}, g.reduction_arg_minimum(g.constant([[1.0, 5.0], [4.0, 3.0]]), axis=1)).tolist()
[[0], [1]])",
                arg_sections),
            infer_arg, nullptr, axis);
});

}  // namespace mpsgraph::ops
