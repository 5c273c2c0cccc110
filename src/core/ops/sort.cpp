// Operation family sort: sort and argsort along an axis.
//
// Both are stable. Descending order is the stable order for the opposite comparison. NaN counts as larger than every
// number, so it comes last in ascending and first in descending order. The gradient of sort moves the incoming gradient
// back to the elements' original positions.
#include "core/ops/indices.h"
#include "core/ops/primitive.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

void require_order(const InferContext& c) {
  if (is_complex(c.dtype(0)))
    c.dtype_error(cat("source must be real because complex numbers have no order, got ", c.dtype(0),
                      ": take its absolute first"));
}

std::vector<TensorType> infer_order(const InferContext& c, DType dtype) {
  require_order(c);
  if (c.shape(0).ranked()) {
    require_countable(c, c.shape(0), c.axis(c.attributes.integer("axis"), c.shape(0).rank()));
  }
  return {{dtype, c.shape(0)}};
}

void d_sort(GradientContext& g) {
  const Attributes& a = g.attributes();
  const int64_t axis = a.integer("axis");
  Tensor* order = g.add_alike("arg_sort", {g.input(0)}, {{"axis", axis}, {"descending", a.boolean("descending")}});
  Tensor* zeros = Builder(g.graph()).zeros_like(g.input(0));
  g.set(0, g.add_alike("scatter_along_axis", {zeros, g.incoming(), order}, {{"axis", axis}}));
}

}  // namespace

const Family sort_family("sort", [] {
  const auto order = [](Kind name, std::optional<DType> dtype, Gradient gradient) {
    OperationDefinition d = primitive(
        name, 1, {optional("axis", int64_t{-1}), optional("descending", false)},
        [dtype](const InferContext& c) { return infer_order(c, dtype.value_or(c.dtype(0))); }, std::move(gradient));
    d.tensor_attributes = {"axis"};
    d.infer_unvalued = [dtype](const InferContext& c) {
      require_order(c);
      return std::vector<TensorType>{{dtype.value_or(c.dtype(0)), c.shape(0)}};
    };
    d.gradient_is_zero = !d.gradient;
    define(std::move(d));
  };
  order("sort", std::nullopt, d_sort);
  order("arg_sort", DType::int32, nullptr);

  describe("sort", "x, axis, descending", DTypeClass::ordered, R"(
Sort elements along an axis.

result_0 <= result_1 <= ..., or in reverse with descending. NaN is greater than any number.

Args:
    x: Tensor of any dtype that is not complex.
    axis: Axis to sort along: an int, where negative values count from the end, or an integer tensor of one
        element.
    descending: Whether to sort from largest to smallest.
Gradient: the incoming gradient, with each element moved back to its original position.
Source: MPSGraph sortWithTensor:axis:descending:name:, …axisTensor:…, and both without descending.
>>> g.run({}, g.sort(g.constant([3.0, 1.0, 2.0]), descending=True)).tolist()
[3.0, 2.0, 1.0])");
  describe("arg_sort", "x, axis, descending", DTypeClass::ordered, R"(
Return the indices that sort elements along an axis; equal elements keep their order.

x[result_0] <= x[result_1] <= ..., or in reverse with descending. NaN is greater than any number.

Args:
    x: Tensor of any dtype that is not complex.
    axis: Axis to sort along: an int, where negative values count from the end, or an integer tensor of one
        element.
    descending: Whether to sort from largest to smallest.
Returns: An int32 tensor with the shape of x.
Gradient: none, because indices are integers.
Source: MPSGraph argSortWithTensor:axis:descending:name:, …axisTensor:…, and both without descending.
>>> g.run({}, g.arg_sort(g.constant([3.0, 1.0, 2.0]))).tolist()
[1, 2, 0])");
});

}  // namespace mpsgraph::ops
