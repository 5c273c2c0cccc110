// Operation family shape, fourth part: moving blocks of space into another axis and back, reversal, coordinates, and
// bit casts.
//
// space_to_batch splits each spatial axis into blocks and moves the positions within a block to the batch axis. By
// default the positions come before the batch index; with use_pixel_shuffle_order they come after it. For x of shape
// (n, h, w) and blocks of (p, q), the two orders are
//
//   result[(i * q + j) * n + b, y, x] = x[b, y * p + i, x * q + j]           and result[(b * p + i) * q + j, y, x]
//
// The two-dimensional forms are the same with depth in place of batch. All of these operations are decomposed into a
// reshape, a transpose, and another reshape.
#include <algorithm>

#include "core/ops/indices.h"
#include "core/ops/primitive.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

namespace {

struct Blocks {
  std::vector<int> spatial;
  int batch;
  Ints sizes;
  bool pixel_shuffle;
  int64_t volume = 1;  // number of elements per block
};

// The product of a dimension and a factor; -1 if the dimension is unknown. Throws an error if the product overflows.
int64_t times(const InferContext& context, int64_t dim, int64_t factor) {
  int64_t result = -1;
  if (dim >= 0 && __builtin_mul_overflow(dim, factor, &result))
    context.shape_error(cat("an axis would become too long: ", dim, " * ", factor, " elements overflow int64"));
  return result;
}

Blocks checked_blocks(const InferContext& context, const Ints& spatial, int64_t batch, Ints sizes, int rank) {
  Ints axes = spatial;
  axes.push_back(batch);
  std::vector<int> all = distinct_axes(context, axes, rank);
  Blocks blocks{{all.begin(), all.end() - 1},
                all.back(),
                std::move(sizes),
                context.attributes.boolean("use_pixel_shuffle_order")};
  if (blocks.sizes.size() != blocks.spatial.size())
    context.shape_error(cat("block_dimensions must have one entry for each of the spatial axes ", to_string(spatial),
                            ", got ", to_string(blocks.sizes)));
  for (int64_t size : blocks.sizes) {
    if (size < 1 || __builtin_mul_overflow(blocks.volume, size, &blocks.volume) || blocks.volume > int64_t{1} << 31)
      context.shape_error(
          cat("block_dimensions must be at least 1, and their product at most 2^31, got ", to_string(blocks.sizes)));
  }
  return blocks;
}

Blocks blocks_of(const InferContext& context, int rank) {
  const Attributes& a = context.attributes;
  if (a.has("spatial_axes"))
    return checked_blocks(context, a.integers("spatial_axes"), a.integer("batch_axis"), a.integers("block_dimensions"),
                          rank);
  const int64_t size = a.integer("block_size");
  return checked_blocks(context, {a.integer("height_axis"), a.integer("width_axis")}, a.integer("depth_axis"),
                        {size, size}, rank);
}

std::vector<TensorType> infer_to_blocks(const InferContext& context) {
  const Shape& source = context.shape(0);
  if (!source.ranked()) return {{context.dtype(0), {}}};
  const Blocks blocks = blocks_of(context, source.rank());
  Dims dims = source.dims();
  for (size_t i = 0; i < blocks.spatial.size(); ++i) {
    int64_t& size = dims[blocks.spatial[i]];
    if (size >= 0 && size % blocks.sizes[i] != 0)
      context.shape_error(cat("axis ", blocks.spatial[i], " of source ", source,
                              " must be divisible by the block size ", blocks.sizes[i], "; pad it first"));
    if (size >= 0) size /= blocks.sizes[i];
  }
  dims[blocks.batch] = times(context, dims[blocks.batch], blocks.volume);
  return {{context.dtype(0), Shape(dims)}};
}

std::vector<TensorType> infer_from_blocks(const InferContext& context) {
  const Shape& source = context.shape(0);
  if (!source.ranked()) return {{context.dtype(0), {}}};
  const Blocks blocks = blocks_of(context, source.rank());
  Dims dims = source.dims();
  int64_t& batch = dims[blocks.batch];
  if (batch >= 0 && batch % blocks.volume != 0)
    context.shape_error(cat("axis ", blocks.batch, " of source ", source,
                            " must be divisible by the number of elements of a block, ", blocks.volume));
  if (batch >= 0) batch /= blocks.volume;
  for (size_t i = 0; i < blocks.spatial.size(); ++i) {
    int64_t& size = dims[blocks.spatial[i]];
    size = times(context, size, blocks.sizes[i]);
  }
  return {{context.dtype(0), Shape(dims)}};
}

// Inference for block sizes that are not yet known: the result has the source's rank and unknown dimensions.
std::vector<TensorType> infer_blocks_unvalued(const InferContext& context) {
  const Shape& source = context.shape(0);
  return {{context.dtype(0), source.ranked() ? Shape(Dims(source.dims().size(), -1)) : Shape()}};
}

// The shape of a tensor in which each spatial axis is split into two axes (block, position within the block), and the
// permutation that moves the position axes next to the batch axis.
struct BlockView {
  Dims dims;
  Ints to_batch;
  BlockView(const Blocks& blocks, const Dims& space) {
    Ints places(blocks.spatial.size()), axes;
    for (int axis = 0; axis < static_cast<int>(space.size()); ++axis) {
      const auto found = std::find(blocks.spatial.begin(), blocks.spatial.end(), axis);
      axes.push_back(static_cast<int64_t>(dims.size()));
      dims.push_back(space[axis]);
      if (found == blocks.spatial.end()) continue;
      const auto i = static_cast<size_t>(found - blocks.spatial.begin());
      places[i] = static_cast<int64_t>(dims.size());
      dims.back() /= blocks.sizes[i];
      dims.push_back(blocks.sizes[i]);
    }
    for (int axis = 0; axis < static_cast<int>(space.size()); ++axis) {
      const bool batch = axis == blocks.batch;
      if (batch && !blocks.pixel_shuffle) to_batch.insert(to_batch.end(), places.begin(), places.end());
      to_batch.push_back(axes[axis]);
      if (batch && blocks.pixel_shuffle) to_batch.insert(to_batch.end(), places.begin(), places.end());
    }
  }
};

template <bool to_batch>
std::vector<Tensor*> decompose_blocks(Builder& builder, const std::vector<Tensor*>& inputs,
                                      const Attributes& attributes) {
  const std::vector<std::unique_ptr<Block>> no_blocks;
  const InferContext context(definition_of(to_batch ? Kind("space_to_batch") : "batch_to_space"), inputs, attributes,
                             no_blocks, "");
  const Shape source = context.shape(0);
  if (!source.known())
    context.shape_error(cat("the source's shape must be static to compile this operation, got ", source));
  const Shape result = (to_batch ? infer_to_blocks : infer_from_blocks)(context)[0].shape;
  const BlockView view(blocks_of(context, source.rank()), (to_batch ? source : result).dims());
  const auto rank = static_cast<int64_t>(view.dims.size());
  Ints from_batch(view.dims.size());
  Dims shuffled(view.dims.size());
  for (int64_t i = 0; i < rank; ++i) {
    from_batch[view.to_batch[i]] = i;
    shuffled[i] = view.dims[view.to_batch[i]];
  }
  Tensor* seen = builder.reshape(inputs[0], to_batch ? view.dims : shuffled);
  return {builder.reshape(builder.transpose(seen, to_batch ? view.to_batch : from_batch), result.dims())};
}

// Derivative of an operation that only moves elements: the inverse operation moves the gradients back.
Gradient inverse(Kind kind) {
  return [kind](GradientContext& g) { g.set(0, g.add_alike(kind, {g.incoming()}, g.attributes())); };
}

std::vector<TensorType> infer_reverse(const InferContext& context) {
  if (context.shape(0).ranked()) distinct_axes(context, context.attributes.integers("axes"), context.shape(0).rank());
  return {context.type(0)};
}

std::vector<TensorType> infer_reverse_unvalued(const InferContext& context) { return {context.type(0)}; }

std::vector<Tensor*> decompose_reverse(Builder& builder, const std::vector<Tensor*>& inputs,
                                       const Attributes& attributes) {
  const Shape& source = inputs[0]->shape();
  if (!source.ranked())
    throw UnsupportedError(
        "[reverse] the source must have a known rank to compile this operation, got an unranked tensor");
  const int rank = source.rank();
  const int64_t every = (int64_t{1} << rank) - 1;
  Ints nothing(rank, 0), strides(rank, attributes.boolean("all_axes") ? -1 : 1);
  for (int64_t axis : attributes.integers("axes")) strides[wrap_axis(axis, rank)] = -1;
  return {builder.graph().add(
      "slice", inputs,
      {{"starts", nothing}, {"ends", nothing}, {"strides", strides}, {"start_mask", every}, {"end_mask", every}})};
}

// Inference of reinterpret_cast. If the dtypes have different sizes, the length of the last axis changes so that the
// number of bytes stays the same.
std::vector<TensorType> infer_reinterpret_cast(const InferContext& context) {
  const DType to = context.attributes.dtype("dtype");
  const auto from_bytes = static_cast<int64_t>(size_of(context.dtype(0))), to_bytes = static_cast<int64_t>(size_of(to));
  const Shape& source = context.shape(0);
  if (!source.ranked() || from_bytes == to_bytes) return {{to, source}};
  if (source.rank() == 0)
    context.shape_error(
        cat("a scalar can only be reinterpreted as a dtype of the same size, got ", context.dtype(0), " to ", to));
  Dims dims = source.dims();
  if (dims.back() >= 0 && dims.back() * from_bytes % to_bytes != 0)
    context.shape_error(cat("the last axis of source ", source, " must hold a whole number of ", to, " elements"));
  if (dims.back() >= 0) dims.back() = dims.back() * from_bytes / to_bytes;
  return {{to, Shape(dims)}};
}

void d_reinterpret_cast(GradientContext& g) {
  if (g.input(0)->dtype() != g.output()->dtype())
    throw UnsupportedError(cat("[reinterpret_cast] reinterpreting ", g.input(0)->dtype(), " as ", g.output()->dtype(),
                               " is not differentiable: use cast to convert values", g.operation.where()));
  g.set(0, g.incoming());
}

std::vector<TensorType> infer_coordinate(const InferContext& context) {
  const Shape shape = shape_operand(context, 0);
  if (shape.ranked()) require_countable(context, shape, context.axis(context.attributes.integer("axis"), shape.rank()));
  return {{DType::int32, shape}};
}

std::vector<TensorType> infer_coordinate_unvalued(const InferContext& context) {
  return {{DType::int32, shape_operand(context, 0)}};
}

}  // namespace

