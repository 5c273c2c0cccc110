// Operation family shape, third part: pad and tile, with their gradients.
//
// Both operations repeat elements of their input (except for constant padding), so they are linear. Their gradient sums
// the incoming gradients of all copies of an element, with their signs. The derivative of this gradient operation is
// padding (with zeros) or tiling again.
#include <algorithm>

#include "core/exact_numbers.h"
#include "core/ops/primitive.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

std::optional<PadMode> pad_mode_from_name(std::string_view name) {
  if (name == "constant" || name == "zero") return PadMode::constant;
  if (name == "reflect") return PadMode::reflect;
  if (name == "symmetric") return PadMode::symmetric;
  if (name == "clamp_to_edge") return PadMode::clamp_to_edge;
  if (name == "periodic") return PadMode::periodic;
  if (name == "anti_periodic") return PadMode::anti_periodic;
  return std::nullopt;
}

PadSource pad_source(PadMode mode, int64_t position, int64_t size) {
  if (position >= 0 && position < size) return {position};
  const auto wrap = [](int64_t i, int64_t period) { return (i % period + period) % period; };
  switch (mode) {
    case PadMode::constant: return {};
    case PadMode::clamp_to_edge: return {position < 0 ? 0 : size - 1};
    case PadMode::periodic: return {wrap(position, size)};
    case PadMode::anti_periodic: return {wrap(position, size), wrap(position, 2 * size) >= size};
    case PadMode::symmetric: {  // c b a | a b c | c b a
      const int64_t i = wrap(position, 2 * size);
      return {i < size ? i : 2 * size - 1 - i};
    }
    case PadMode::reflect: {  // c b | a b c | b a
      if (size == 1) return {0};
      const int64_t i = wrap(position, 2 * size - 2);
      return {i < size ? i : 2 * size - 2 - i};
    }
  }
  return {};
}

namespace {

// Limit on dimensions and paddings, so that doubling or adding them cannot overflow.
constexpr int64_t limit = int64_t{1} << 60;

// The shape after padding a tensor with dimensions `dims` by the attributes left and right.
Shape padded(const InferContext& context, Dims dims) {
  const Ints& left = context.attributes.integers("left");
  const Ints& right = context.attributes.integers("right");
  const std::string& name = context.attributes.string("mode");
  const std::optional<PadMode> mode = pad_mode_from_name(name);
  if (!mode)
    context.graph_error(cat("mode must be constant, reflect, symmetric, clamp_to_edge, zero, periodic or ",
                            "anti_periodic, got '", name, "'"));
  if (mode == PadMode::anti_periodic && !is_signed(context.dtype(0)))
    context.dtype_error(cat("mode anti_periodic requires a signed dtype, got ", context.dtype(0), "; cast it first"));
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const int64_t before = left[axis], after = right[axis];
    if (before < 0 || after < 0 || before > limit || after > limit)
      context.shape_error(cat("padding must be between 0 and 2^60, got ", before, " and ", after, " for axis ", axis,
                              "; use slice to crop"));
    if (dims[axis] > limit)
      context.shape_error(cat("axes must not be longer than 2^60, got axis ", axis, " of ", to_string(dims)));
    if (dims[axis] == 0 && mode != PadMode::constant && (before > 0 || after > 0))
      context.shape_error(cat("an empty axis can only be padded with mode constant, because mode '", name,
                              "' has nothing to repeat, got axis ", axis, " of ", to_string(dims)));
    if (dims[axis] >= 0) dims[axis] += before + after;
  }
  return Shape(dims);
}

// Checks that the attributes left and right have one entry per axis of the operand. Returns the operand's dimensions.
Dims pad_dims(const InferContext& context, const Shape& shape) {
  const Ints& left = context.attributes.integers("left");
  const Ints& right = context.attributes.integers("right");
  if (left.size() != right.size() || left.size() > static_cast<size_t>(max_rank) ||
      (shape.ranked() && left.size() != shape.dims().size()))
    context.shape_error(cat("left and right must have one entry for each axis of ", shape, ", got ", to_string(left),
                            " and ", to_string(right)));
  return shape.ranked() ? shape.dims() : Dims(left.size(), -1);
}

std::vector<TensorType> infer_pad(const InferContext& context) {
  if (context.attributes.string("mode") == "constant") require_element(context, "value", context.dtype(0));
  return {{context.dtype(0), padded(context, pad_dims(context, context.shape(0)))}};
}

void d_pad(GradientContext& g) {
  Attributes attributes = g.attributes();
  attributes.erase("value");
  g.set(0, g.graph().add("pad_gradient", {g.incoming(), Builder(g.graph()).shape_of(g.input(0))}, attributes));
}

// Used by gradients of pad and tile: checks that the incoming gradient has the shape `forward` that pad or tile returns
// for an input of shape `source`. Returns `source`.
Shape forward_input(const InferContext& context, const Shape& source, const Shape& forward) {
  if (!compatible(forward, context.shape(0)))
    context.shape_error(cat("incoming gradient must have the result shape ", forward, " for source ", source, ", got ",
                            context.shape(0)));
  return source;
}

// Rejects bool, because the gradient sums the copies of an element.
void require_sums(const InferContext& context) {
  if (context.dtype(0) == DType::boolean)
    context.dtype_error("incoming gradient must be numeric, got bool: cast it to float32 first");
}

std::vector<TensorType> infer_pad_gradient(const InferContext& context) {
  require_sums(context);
  const Dims dims = pad_dims(context, shape_operand(context, 1));
  return {{context.dtype(0), forward_input(context, Shape(dims), padded(context, dims))}};
}

