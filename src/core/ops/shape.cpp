// Operation family shape: reshaping, broadcasting, casts, and the shape itself as a tensor.
//
// Slicing and joining are in shape_slicing.cpp, padding and tiling in shape_padding.cpp, blocks in shape_blocks.cpp. A
// shape operand is a list of integers. While its value is unknown, the result dimensions are -1; they become known when
// the executable is specialized.
#include "core/ops/shape.h"

#include <algorithm>
#include <numeric>

#include "core/ops/indices.h"
#include "core/ops/primitive.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

Shape shape_operand(const InferContext& context, size_t input, bool wildcard) {
  if (!is_integer(context.dtype(input)))
    context.dtype_error(cat("shape must be integers, got ", context.dtype(input), "; cast it to int64 first"));
  context.require_rank(input, 1);
  if (context.shape(input).ranked() && context.shape(input)[0] > max_rank)
    context.shape_error(
        cat("shape must have at most ", max_rank, " dimensions (the maximum rank), got ", context.shape(input)[0]));
  if (const std::optional<Ints> value = context.constant(input)) {
    const auto wildcards = std::count(value->begin(), value->end(), -1);
    if (wildcards > (wildcard ? 1 : 0) || std::any_of(value->begin(), value->end(), [](int64_t d) { return d < -1; }))
      context.shape_error(cat("shape must not have negative dimensions",
                              wildcard ? " (except for one -1, which is inferred)" : "", ", got ", to_string(*value)));
    try {
      if (wildcards == 0) element_count(*value);
    } catch (const ShapeError& overflow) {
      context.shape_error(overflow.what());
    }
  }
  return context.shape_operand(input);
}

Shape stated_shape(const InferContext& context, size_t input, const Shape& implied) {
  const Shape stated = shape_operand(context, input);
  if (!compatible(stated, implied))
    context.shape_error(
        cat("the shape operand must agree with the shape ", implied, " implied by the other operands, got ", stated));
  return merge(stated, implied);
}

Dims dims_for(const InferContext& context, size_t input, std::string_view attribute) {
  const Ints& values = context.attributes.integers(attribute);
  if (values.size() > static_cast<size_t>(max_rank))
    context.shape_error(
        cat(attribute, " must have at most ", max_rank, " entries (the maximum rank), got ", values.size()));
  const int rank = static_cast<int>(values.size());
  const Shape& shape = context.shape(input);
  if (!shape.ranked()) return Dims(rank, -1);
  if (shape.rank() != rank)
    context.shape_error(cat(attribute, " must have one entry for each axis of ", shape, ", got ", to_string(values)));
  return shape.dims();
}

std::vector<int> distinct_axes(const InferContext& context, const Ints& axes, int rank) {
  std::vector<int> result;
  for (int64_t axis : axes) {
    const int wrapped = context.axis(axis, rank);
    if (std::find(result.begin(), result.end(), wrapped) != result.end())
      context.shape_error(cat("axes must be distinct, got axis ", axis, " twice in ", to_string(axes)));
    result.push_back(wrapped);
  }
  return result;
}

