// Operation family top_k: the k largest or smallest elements along an axis in order, with their indices, and the
// gradients.
//
// Among equal elements, those with the lowest indices are selected, in order. NaN counts as larger than every number.
// The gradient moves each element's incoming gradient back to the element's original position.
#include "core/ops/indices.h"
#include "core/ops/primitive.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

void require_order(const InferContext& c, size_t input) {
  if (is_complex(c.dtype(input)))
    c.dtype_error(cat("source must be real because complex numbers have no order, got ", c.dtype(input),
                      ": take its absolute first"));
}

Shape best_of(const InferContext& c, const Shape& source) {
  const int64_t k = c.attributes.integer("k");
  if (k < 0) c.shape_error(cat("k must be at least 0, got ", k));
  if (!source.ranked()) return {};
  Dims dims = source.dims();
  const int axis = c.axis(c.attributes.integer("axis"), source.rank());
  require_countable(c, source, axis);
  if (dims[axis] >= 0 && dims[axis] < k)
    c.shape_error(
        cat("k must be at most the size of axis ", axis, " (", dims[axis], "), got ", k, " for source ", source));
  dims[axis] = k;
  return Shape(dims);
}

Shape unvalued(const Shape& source) { return source.ranked() ? Shape(Dims(source.dims().size(), -1)) : Shape(); }

std::vector<TensorType> infer_k(const InferContext& c) {
  require_order(c, 0);
  const Shape best = best_of(c, c.shape(0));
  return {{c.dtype(0), best}, {DType::int32, best}};
}

std::vector<TensorType> infer_k_unvalued(const InferContext& c) {
  require_order(c, 0);
  return {{c.dtype(0), unvalued(c.shape(0))}, {DType::int32, unvalued(c.shape(0))}};
}

Tensor* placed(const GradientContext& g, Tensor* source, Tensor* incoming, Tensor* indices) {
  Tensor* zeros = Builder(g.graph()).zeros_like(source);
  return g.add_alike("scatter_along_axis", {zeros, incoming, indices}, {{"axis", g.attributes().integer("axis")}});
}

void d_k(GradientContext& g) {
  if (g.incoming(0)) g.set(0, placed(g, g.input(0), g.incoming(0), g.output(1)));
}

// The operands are the incoming gradient and the source.
std::vector<TensorType> infer_k_gradient(const InferContext& c) {
  c.require_same_dtype(0, 2);
  require_order(c, 1);
  if (c.dtype(0) == DType::boolean)
    c.dtype_error("incoming gradient must be numeric, got bool: cast it to int32 or float32 first");
  const Shape best = best_of(c, c.shape(1));
  if (!compatible(best, c.shape(0)))
    c.shape_error(cat("incoming gradient must have the shape ", best, " of the top ", c.attributes.integer("k"),
                      " elements of source ", c.shape(1), ", got ", c.shape(0)));
  return {c.type(1)};
}

std::vector<TensorType> infer_k_gradient_unvalued(const InferContext& c) {
  c.require_same_dtype(0, 2);
  require_order(c, 1);
  return {c.type(1)};
}

Kind forward_of(Kind gradient) { return gradient == "top_k_gradient" ? Kind("top_k") : "bottom_k"; }

// Derivative of the top_k gradient operation. It is linear in the incoming gradient and has zero derivative with
// respect to the source.
void d_k_gradient(GradientContext& g) {
  if (!g.needs(0)) return;
  const Attributes& a = g.attributes();
  Tensor* picked = g.add_alike(forward_of(g.operation.kind()), {g.input(1)}, a)->operation->output(1);
  g.set(0, g.add_alike("gather_along_axis", {g.incoming(), picked}, {{"axis", a.integer("axis")}}));
}

Decompose decompose_gradient(Kind forward) {
  return [forward](Builder& b, const std::vector<Tensor*>& inputs, const Attributes& attributes) {
    Tensor* indices = b.graph().create(forward, {inputs[1]}, attributes)->output(1);
    Tensor* placed = b.graph().add("scatter_along_axis", {b.zeros_like(inputs[1]), inputs[0], indices},
                                   {{"axis", attributes.integer("axis")}});
    return std::vector<Tensor*>{placed};
  };
}

}  // namespace