void d_pad_gradient(GradientContext& g) {
  if (g.needs(0)) g.set(0, g.graph().add("pad", {g.incoming()}, g.attributes()));
}

Shape tiled(const InferContext& context, Dims dims) {
  const Ints& multiplier = context.attributes.integers("multiplier");
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (multiplier[axis] < 0)
      context.shape_error(cat("multiplier must not have negative entries, got ", to_string(multiplier)));
    int64_t size = -1;
    if (dims[axis] >= 0 && (__builtin_mul_overflow(dims[axis], multiplier[axis], &size) || size > limit))
      context.shape_error(cat("the result's axes must not be longer than 2^60, got axis ", axis, " of ",
                              to_string(dims), " times ", to_string(multiplier)));
    dims[axis] = multiplier[axis] == 0 ? 0 : size;
  }
  return Shape(dims);
}

std::vector<TensorType> infer_tile(const InferContext& context) {
  return {{context.dtype(0), tiled(context, dims_for(context, 0, "multiplier"))}};
}

void d_tile(GradientContext& g) {
  Tensor* shape = Builder(g.graph()).shape_of(g.input(0));
  g.set(0, g.graph().add("tile_gradient", {g.incoming(), shape}, g.attributes()));
}

std::vector<TensorType> infer_tile_gradient(const InferContext& context) {
  require_sums(context);
  dims_for(context, 0, "multiplier");  // checks that the ranks match
  const size_t rank = context.attributes.integers("multiplier").size();
  const Shape source = stated_shape(context, 1, Dims(rank, -1));
  return {{context.dtype(0), forward_input(context, source, tiled(context, source.dims()))}};
}

void d_tile_gradient(GradientContext& g) {
  if (g.needs(0)) g.set(0, g.graph().add("tile", {g.incoming()}, g.attributes()));
}

// Decomposes the gradient of tile axis by axis. For an axis of length n that was tiled m times, (before, m * n, after)
// is reshaped to (before, m, n, after) and summed over m.
std::vector<Tensor*> decompose_tile_gradient(Builder& builder, const std::vector<Tensor*>& inputs,
                                             const Attributes& attributes) {
  const std::vector<std::unique_ptr<Block>> no_blocks;
  const InferContext context(definition_of("tile_gradient"), inputs, attributes, no_blocks, "");
  const Shape source = shape_operand(context, 1);
  if (!source.known() || !context.shape(0).known())
    throw UnsupportedError(
        cat("[tile_gradient] shapes must be static to compile this gradient, got ", context.shape(0), " to ", source));
  const Ints& multiplier = attributes.integers("multiplier");
  Tensor* sum = inputs[0];
  Dims dims = context.shape(0).dims();
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (multiplier[axis] == 1) continue;
    const int64_t before = element_count(Dims(dims.begin(), dims.begin() + axis));
    const int64_t after = element_count(Dims(dims.begin() + axis + 1, dims.end()));
    dims[axis] = source[static_cast<int>(axis)];
    sum = builder.sum(builder.reshape(sum, Ints{before, multiplier[axis], dims[axis], after}), {1});
  }
  return {sum == inputs[0] ? sum : builder.reshape(sum, source.dims())};
}

}  // namespace

const Family shape_padding_family("shape", [] {
  const std::vector<AttributeSpec> amounts{required("left", AttributeKind::integers),
                                           required("right", AttributeKind::integers),
                                           optional("mode", std::string("constant"))};
  std::vector<AttributeSpec> pad = amounts;
  pad.push_back(optional("value", 0.0));
  define(primitive("pad", 1, pad, infer_pad, d_pad));
  define(primitive("pad_gradient", 2, amounts, infer_pad_gradient, d_pad_gradient));

  const std::vector<AttributeSpec> multiplier{required("multiplier", AttributeKind::integers)};
  define(primitive("tile", 1, multiplier, infer_tile, d_tile));
  OperationDefinition tile_gradient = primitive("tile_gradient", 2, multiplier, infer_tile_gradient, d_tile_gradient);
  tile_gradient.decompose = decompose_tile_gradient;
  define(std::move(tile_gradient));

  describe("tile", "x, multiplier", DTypeClass::any, R"(
Repeat a tensor along its axes.

Args:
    multiplier: Number of repetitions along each axis.
Returns: A tensor with the dtype of x, whose sizes are those of x times multiplier.
Raises:
    ShapeError: If multiplier is negative or does not have one entry for each axis.
Gradient: computed by tile_gradient.
Source: MPSGraph tileTensor:withMultiplier:name:.
>>> g.run({}, g.tile(g.constant([1, 2]), [2])).tolist()
[1, 2, 1, 2])");
  describe("tile_gradient", "incoming, input_shape: shape, multiplier", DTypeClass::any, R"(
Compute the gradient of tile with respect to its source: the sum of the tiles.

Args:
    incoming: Gradient with respect to the result of tile, with the shape of that result.
    input_shape: Shape of the source, as ints or as an integer tensor of rank 1.
Returns: A tensor of shape input_shape, with the dtype of incoming.
Raises:
    ShapeError: If the shapes are inconsistent with each other.
Gradient: computed by tile.
Source: MPSGraph tileGradientWithIncomingGradientTensor:sourceTensor:withMultiplier:name:.
>>> g.run({}, g.tile_gradient(g.constant([1.0, 2.0, 3.0, 4.0]), (2,), [2])).tolist()
[4.0, 6.0])");
});

}  // namespace mpsgraph::ops