namespace {

// The product of dimensions `begin` to `end` (exclusive). The product is 0 if one of these dimensions is 0, and
// otherwise -1 if one of them is unknown.
int64_t product(const Dims& dims, int begin, int end) {
  const Dims part(dims.begin() + begin, dims.begin() + end);
  if (std::find(part.begin(), part.end(), 0) != part.end()) return 0;
  return std::find(part.begin(), part.end(), -1) == part.end() ? element_count(part) : -1;
}

int64_t product(const Dims& dims) { return product(dims, 0, static_cast<int>(dims.size())); }

std::vector<TensorType> infer_reshape(const InferContext& context) {
  const Shape& source = context.shape(0);
  const Shape stated = shape_operand(context, 1, true);
  const bool value_known = context.constant(1).has_value();
  if (!value_known || !source.ranked()) return {{context.dtype(0), stated}};
  Dims dims = stated.dims();
  const int64_t elements = product(source.dims());
  const auto fail = [&](const std::string& detail) {
    context.shape_error(cat("cannot reshape ", elements, elements == 1 ? " element to " : " elements to ",
                            to_string(stated), detail, ": source ", source));
  };
  const auto wildcard = std::find(dims.begin(), dims.end(), -1);
  if (wildcard == dims.end()) {
    if (elements >= 0 && elements != product(dims)) fail("");
  } else if (elements >= 0) {
    *wildcard = 1;
    const int64_t others = product(dims);
    if (others == 0) fail(", because -1 is ambiguous next to a dimension of 0");
    if (elements % others != 0) fail("");
    *wildcard = elements / others;
  }
  return {{context.dtype(0), Shape(dims)}};
}

// Derivative of every operation that keeps the elements in row-major order: reshapes the incoming gradient.
void d_reshape(GradientContext& g) { g.set(0, Builder(g.graph()).reshape_like(g.incoming(), g.input(0))); }

std::vector<TensorType> infer_transpose(const InferContext& context) {
  const Ints& permutation = context.attributes.integers("permutation");
  const Dims dims = dims_for(context, 0, "permutation");
  Dims result;
  for (int axis : distinct_axes(context, permutation, static_cast<int>(dims.size()))) result.push_back(dims[axis]);
  return {{context.dtype(0), Shape(result)}};
}

void d_transpose(GradientContext& g) {
  const Ints& permutation = g.attributes().integers("permutation");
  const int rank = static_cast<int>(permutation.size());
  Ints inverse(rank);
  for (int i = 0; i < rank; ++i) inverse[wrap_axis(permutation[i], rank)] = i;
  g.set(0, Builder(g.graph()).transpose(g.incoming(), inverse));
}

std::vector<TensorType> infer_expand_dims(const InferContext& context) {
  const Ints& axes = context.attributes.integers("axes");
  const Shape& source = context.shape(0);
  if (!source.ranked()) return {{context.dtype(0), {}}};
  if (source.rank() + axes.size() > static_cast<size_t>(max_rank))
    context.shape_error(
        cat("the result would have rank ", source.rank() + axes.size(), ", but the maximum rank is ", max_rank));
  const int rank = source.rank() + static_cast<int>(axes.size());
  Dims dims(rank, -2);  // -2 marks dimensions that are filled in from the source below
  for (int axis : distinct_axes(context, axes, rank)) dims[axis] = 1;
  auto next = source.dims().begin();
  for (int64_t& dim : dims)
    if (dim == -2) dim = *next++;
  return {{context.dtype(0), Shape(dims)}};
}

std::vector<TensorType> infer_expand_dims_unvalued(const InferContext& context) {
  const Shape &source = context.shape(0), &axes = context.shape(1);
  if (!source.ranked() || !axes.known()) return {{context.dtype(0), {}}};
  if (axes.elements() > max_rank - source.rank())
    context.shape_error(cat("the number of new axes (", axes.elements(), ") plus the rank of source (", source.rank(),
                            ") must be at most the maximum rank, ", max_rank));
  return {{context.dtype(0), Dims(source.dims().size() + static_cast<size_t>(axes.elements()), -1)}};
}

std::vector<TensorType> infer_squeeze_unvalued(const InferContext& context) {
  const Shape &source = context.shape(0), &axes = context.shape(1);
  if (!source.ranked() || !axes.known() || axes.elements() == 0) return {{context.dtype(0), {}}};
  return {{context.dtype(0), Dims(static_cast<size_t>(std::max<int64_t>(source.rank() - axes.elements(), 0)), -1)}};
}

std::vector<TensorType> infer_squeeze(const InferContext& context) {
  const Ints& axes = context.attributes.integers("axes");
  const Shape& source = context.shape(0);
  // Without axes, squeeze removes all axes of size 1. The rank of the result is then unknown if a dimension is dynamic,
  // because that dimension may turn out to be 1.
  if (!source.ranked() || (axes.empty() && !source.known())) return {{context.dtype(0), {}}};
  std::vector<bool> dropped(source.rank());
  for (int axis : distinct_axes(context, axes, source.rank())) {
    if (source[axis] > 1 || source[axis] == 0)
      context.shape_error(
          cat("only axes of size 1 can be squeezed, got axis ", axis, " of size ", source[axis], ": source ", source));
    dropped[axis] = true;
  }
  Dims dims;
  for (int axis = 0; axis < source.rank(); ++axis)
    if (axes.empty() ? source[axis] != 1 : !dropped[axis]) dims.push_back(source[axis]);
  return {{context.dtype(0), Shape(dims)}};
}

std::vector<TensorType> infer_flatten2d(const InferContext& context) {
  const Shape& source = context.shape(0);
  if (!source.ranked()) return {{context.dtype(0), Shape{-1, -1}}};
  const int64_t axis = context.attributes.integer("axis");
  const int rank = source.rank();
  const int split = axis == rank ? rank : context.axis(axis, rank);
  return {{context.dtype(0), Shape{product(source.dims(), 0, split), product(source.dims(), split, rank)}}};
}

std::vector<TensorType> infer_flatten2d_unvalued(const InferContext& context) {
  return {{context.dtype(0), Shape{-1, -1}}};
}

std::vector<TensorType> infer_broadcast_to(const InferContext& context) {
  const Shape target = shape_operand(context, 1);
  const Shape& source = context.shape(0);
  const std::optional<Shape> both = broadcast(source, target);
  const bool grows = both && both->ranked() && target.ranked() && !compatible(*both, target);
  if (!both || grows)
    context.shape_error(cat("source ", source, " cannot be broadcast to ", target,
                            "; each source dimension, aligned from the last, must be 1 or equal the target dimension"));
  // If the shape operand is unknown, a source dimension above 1 still determines the result dimension, because only
  // dimensions of size 1 are broadcast.
  return {{context.dtype(0), target.ranked() && both->ranked() ? merge(target, *both) : target}};
}

void d_broadcast_to(GradientContext& g) {
  if (g.needs(0)) g.set(0, Builder(g.graph()).sum_to_like(g.incoming(), g.input(0)));
}

std::vector<TensorType> infer_broadcast_gradient(const InferContext& context) {
  const Shape stated = shape_operand(context, 1);
  const std::optional<Shape> both = broadcast(stated, context.shape(0));
  const bool grows = both && both->ranked() && context.shape(0).ranked() && !compatible(*both, context.shape(0));
  if (!both || grows)
    context.shape_error(cat("incoming gradient ", context.shape(0), " cannot be the result of broadcasting ", stated));
  return {{context.dtype(0), stated}};
}

void d_broadcast_gradient(GradientContext& g) {
  if (g.needs(0)) g.set(0, Builder(g.graph()).broadcast_like(g.incoming(), g.input(0)));
}

std::vector<Tensor*> decompose_broadcast_gradient(Builder& builder, const std::vector<Tensor*>& inputs,
                                                  const Attributes& attributes) {
  const std::vector<std::unique_ptr<Block>> no_blocks;
  const InferContext context(definition_of("broadcast_gradient"), inputs, attributes, no_blocks, "");
  const Shape target = shape_operand(context, 1), from = context.shape(0);
  if (!target.known() || !from.known())
    throw UnsupportedError(
        cat("[broadcast_gradient] shapes must be static to compile this gradient, got ", from, " to ", target));
  Ints axes;
  const int leading = from.rank() - target.rank();
  for (int axis = 0; axis < from.rank(); ++axis)
    if (axis < leading || target[axis - leading] != from[axis]) axes.push_back(axis);
  Tensor* summed = axes.empty() ? inputs[0] : builder.sum(inputs[0], axes);
  return {leading == 0 ? summed : builder.reshape(summed, target.dims())};
}

std::vector<TensorType> infer_shape_of(const InferContext& context) {
  const Shape& source = context.shape(0);
  for (int axis = 0; source.ranked() && axis < source.rank(); ++axis) require_countable(context, source, axis);
  return {{DType::int32, Shape{source.ranked() ? source.rank() : -1}}};
}

std::vector<TensorType> infer_cast(const InferContext& context) {
  return {{context.attributes.dtype("dtype"), context.shape(0)}};
}

// Derivative of cast. If the source or the result is an integer, no gradient is set. If the cast is to a complex dtype,
// the gradient is the real part of the incoming gradient; if it is from a complex dtype, the gradient has a zero
// imaginary part. A cast of the incoming gradient handles both cases.
void d_cast(GradientContext& g) {
  if (is_inexact(g.input(0)->dtype()) && is_inexact(g.output()->dtype()))
    g.set(0, Builder(g.graph()).cast(g.incoming(), g.input(0)->dtype()));
}

}  // namespace