const Family shape_blocks_family("shape", [] {
  const AttributeSpec order = optional("use_pixel_shuffle_order", false);
  const std::vector<AttributeSpec> of_space{optional("spatial_axes", Ints{}), optional("batch_axis", int64_t{0}),
                                            optional("block_dimensions", Ints{}), order};
  const std::vector<AttributeSpec> of_plane{optional("width_axis", int64_t{0}), optional("height_axis", int64_t{0}),
                                            optional("depth_axis", int64_t{0}),
                                            required("block_size", AttributeKind::integer), order};
  const auto blocks = [](Kind name, Kind back, std::vector<AttributeSpec> attributes, Infer infer,
                         Decompose decompose) {
    OperationDefinition d = primitive(name, 1, attributes, std::move(infer), inverse(back));
    for (size_t i = 0; i < 3; ++i) d.tensor_attributes.push_back(attributes[i].name);
    d.infer_unvalued = infer_blocks_unvalued;
    d.decompose = std::move(decompose);
    define(std::move(d));
  };
  blocks("space_to_batch", "batch_to_space", of_space, infer_to_blocks, decompose_blocks<true>);
  blocks("batch_to_space", "space_to_batch", of_space, infer_from_blocks, decompose_blocks<false>);
  blocks("space_to_depth2d", "depth_to_space2d", of_plane, infer_to_blocks, decompose_blocks<true>);
  blocks("depth_to_space2d", "space_to_depth2d", of_plane, infer_from_blocks, decompose_blocks<false>);

  OperationDefinition reverse = primitive("reverse", 1, {optional("axes", Ints{}), optional("all_axes", false)},
                                          infer_reverse, inverse("reverse"));
  reverse.tensor_attributes = {"axes"};
  reverse.infer_unvalued = infer_reverse_unvalued;
  reverse.decompose = decompose_reverse;
  define(std::move(reverse));

  define(primitive("reinterpret_cast", 1, {required("dtype", AttributeKind::dtype)}, infer_reinterpret_cast,
                   d_reinterpret_cast));

  OperationDefinition coordinate =
      primitive("coordinate_along_axis", 1, {optional("axis", int64_t{0})}, infer_coordinate, nullptr);
  coordinate.tensor_attributes = {"axis"};
  coordinate.infer_unvalued = infer_coordinate_unvalued;
  coordinate.gradient_is_zero = true;
  define(std::move(coordinate));

  describe("space_to_batch",
           "x, spatial_axes: required, batch_axis: required, block_dimensions: required, use_pixel_shuffle_order",
           DTypeClass::any, R"(
Move blocks of any number of axes to another axis.

For two axes and blocks of (p, q), result[(i * q + j) * n + b, y, x] = x[b, y * p + i, x * q + j]. Here, n is
the size of the batch axis of x. With use_pixel_shuffle_order, the batch index is (b * p + i) * q + j.

Args:
    spatial_axes: Axes to divide into blocks, as ints or as an integer tensor of rank 1.
    batch_axis: Axis to move the blocks to: an int, where negative values count from the end, or an integer
        tensor.
    block_dimensions: Size of the block along each spatial axis, which must divide the axis, as ints or as an
        integer tensor.
    use_pixel_shuffle_order: Whether the position in the block varies faster than the batch index of x.
Returns: A tensor with the dtype of x.
Raises:
    ShapeError: If an axis is out of range or repeated, or an axis is not divisible by its block.
    DTypeError: If an axis or block tensor is not integer.
Gradient: batch_to_space of the incoming gradient.
Source: MPSGraph spaceToBatchTensor:spatialAxes:batchAxis:blockDimensions:usePixelShuffleOrder:name: and its
variant with spatialAxesTensor:batchAxisTensor:blockDimensionsTensor:.
>>> g.run({}, g.space_to_batch(g.constant([[1, 2, 3, 4]]), [1], 0, [2])).tolist()
[[1, 3], [2, 4]])");
  describe("batch_to_space",
           "x, spatial_axes: required, batch_axis: required, block_dimensions: required, use_pixel_shuffle_order",
           DTypeClass::any, R"(
Move one axis to blocks of other axes, the inverse of space_to_batch.

For two axes and blocks of (p, q), result[b, y * p + i, x * q + j] = x[(i * q + j) * n + b, y, x]. Here, n is
the size of the batch axis of the result. With use_pixel_shuffle_order, the batch index is (b * p + i) * q + j.

Args:
    x: Tensor of any dtype, whose batch axis is divisible by the number of elements of a block.
    spatial_axes: Axes to enlarge by blocks, as ints or as an integer tensor of rank 1.
    batch_axis: Axis to take the blocks from: an int, where negative values count from the end, or an integer
        tensor.
    block_dimensions: Size of the block along each spatial axis, as ints or as an integer tensor.
    use_pixel_shuffle_order: Whether the position in the block varies faster than the batch index of the result.
Returns: A tensor with the dtype of x.
Raises:
    ShapeError: If an axis is out of range or repeated, or the batch axis is not divisible by the size of a
        block.
    DTypeError: If an axis or block tensor is not integer.
Gradient: space_to_batch of the incoming gradient.
Source: MPSGraph batchToSpaceTensor:spatialAxes:batchAxis:blockDimensions:usePixelShuffleOrder:name: and its
variant with spatialAxesTensor:batchAxisTensor:blockDimensionsTensor:.
>>> g.run({}, g.batch_to_space(g.constant([[1, 3], [2, 4]]), [1], 0, [2])).tolist()
[[1, 2, 3, 4]])");
  describe("space_to_depth2d",
           "x, width_axis: required, height_axis: required, depth_axis: required, block_size, use_pixel_shuffle_order",
           DTypeClass::any, R"(
Move square blocks of height and width to the depth axis.

result[y, x, (i * block_size + j) * depth + d] = x[y * block_size + i, x * block_size + j, d]. Here, depth is
the size of the depth axis of x. With use_pixel_shuffle_order, the depth index is (d * block_size + i) *
block_size + j.

Args:
    x: Tensor of any dtype, whose height and width are divisible by block_size.
    width_axis: Axis of the width: an int, where negative values count from the end, or an integer tensor.
    height_axis: Axis of the height: an int, where negative values count from the end, or an integer tensor.
    depth_axis: Axis of the depth: an int, where negative values count from the end, or an integer tensor.
    block_size: Height and width of a block.
    use_pixel_shuffle_order: Whether the position in the block varies faster than the depth of x.
Returns: A tensor with the dtype of x.
Raises:
    ShapeError: If an axis is out of range or repeated, or the height or width is not divisible by block_size.
    DTypeError: If an axis tensor is not integer.
Gradient: depth_to_space2d of the incoming gradient.
Source: MPSGraph spaceToDepth2DTensor:widthAxis:heightAxis:depthAxis:blockSize:usePixelShuffleOrder:name: and
its variant with widthAxisTensor:heightAxisTensor:depthAxisTensor:.
>>> x = g.constant([[[1], [2]], [[3], [4]]])
>>> g.run({}, g.space_to_depth2d(x, width_axis=1, height_axis=0, depth_axis=2, block_size=2)).tolist()
[[[1, 2, 3, 4]]])");
  describe("depth_to_space2d",
           "x, width_axis: required, height_axis: required, depth_axis: required, block_size, use_pixel_shuffle_order",
           DTypeClass::any, R"(
Move the depth axis to square blocks of height and width, the inverse of space_to_depth2d.

result[y * block_size + i, x * block_size + j, d] = x[y, x, (i * block_size + j) * depth + d]. Here, depth is
the size of the depth axis of the result. With use_pixel_shuffle_order, the depth index is (d * block_size + i)
* block_size + j, as in PyTorch's pixel_shuffle.

Args:
    x: Tensor of any dtype, whose depth is divisible by the square of block_size.
    width_axis: Axis of the width: an int, where negative values count from the end, or an integer tensor.
    height_axis: Axis of the height: an int, where negative values count from the end, or an integer tensor.
    depth_axis: Axis of the depth: an int, where negative values count from the end, or an integer tensor.
    block_size: Height and width of a block.
    use_pixel_shuffle_order: Whether the position in the block varies faster than the depth of the result.
Returns: A tensor with the dtype of x.
Raises:
    ShapeError: If an axis is out of range or repeated, or the depth is not divisible by the square of
        block_size.
    DTypeError: If an axis tensor is not integer.
Gradient: space_to_depth2d of the incoming gradient.
Source: MPSGraph depthToSpace2DTensor:widthAxis:heightAxis:depthAxis:blockSize:usePixelShuffleOrder:name: and
its variant with widthAxisTensor:heightAxisTensor:depthAxisTensor:.
>>> x = g.constant([[[1, 2, 3, 4]]])
>>> g.run({}, g.depth_to_space2d(x, width_axis=1, height_axis=0, depth_axis=2, block_size=2)).tolist()
[[[1], [2]], [[3], [4]]])");
  describe("reinterpret_cast", "x, dtype", DTypeClass::any, R"(
Reinterpret the bytes of a tensor as another dtype.

The size of the last axis changes with the size of the elements.

Args:
    dtype: dtype of the result.
Returns: A tensor of the given dtype that consists of the same bytes.
Raises:
    ShapeError: If the last axis does not hold a whole number of elements.
    DTypeError: If dtype is not supported.
Gradient: none (UnsupportedError), unless the dtype is that of x.
Source: MPSGraph reinterpretCastTensor:toType:name:.
>>> g.run({}, g.reinterpret_cast(g.constant([1.0]), mg.int32)).tolist()
[1065353216])");
  describe("coordinate_along_axis", "axis: required, shape: shape", DTypeClass::any, R"(
Return the index of each element along an axis.

result[i_0, i_1, ...] = i_axis.

Args:
    axis: Axis of the index: an int, where negative values count from the end, or an integer tensor of one
        element.
    shape: Shape of the result, as ints or as an integer tensor of rank 1.
Returns: An int32 tensor of the given shape.
Raises:
    ShapeError: If axis is out of range, or shape has negative sizes.
    DTypeError: If an axis or shape tensor is not integer.
Gradient: none, because the result does not depend on a differentiable operand.
Source: MPSGraph coordinateAlongAxis:withShape:name:, …withShapeTensor:name:, coordinateAlongAxisTensor:….
>>> g.run({}, g.coordinate_along_axis(0, (3, 2))).tolist()
[[0, 0], [1, 1], [2, 2]])");
});

}  // namespace mpsgraph::ops
