// Family shape, fourth part: blocks of space moved into another axis and back, reversal, coordinates, bits as they are.
//
// space_to_batch cuts each spatial axis into blocks and lays the places within a block along the batch axis, before
// what was there (block-major), or behind it with use_pixel_shuffle_order: with x of (n, h, w), blocks of (p, q),
//
//   result[(i * q + j) * n + b, y, x] = x[b, y * p + i, x * q + j]           or result[(b * p + i) * q + j, y, x]
//
// The two-dimensional forms are these with depth for batch. All moves are reshapes around one transposition.
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
  int64_t volume = 1;  // elements of a block
};

// -1 times anything is not known.
int64_t times(const InferContext& context, int64_t dim, int64_t factor) {
  int64_t result = -1;
  if (dim >= 0 && __builtin_mul_overflow(dim, factor, &result))
    context.shape_error(cat("an axis of ", dim, " elements times ", factor, " is too long"));
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
    context.shape_error(cat("block_dimensions ", to_string(blocks.sizes),
                            " need one entry for each of the spatial axes ", to_string(spatial)));
  for (int64_t size : blocks.sizes) {
    if (size < 1 || __builtin_mul_overflow(blocks.volume, size, &blocks.volume) || blocks.volume > int64_t{1} << 31)
      context.shape_error(cat("block dimensions must be from 1 to 2^31 together, came ", to_string(blocks.sizes)));
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
      context.shape_error(cat("axis ", blocks.spatial[i], " of source ", source, " is not divisible into blocks of ",
                              blocks.sizes[i], "; pad it first"));
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
    context.shape_error(cat("axis ", blocks.batch, " of source ", source, " is not divisible by the ", blocks.volume,
                            " elements of a block"));
  if (batch >= 0) batch /= blocks.volume;
  for (size_t i = 0; i < blocks.spatial.size(); ++i) {
    int64_t& size = dims[blocks.spatial[i]];
    size = times(context, size, blocks.sizes[i]);
  }
  return {{context.dtype(0), Shape(dims)}};
}

// The rank stays.
std::vector<TensorType> infer_blocks_unvalued(const InferContext& context) {
  const Shape& source = context.shape(0);
  return {{context.dtype(0), source.ranked() ? Shape(Dims(source.dims().size(), -1)) : Shape()}};
}

// The axes of the tensor in blocks: each spatial axis as (blocks, place in the block), the batch as it is; and the
// permutation that moves the places to the batch.
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
  const InferContext context(definition_of(to_batch ? "space_to_batch" : "batch_to_space"), inputs, attributes,
                             no_blocks, "");
  const Shape source = context.shape(0);
  if (!source.known()) context.shape_error(cat("the shape must be known here, came ", source));
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

// One moves there, the other back.
Gradient inverse(std::string_view kind) {
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
  if (!source.ranked()) throw UnsupportedError("[reverse] the rank must be known here");
  const int rank = source.rank();
  const int64_t every = (int64_t{1} << rank) - 1;
  Ints nothing(rank, 0), strides(rank, attributes.boolean("all_axes") ? -1 : 1);
  for (int64_t axis : attributes.integers("axes")) strides[wrap_axis(axis, rank)] = -1;
  return {builder.graph().add(
      "slice", inputs,
      {{"starts", nothing}, {"ends", nothing}, {"strides", strides}, {"start_mask", every}, {"end_mask", every}})};
}

// An element's bytes are the last axis of what it is made of.
std::vector<TensorType> infer_reinterpret_cast(const InferContext& context) {
  const DType to = context.attributes.dtype("dtype");
  const auto from_bytes = static_cast<int64_t>(size_of(context.dtype(0))), to_bytes = static_cast<int64_t>(size_of(to));
  const Shape& source = context.shape(0);
  if (!source.ranked() || from_bytes == to_bytes) return {{to, source}};
  if (source.rank() == 0)
    context.shape_error(cat("a scalar of ", context.dtype(0), " cannot become ", to, ", which is of another size"));
  Dims dims = source.dims();
  if (dims.back() >= 0 && dims.back() * from_bytes % to_bytes != 0)
    context.shape_error(cat("the last axis of ", source, " does not hold a whole number of ", to));
  if (dims.back() >= 0) dims.back() = dims.back() * from_bytes / to_bytes;
  return {{to, Shape(dims)}};
}

void d_reinterpret_cast(GradientContext& g) {
  if (g.input(0)->dtype() != g.output()->dtype())
    throw UnsupportedError(cat("[reinterpret_cast] the bits of ", g.input(0)->dtype(), " seen as ", g.output()->dtype(),
                               " have no derivative", g.operation.where()));
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
  const auto blocks = [](std::string_view name, std::string_view back, std::vector<AttributeSpec> attributes,
                         Infer infer, Decompose decompose) {
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
});

}  // namespace mpsgraph::ops