const Family shape_family("shape", [] {
  define(primitive("reshape", 2, {}, infer_reshape, d_reshape));
  define(primitive("transpose", 1, {required("permutation", AttributeKind::integers)}, infer_transpose, d_transpose));
  const auto reshaping = [](Kind name, AttributeSpec attribute, Infer infer, Infer unvalued) {
    OperationDefinition d = primitive(name, 1, {attribute}, std::move(infer), d_reshape);
    d.tensor_attributes = {attribute.name};
    d.infer_unvalued = std::move(unvalued);
    define(std::move(d));
  };
  reshaping("expand_dims", optional("axes", Ints{}), infer_expand_dims, infer_expand_dims_unvalued);
  reshaping("squeeze", optional("axes", Ints{}), infer_squeeze, infer_squeeze_unvalued);
  reshaping("flatten2d", optional("axis", int64_t{1}), infer_flatten2d, infer_flatten2d_unvalued);
  define(primitive("broadcast_to", 2, {}, infer_broadcast_to, d_broadcast_to));

  OperationDefinition broadcast_gradient =
      primitive("broadcast_gradient", 2, {}, infer_broadcast_gradient, d_broadcast_gradient);
  broadcast_gradient.decompose = decompose_broadcast_gradient;
  broadcast_gradient.internal = true;
  define(std::move(broadcast_gradient));

  OperationDefinition shape_of = primitive("shape_of", 1, {}, infer_shape_of, nullptr);
  shape_of.gradient_is_zero = true;
  define(std::move(shape_of));

  OperationDefinition cast = primitive("cast", 1, {required("dtype", AttributeKind::dtype)}, infer_cast, d_cast);
  cast.elementwise = true;
  define(std::move(cast));

  describe("reshape", "x, shape: shape", DTypeClass::any, R"(
Return the elements of x, in row-major order, with a new shape.

Args:
    shape: New shape, as ints, of which one may be -1 to be inferred, or as an integer tensor of rank 1.
Returns: A tensor with the dtype of x and the given shape.
Raises:
    ShapeError: If the numbers of elements differ.
Gradient: the incoming gradient, reshaped to the shape of x.
Source: MPSGraph reshapeTensor:withShape:name: and reshapeTensor:withShapeTensor:name:.
>>> g.run({}, g.reshape(g.constant([1, 2, 3, 4]), (2, -1))).tolist()
[[1, 2], [3, 4]])");
  describe("transpose", "x, permutation", DTypeClass::any, R"(
Permute the axes of a tensor.

Axis i of the result is axis permutation[i] of x.

Args:
    permutation: Each axis of x once, in the new order.
Returns: A tensor with the dtype of x and permuted axes.
Raises:
    ShapeError: If permutation is not a permutation of the axes of x.
Gradient: the incoming gradient, with the inverse permutation.
Source: MPSGraph transposeTensor:permutation:name:.
>>> g.run({}, g.transpose(g.constant([[1, 2], [3, 4]]), (1, 0))).tolist()
[[1, 3], [2, 4]])");
  describe("expand_dims", "x, axes: required", DTypeClass::any, R"(
Insert axes of size 1.

Args:
    axes: Positions of the new axes in the result: an int, a sequence of ints, or an integer tensor of rank 1.
Returns: A tensor with the dtype and the elements of x.
Raises:
    ShapeError: If an axis is out of range or repeated.
Gradient: the incoming gradient, without the new axes.
Source: MPSGraph expandDimsOfTensor:axis:name:, …axes:name: and …axesTensor:name:.
>>> g.expand_dims(g.constant(0.0, (2, 3)), (0, -1)).shape
(1, 2, 3, 1))");
  describe("flatten2d", "x, axis", DTypeClass::any, R"(
Reshape a tensor into a matrix: the axes before `axis` become the rows, the others the columns.

Args:
    axis: First axis of the columns: an int, where negative values count from the end, or an integer tensor.
Returns: A tensor of rank 2 with the dtype and the elements of x.
Raises:
    ShapeError: If axis is out of range.
Gradient: the incoming gradient, reshaped to the shape of x.
Source: MPSGraph flatten2DTensor:axis:name: and …axisTensor:name:.
>>> g.flatten2d(g.constant(0.0, (2, 3, 4))).shape
(2, 12))");
  describe("broadcast_to", "x, shape: shape", DTypeClass::any, R"(
Broadcast a tensor to a shape.

Args:
    shape: Shape that x broadcasts to as in numpy, as ints or as an integer tensor of rank 1.
Returns: A tensor of the given shape, with the dtype of x.
Raises:
    ShapeError: If x does not broadcast to shape.
Gradient: the incoming gradient, summed over the axes that were broadcast.
Source: MPSGraph broadcastTensor:toShape:name: and broadcastTensor:toShapeTensor:name:.
>>> g.run({}, g.broadcast_to(g.constant([1, 2]), (2, 2))).tolist()
[[1, 2], [1, 2]])");
  describe("shape_of", "x", DTypeClass::any, R"(
Return the shape of a tensor as a tensor, even if it is known only when the graph runs.

Returns: An int32 tensor of shape (rank of x,).
Gradient: none.
Source: MPSGraph shapeOfTensor:name:.
>>> g.run({}, g.shape_of(g.constant(0.0, (2, 3)))).tolist()
[2, 3])");
  describe("cast", "x, dtype", DTypeClass::any, R"(
Convert a tensor to another dtype.

Floating-point numbers are truncated toward zero to integers and rounded to nearest even to narrower
floating-point types; conversion to bool yields True for nonzero numbers.

Args:
    dtype: dtype of the result.
Returns: A tensor with the shape of x and the given dtype.
Raises:
    DTypeError: If dtype is not supported.
Gradient: the incoming gradient, cast back, between floating-point dtypes; otherwise none.
Source: MPSGraph castTensor:toType:name:.
>>> g.run({}, g.cast(g.constant([1.7, -1.7]), mg.int32)).tolist()
[1, -1])");
});

}  // namespace mpsgraph::ops
