// Operation family gather: selecting elements by index, the gradient of gathering along an axis, and one-hot rows. In
// the formulas, b are batch axes, o other axes before `axis`, i axes of the indices, and r the remaining axes:
//
//   gather            result[b..., o..., i..., r...] = updates[b..., o..., indices[b..., i...], r...]     at `axis`
//   gather_nd         result[b..., i..., r...] =
//                       updates[b..., indices[b..., i..., 0], indices[b..., i..., 1], ..., r...]
//   gather_along_axis result[..., i, ...] = updates[..., indices[..., i, ...], ...]     at `axis`
//
// The first batch_dimensions axes of updates and indices correspond to each other. An out-of-range index selects zero,
// and its gradient is dropped, unless out_of_range is "clip" or "error" (out_of_range.h). The gradient operation sums
// the contributions of equal indices and treats out-of-range indices in the same way as the gather.
#include <algorithm>

#include "core/exact_numbers.h"
#include "core/ops/indices.h"
#include "core/ops/out_of_range.h"
#include "core/ops/primitive.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

void require_countable(const InferContext& context, const Shape& shape, int axis) {
  if (shape[axis] > INT32_MAX)
    context.shape_error(
        cat("axis ", axis, " of ", shape, " is longer than 2^31 - 1, the most that int32 indices can address"));
}

void require_indices(const InferContext& context, size_t input) {
  if (!is_integer(context.dtype(input)))
    context.dtype_error(cat("indices must be integers, got ", context.dtype(input), "; cast them to int32 first"));
}

Shape gathered_nd(const InferContext& context, const Shape& updates, size_t indices_input) {
  const Shape& indices = context.shape(indices_input);
  const int64_t batch = context.attributes.integer("batch_dimensions");
  if (batch < 0 || batch > max_rank)
    context.shape_error(cat("batch_dimensions must be between 0 and ", max_rank, ", got ", batch));
  if (indices.ranked() && indices.rank() <= batch)
    context.shape_error(
        cat("indices must have an axis of index vectors after the batch dimensions (batch_dimensions is ", batch,
            "), got ", indices));
  if (updates.ranked() && updates.rank() < batch)
    context.shape_error(cat("batch_dimensions must not exceed the rank of updates, got ", batch, " for ", updates));
  if (!updates.ranked() || !indices.ranked() || indices.dims().back() < 0) return {};
  const int64_t depth = indices.dims().back();
  if (batch + depth > updates.rank())
    context.shape_error(cat("indices ", indices, " hold vectors of length ", depth, ", and batch_dimensions is ", batch,
                            ", so updates must have rank ", batch + depth, " or more, got ", updates));
  Dims dims;
  for (int i = 0; i < batch; ++i) {
    if (updates[i] >= 0 && indices[i] >= 0 && updates[i] != indices[i])
      context.shape_error(cat("updates and indices must have the same size in batch dimension ", i, ", got ", updates,
                              " and ", indices));
    dims.push_back(std::max(updates[i], indices[i]));
  }
  dims.insert(dims.end(), indices.dims().begin() + batch, indices.dims().end() - 1);
  dims.insert(dims.end(), updates.dims().begin() + batch + depth, updates.dims().end());
  if (dims.size() > static_cast<size_t>(max_rank))
    context.shape_error(cat("the result would have rank ", dims.size(), ", but the maximum rank is ", max_rank));
  return Shape(dims);
}

Shape gathered_along_axis(const InferContext& context, const Shape& updates, size_t indices_input,
                          std::optional<int64_t> axis) {
  const Shape& indices = context.shape(indices_input);
  if (!updates.ranked() || !indices.ranked()) return indices;
  if (updates.rank() != indices.rank())
    context.shape_error(cat("indices must have the same rank as updates, got ", indices, " and ", updates));
  if (!axis) return indices;
  Dims dims = updates.dims();
  const int along = context.axis(*axis, updates.rank());
  dims[along] = indices[along];
  if (!compatible(Shape(dims), indices))
    context.shape_error(
        cat("indices may differ from updates only along axis ", along, ", got ", indices, " and ", updates));
  return merge(Shape(dims), indices);
}