const Family top_k_family("top_k", [] {
  const std::vector<AttributeSpec> attributes{optional("axis", int64_t{-1}), optional("k", int64_t{1})};
  const auto of_k = [](OperationDefinition d, Infer infer_unvalued) {
    d.tensor_attributes = {"axis", "k"};
    d.infer_unvalued = std::move(infer_unvalued);
    define(std::move(d));
  };
  for (Kind name : Kinds{"top_k", "bottom_k"}) of_k(primitive(name, 1, attributes, infer_k, d_k), infer_k_unvalued);
  for (Kind name : Kinds{"top_k_gradient", "bottom_k_gradient"}) {
    OperationDefinition d = primitive(name, 2, attributes, infer_k_gradient, d_k_gradient);
    d.decompose = decompose_gradient(forward_of(name));
    of_k(std::move(d), infer_k_gradient_unvalued);
  }

  describe("top_k", "x, k: required, axis -> list[Tensor]", DTypeClass::ordered, R"(
Return the k largest elements along an axis, in descending order, and their indices.

Equal elements are in the order of their indices. NaN is greater than any number.

Args:
    x: Tensor of any dtype that is not complex.
    k: Number of elements, at most the size of the axis: an int or an integer tensor of one element.
    axis: Axis to search: an int, where negative values count from the end, or an integer tensor of one element.
Returns: [values, indices], with the dtype of x and int32, both with k elements along the axis.
Raises:
    ShapeError: If axis is out of range, or k is negative or exceeds the size of the axis.
    DTypeError: If x is complex, or an axis or k tensor is not integer.
Gradient: the incoming gradient of the values, at the positions of the selected elements.
Source: MPSGraph topKWithSourceTensor:k:name:, …kTensor:, …axis:k: and …axisTensor:kTensor:.
>>> values, indices = g.top_k(g.constant([3.0, 1.0, 2.0]), 2)
>>> g.run({}, values).tolist(), g.run({}, indices).tolist()
([3.0, 2.0], [0, 2]))");
  describe("bottom_k", "x, k: required, axis -> list[Tensor]", DTypeClass::ordered, R"(
Return the k smallest elements along an axis, in ascending order, and their indices.

Equal elements are in the order of their indices. NaN is greater than any number.

Args:
    x: Tensor of any dtype that is not complex.
    k: Number of elements, at most the size of the axis: an int or an integer tensor of one element.
    axis: Axis to search: an int, where negative values count from the end, or an integer tensor of one element.
Returns: [values, indices], with the dtype of x and int32, both with k elements along the axis.
Raises:
    ShapeError: If axis is out of range, or k is negative or exceeds the size of the axis.
    DTypeError: If x is complex, or an axis or k tensor is not integer.
Gradient: the incoming gradient of the values, at the positions of the selected elements.
Source: MPSGraph bottomKWithSourceTensor:axis:k:name: and …axisTensor:kTensor:name:.
>>> values, indices = g.bottom_k(g.constant([3.0, 1.0, 2.0]), 2)
>>> g.run({}, values).tolist(), g.run({}, indices).tolist()
([1.0, 2.0], [1, 2]))");
  describe("top_k_gradient", "incoming, source, k: required, axis", DTypeClass::ordered, R"(
Compute the gradient of the values of top_k with respect to its source.

result = incoming at the positions of the k largest elements of source, zeros elsewhere.

Args:
    incoming: Gradient with respect to the values returned by top_k, with the shape of those values.
    source: The x given to top_k.
Raises:
    ShapeError: If the shapes are inconsistent with each other, axis is out of range, or k exceeds the size of
        the axis.
    DTypeError: If source is bool or complex, or the dtypes differ.
Gradient: to incoming, the elements of the incoming gradient at the k largest elements; to source, zero.
Source: MPSGraph topKWithGradientTensor:source:k:name:, …kTensor:, …axis:k: and …axisTensor:kTensor:.
>>> x = g.constant([3.0, 1.0, 2.0])
>>> g.run({}, g.top_k_gradient(g.constant([10.0, 20.0]), x, 2)).tolist()
[10.0, 0.0, 20.0])");
  describe("bottom_k_gradient", "incoming, source, k: required, axis", DTypeClass::ordered, R"(
Compute the gradient of the values of bottom_k with respect to its source.

result = incoming at the positions of the k smallest elements of source, zeros elsewhere.

Args:
    incoming: Gradient with respect to the values returned by bottom_k, with the shape of those values.
    source: The x given to bottom_k.
Raises:
    ShapeError: If the shapes are inconsistent with each other, axis is out of range, or k exceeds the size of
        the axis.
    DTypeError: If source is bool or complex, or the dtypes differ.
Gradient: to incoming, the elements of the incoming gradient at the k smallest elements; to source, zero.
Source: MPSGraph bottomKWithGradientTensor:source:axis:k:name: and …axisTensor:kTensor:name:.
>>> x = g.constant([3.0, 1.0, 2.0])
>>> g.run({}, g.bottom_k_gradient(g.constant([10.0, 20.0]), x, 2)).tolist()
[0.0, 10.0, 20.0])");
});

}  // namespace mpsgraph::ops
