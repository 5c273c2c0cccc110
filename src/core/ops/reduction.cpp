// Reductions: sum, product, extrema, logical and arg reductions along axes.
//
// Reduced axes are kept with size 1. An empty list of axes means all axes. Tied extrema share their gradient equally.
// Where the extremum is NaN, the gradient of all elements that were reduced to it is NaN.
#include "core/ops/extrema.h"
#include "core/ops/indices.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

enum class Reducible { algebraic, numbers, booleans };  // algebraic dtypes include complex ones

std::vector<TensorType> infer_axes(const InferContext& c, Reducible operands) {
  if ((c.dtype(0) == DType::boolean) != (operands == Reducible::booleans)) {
    c.dtype_error(operands == Reducible::booleans
                      ? cat("source must be bool, got ", c.dtype(0), ": compare or cast it first")
                      : std::string("source must be numeric, got bool: cast it to int32 or float32 first"));
  }
  if (is_complex(c.dtype(0)) && operands == Reducible::numbers)
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
  std::vector<TensorType> result = infer_axes(c, Reducible::numbers);
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

void reduction(std::string_view name, Infer infer, Gradient gradient, AttributeSpec attribute) {
  OperationDefinition d;
  d.name = name;
  d.min_inputs = d.max_inputs = 1;
  d.attributes = {std::move(attribute)};
  d.infer = std::move(infer);
  d.gradient_is_zero = !gradient;
  d.gradient = std::move(gradient);
  define(std::move(d));
}

}  // namespace

const Family reduction_family("reduction", [] {
  AttributeSpec axes = optional("axes", Ints{});
  Infer algebraic = [](const InferContext& c) { return infer_axes(c, Reducible::algebraic); };
  Infer booleans = [](const InferContext& c) { return infer_axes(c, Reducible::booleans); };
  reduction("reduction_sum", algebraic, d_reduction_sum, axes);
  reduction("reduction_product", algebraic, d_reduction_product, axes);
  reduction("reduction_maximum", infer_extremum, d_reduction_extremum, axes);
  reduction("reduction_minimum", infer_extremum, d_reduction_extremum, axes);
  reduction("reduction_maximum_propagate_nan", infer_extremum, d_reduction_extremum, axes);
  reduction("reduction_minimum_propagate_nan", infer_extremum, d_reduction_extremum, axes);
  reduction("reduction_and", booleans, nullptr, axes);
  reduction("reduction_or", booleans, nullptr, axes);
  reduction("reduction_arg_maximum", infer_arg, nullptr, required("axis", AttributeKind::integer));
  reduction("reduction_arg_minimum", infer_arg, nullptr, required("axis", AttributeKind::integer));
});

}  // namespace mpsgraph::ops