namespace {

// The shape of the result when gathering from a tensor of shape `updates` with the indices in operand 1.
Shape gathered(const InferContext& context, const Shape& updates) {
  const Shape& indices = context.shape(1);
  const int64_t batch = context.attributes.integer("batch_dimensions");
  if (batch < 0 || batch > max_rank)
    context.shape_error(cat("batch_dimensions must be between 0 and ", max_rank, ", got ", batch));
  if (indices.ranked() && batch > indices.rank())
    context.shape_error(cat("batch_dimensions must not exceed the rank of indices, got ", batch, " for ", indices));
  if (!updates.ranked()) return {};
  const int axis = context.axis(context.attributes.integer("axis"), updates.rank());
  if (axis < batch)
    context.shape_error(
        cat("axis must be at least batch_dimensions (", batch, "), got axis ", axis, " of updates ", updates));
  if (!indices.ranked()) return {};
  Dims dims(updates.dims().begin(), updates.dims().begin() + axis);
  for (int i = 0; i < batch; ++i) {
    if (dims[i] >= 0 && indices[i] >= 0 && dims[i] != indices[i])
      context.shape_error(cat("updates and indices must have the same size in batch dimension ", i, ", got ", updates,
                              " and ", indices));
    dims[i] = std::max(dims[i], indices[i]);
  }
  dims.insert(dims.end(), indices.dims().begin() + batch, indices.dims().end());
  dims.insert(dims.end(), updates.dims().begin() + axis + 1, updates.dims().end());
  if (dims.size() > static_cast<size_t>(max_rank))
    context.shape_error(cat("the result would have rank ", dims.size(), ", but the maximum rank is ", max_rank));
  return Shape(dims);
}

std::vector<TensorType> infer_gather(const InferContext& context) {
  require_indices(context, 1);
  const Shape result = gathered(context, context.shape(0));
  check_out_of_range(context);
  return {{context.dtype(0), result}};
}

void d_gather(GradientContext& g) {
  if (!g.needs(0)) return;
  Tensor* shape = Builder(g.graph()).shape_of(g.input(0));
  g.set(0, g.graph().add("gather_gradient", {g.incoming(), g.input(1), shape}, g.attributes()));
}

std::vector<TensorType> infer_gather_gradient(const InferContext& context) {
  if (context.dtype(0) == DType::boolean)
    context.dtype_error("incoming gradient must be numeric, got bool: cast it to float32 first");
  require_indices(context, 1);
  const Shape updates = shape_operand(context, 2);
  const Shape forward = gathered(context, updates);
  if (!compatible(forward, context.shape(0)))
    context.shape_error(cat("incoming gradient must have the shape ", forward, " of the gather's result, got ",
                            context.shape(0), ": indices ", context.shape(1), ", updates ", updates));
  check_out_of_range(context, updates);
  return {{context.dtype(0), updates}};
}

void d_gather_gradient(GradientContext& g) {
  if (g.needs(0)) g.set(0, g.graph().add("gather", {g.incoming(), g.input(1)}, g.attributes()));
}

std::vector<TensorType> infer_gather_nd(const InferContext& context) {
  require_indices(context, 1);
  const Shape result = gathered_nd(context, context.shape(0), 1);
  check_out_of_range(context);
  return {{context.dtype(0), result}};
}

std::vector<TensorType> infer_gather_along_axis(const InferContext& context) {
  require_indices(context, 1);
  const Shape result = gathered_along_axis(context, context.shape(0), 1, context.attributes.integer("axis"));
  check_out_of_range(context);
  return {{context.dtype(0), result}};
}

std::vector<TensorType> infer_gather_along_axis_unvalued(const InferContext& context) {
  require_indices(context, 1);
  return {{context.dtype(0), gathered_along_axis(context, context.shape(0), 1, {})}};
}

// The derivative of a gather: an operation of kind `scatter` adds the incoming gradient at the positions that were
// read.
Gradient scattered(Kind scatter) {
  return [scatter](GradientContext& g) {
    if (!g.needs(0)) return;
    Attributes attributes = g.attributes();
    attributes.set("mode", std::string("add"));
    convert_out_of_range(attributes, scatter);
    g.set(0, g.add_alike(scatter, {Builder(g.graph()).zeros_like(g.input(0)), g.incoming(), g.input(1)}, attributes));
  };
}

// Inference of one_hot, which returns on_value at each index and off_value elsewhere. An index outside [0, depth) gives
// a row of off_value by default.
std::vector<TensorType> infer_one_hot(const InferContext& context) {
  require_indices(context, 0);
  const int64_t depth = context.attributes.integer("depth");
  if (depth < 0 || depth > (int64_t{1} << 31))
    context.shape_error(cat("depth must be between 0 and 2^31, got ", depth));
  check_out_of_range(context);
  const DType dtype = context.attributes.dtype("dtype");
  for (std::string_view key : {"on_value", "off_value"}) require_element(context, key, dtype);
  const Shape& indices = context.shape(0);
  if (!indices.ranked()) return {{dtype, {}}};
  if (indices.rank() == max_rank)
    context.shape_error(cat("the result would have rank ", max_rank + 1, ", but the maximum rank is ", max_rank));
  Dims dims = indices.dims();
  dims.insert(dims.begin() + context.axis(context.attributes.integer("axis"), indices.rank() + 1), depth);
  return {{dtype, Shape(dims)}};
}

}  // namespace

const Family gather_family("gather", [] {
  const std::vector<AttributeSpec> attributes{required("axis", AttributeKind::integer),
                                              optional("batch_dimensions", int64_t{0}), out_of_range_of_gather()};
  define(primitive("gather", 2, attributes, infer_gather, d_gather));
  define(primitive("gather_gradient", 3, attributes, infer_gather_gradient, d_gather_gradient));

  define(primitive("gather_nd", 2, {optional("batch_dimensions", int64_t{0}), out_of_range_of_gather()},
                   infer_gather_nd, scattered("scatter_nd")));
  OperationDefinition along =
      primitive("gather_along_axis", 2, {optional("axis", int64_t{0}), out_of_range_of_gather()},
                infer_gather_along_axis, scattered("scatter_along_axis"));
  along.tensor_attributes = {"axis"};
  along.infer_unvalued = infer_gather_along_axis_unvalued;
  define(std::move(along));

  OperationDefinition one_hot = primitive(
      "one_hot", 1,
      {required("depth", AttributeKind::integer), optional("axis", int64_t{-1}), optional("dtype", DType::float32),
       optional("on_value", 1.0), optional("off_value", 0.0), out_of_range_of_gather()},
      infer_one_hot, nullptr);
  one_hot.gradient_is_zero = true;
  define(std::move(one_hot));

  describe("gather", "updates, indices, axis = 0, batch_dimensions, name, *, out_of_range", DTypeClass::any, R"(
Select slices of a tensor along an axis by index.

result[b..., o..., i..., r...] = updates[b..., o..., indices[b..., i...], r...], with the index at position
`axis`.

Args:
    updates: Tensor of any dtype to select from.
    indices: Tensor of int32 or int64, from 0 to the size of the axis - 1.
    axis: Axis of updates to select along, at least batch_dimensions.
    batch_dimensions: Number of leading axes that updates and indices share.
    out_of_range: Handling of indices outside the axis, including negative ones: "zeros" (the default) returns
        zeros for them, "clip" uses the nearest valid index, and "error" makes the run raise OutOfRangeError.
Returns: A tensor with the dtype of updates, in which the axes of indices replace `axis`.
Raises:
    ShapeError: If axis or batch_dimensions is out of range, or the batch dimensions differ.
    DTypeError: If indices are not integers.
    GraphError: If out_of_range has an unknown value.
    OutOfRangeError: If out_of_range is "error" and an index known at this point is out of range.
Gradient: computed by gather_gradient for updates; none for indices.
Source: MPSGraph gatherWithUpdatesTensor:indicesTensor:axis:batchDimensions:name:.
>>> g.run({}, g.gather(g.constant([10.0, 20.0, 30.0]), g.constant([2, 0]))).tolist()
[30.0, 10.0])");
  describe("gather_gradient",
           "incoming, indices, input_shape: shape, axis = 0, batch_dimensions, name, *, out_of_range", DTypeClass::any,
           R"(
Compute the gradient of gather with respect to its updates, by adding slices at their indices.

result = zeros of input_shape, with each slice of incoming added at its index.

Args:
    incoming: Gradient with respect to the result of gather, with the shape of that result.
    input_shape: Shape of updates, as ints or as an integer tensor of rank 1.
    batch_dimensions: The number of batch dimensions given to gather.
    out_of_range: Handling of gradients for indices outside the axis: "zeros" (the default) drops them, "clip"
        adds them at the nearest valid index, and "error" makes the run raise OutOfRangeError.
Returns: A tensor of shape input_shape, with the dtype of incoming.
Raises:
    ShapeError: If the shapes are inconsistent with each other, or axis is out of range.
    DTypeError: If indices are not integers.
    GraphError: If out_of_range has an unknown value.
    OutOfRangeError: If out_of_range is "error" and an index known at this point is out of range.
Gradient: computed by gather for incoming.
Source: this package; MPSGraph differentiates gather through scatter.
>>> d, i = g.constant([1.0, 2.0, 3.0]), g.constant([2, 0, 2])
>>> g.run({}, g.gather_gradient(d, i, (3,))).tolist()
[2.0, 0.0, 4.0])");
  describe("gather_nd", "updates, indices, batch_dimensions, name, *, out_of_range", DTypeClass::any, R"(
Select slices of a tensor by index vectors.

result[b..., i..., r...] = updates[b..., indices[b..., i..., 0], indices[b..., i..., 1], ..., r...].

Args:
    updates: Tensor of any dtype to select from.
    indices: Integer tensor whose last axis holds the index vectors; a vector has at most one index for each
        axis of updates after the batch dimensions.
    batch_dimensions: Number of leading axes that updates and indices share.
    out_of_range: Handling of index vectors with an index outside its axis: "zeros" (the default) returns zeros
        for them, "clip" uses the nearest valid indices, and "error" makes the run raise OutOfRangeError.
Returns: A tensor with the dtype of updates.
Raises:
    ShapeError: If the index vectors are too long, or the batch dimensions differ.
    DTypeError: If indices are not integers.
    GraphError: If out_of_range has an unknown value.
    OutOfRangeError: If out_of_range is "error" and an index known at this point is out of range.
Gradient: scatter_nd of the incoming gradient to updates; none to indices.
Source: MPSGraph gatherNDWithUpdatesTensor:indicesTensor:batchDimensions:name:.
>>> g.run({}, g.gather_nd(g.constant([[1, 2], [3, 4]]), g.constant([[0, 1], [1, 0]]))).tolist()
[2, 3])");
  describe("gather_along_axis", "axis: required, updates, indices, name, *, out_of_range", DTypeClass::any, R"(
Select elements of a tensor along an axis, with a separate index for each element of the result.

result[..., i, ...] = updates[..., indices[..., i, ...], ...], with the index at position `axis`.

Args:
    axis: Axis to select along: an int, where negative values count from the end, or an integer tensor of one
        element.
    updates: Tensor of any dtype to select from.
    indices: Integer tensor with the shape of updates except along `axis`.
    out_of_range: Handling of indices outside the axis, including negative ones: "zeros" (the default) returns
        zeros for them, "clip" uses the nearest valid index, and "error" makes the run raise OutOfRangeError.
Returns: A tensor with the shape of indices and the dtype of updates.
Raises:
    ShapeError: If axis is out of range, or the shapes differ along any other axis.
    DTypeError: If indices are not integers.
    GraphError: If out_of_range has an unknown value.
    OutOfRangeError: If out_of_range is "error" and an index known at this point is out of range.
Gradient: scatter_along_axis of the incoming gradient to updates; none to indices.
Source: MPSGraph gatherAlongAxis:withUpdatesTensor:indicesTensor:name: and gatherAlongAxisTensor:….
>>> g.run({}, g.gather_along_axis(1, g.constant([[1, 2], [3, 4]]), g.constant([[1, 1], [0, 1]]))).tolist()
[[2, 2], [3, 4]])");
  describe("one_hot", "indices, depth, axis, dtype, on_value, off_value, name, *, out_of_range", DTypeClass::integers,
           R"(
Convert indices to one-hot vectors along a new axis.

result[..., k, ...] = k == indices[...] ? on_value : off_value, where k is the index along the new axis.

Args:
    indices: Integer tensor with values from 0 to depth - 1.
    depth: Size of the new axis.
    axis: Position of the new axis in the result; negative values count from the end.
    dtype: dtype of the result.
    on_value: Value at the index, representable in dtype; 64-bit integers are exact.
    off_value: Value elsewhere, representable in dtype; 64-bit integers are exact.
    out_of_range: Handling of indices outside 0 to depth - 1: "zeros" (the default) gives a vector of off_value,
        "clip" uses the nearest valid index, and "error" makes the run raise OutOfRangeError.
Returns: A tensor of the given dtype, with one more axis than indices.
Raises:
    ShapeError: If depth is negative or axis is out of range.
    DTypeError: If indices are not integers, or a value is not representable in dtype.
    GraphError: If out_of_range has an unknown value.
    OutOfRangeError: If out_of_range is "error" and an index known at this point is out of range.
Gradient: none, because indices are integers.
Source: MPSGraph oneHotWithIndicesTensor:depth:axis:dataType:onValue:offValue:name:.
>>> g.run({}, g.one_hot(g.constant([1, 0]), 3)).tolist()
[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])");
});

}  // namespace mpsgraph::ops
