// Operation family shape, second part: slice and its update, concat, split, and stack.
//
// Slices follow TensorFlow's strided slices, and Python's where the two agree: negative starts and ends count from the
// end, out-of-range starts and ends are clamped, and a mask bit selects the beginning or the end of its axis instead of
// the given start or end.
#include <algorithm>
#include <bitset>

#include "core/known_values.h"
#include "core/ops/primitive.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

std::optional<SliceRange> slice_range(const Attributes& attributes, int axis, int64_t size) {
  const auto masked = [&](std::string_view mask) { return (attributes.integer(mask) >> axis & 1) != 0; };
  const int64_t start = attributes.integers("starts")[axis];
  const int64_t end = attributes.integers("ends")[axis];
  const int64_t stride = attributes.integers("strides")[axis];
  const auto from_end = [size](int64_t i) { return i < 0 ? i + size : i; };
  if (masked("squeeze_mask")) {
    const int64_t index = from_end(start);
    if (index < 0 || index >= size) return std::nullopt;
    return SliceRange{index, 1, 1, true};
  }
  // With a negative stride, the exclusive end of a slice that reaches the first element is -1.
  const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
  const int64_t first = masked("start_mask") ? (stride > 0 ? low : high) : std::clamp(from_end(start), low, high);
  const int64_t last = masked("end_mask") ? (stride > 0 ? high : low) : std::clamp(from_end(end), low, high);
  const int64_t span = stride > 0 ? last - first : first - last;
  const int64_t step = stride > 0 ? stride : -stride;
  return SliceRange{first, stride, span > 0 ? (span - 1) / step + 1 : 0, false};
}

namespace {

constexpr int64_t slice_limit = int64_t{1} << 62;

// The shape of a slice of a tensor with these dimensions.
Shape sliced(const InferContext& context, const Dims& dims) {
  const int rank = static_cast<int>(dims.size());
  for (std::string_view key : {"starts", "ends", "strides"}) {
    const Ints& values = context.attributes.integers(key);
    if (values.size() != dims.size())
      context.shape_error(
          cat(key, " must have one entry for each axis of ", to_string(dims), ", got ", to_string(values)));
    for (int64_t v : values)
      if (v >= slice_limit || v <= -slice_limit)
        context.shape_error(cat(key, " must be less than 2^62 in magnitude, got ", v));
  }
  for (std::string_view key : {"start_mask", "end_mask", "squeeze_mask"}) {
    const int64_t mask = context.attributes.integer(key);
    if (mask < 0 || mask >> rank != 0)
      context.shape_error(
          cat(key, " must have bits set only for existing axes (", rank, ") of ", to_string(dims), ", got ", mask));
  }
  Dims result;
  for (int axis = 0; axis < rank; ++axis) {
    if (context.attributes.integers("strides")[axis] == 0)
      context.shape_error(cat("strides must not be 0, got 0 for axis ", axis));
    const bool squeezed = context.attributes.integer("squeeze_mask") >> axis & 1;
    if (dims[axis] < 0) {
      if (!squeezed) result.push_back(-1);
      continue;
    }
    const std::optional<SliceRange> range = slice_range(context.attributes, axis, dims[axis]);
    if (!range)
      context.shape_error(cat("index ", context.attributes.integers("starts")[axis], " is out of range for axis ", axis,
                              " of ", to_string(dims)));
    if (!range->squeezed) result.push_back(range->count);
  }
  return Shape(result);
}

std::vector<TensorType> infer_slice(const InferContext& context) {
  return {{context.dtype(0), sliced(context, dims_for(context, 0, "starts"))}};
}

// Inference for starts and ends that are tensors without known values: only the rank of the result is known.
std::vector<TensorType> infer_slice_unvalued(const InferContext& context) {
  const Shape& source = context.shape(0);
  if (!source.ranked()) return {{context.dtype(0), {}}};
  const auto squeezed = std::bitset<64>(static_cast<uint64_t>(context.attributes.integer("squeeze_mask"))).count();
  return {{context.dtype(0), Dims(std::max<size_t>(source.dims().size(), squeezed) - squeezed, -1)}};
}

// Derivative of a slice whose starts and ends are tensors: scatters the incoming gradient to the positions that the
// slice reads at run time. The slice's size is already known when the gradient runs.
bool d_slice_of_tensors(GradientContext& g) {
  if (g.operation.inputs.size() == 1 || !g.input(0)->shape().ranked()) return false;
  const std::optional<Ints> strides = constant_value(g.input(3));
  if (!strides || strides->size() != static_cast<size_t>(g.input(0)->shape().rank())) return false;
  Builder b(g.graph());
  Ints squeezed;
  for (size_t axis = 0; axis < strides->size(); ++axis)
    if (g.attributes().integer("squeeze_mask") >> axis & 1) squeezed.push_back(static_cast<int64_t>(axis));
  Tensor* incoming = g.incoming();
  if (!squeezed.empty()) incoming = g.graph().add("expand_dims", {incoming}, {{"axes", squeezed}});
  Tensor* begin = slice_places(b, b.shape_of(g.input(0)), g.input(1), g.input(2), *strides, g.attributes()).begin;
  g.set(0, g.graph().add("dynamic_slice_update_data", {b.zeros_like(g.input(0)), incoming, begin},
                         {{"strides", *strides}}));
  return true;
}

void d_slice(GradientContext& g) {
  if (d_slice_of_tensors(g)) return;
  Tensor* shape = Builder(g.graph()).shape_of(g.input(0));
  g.set(0, g.add_alike("slice_gradient", {g.incoming(), shape}, g.attributes()));
}

// Gradient of a slice. Operands: incoming gradient, input_shape. The result has the shape input_shape; it holds the
// incoming gradient at the positions that the slice reads, and zeros elsewhere.
std::vector<TensorType> infer_slice_gradient(const InferContext& context) {
  const size_t rank = std::min<size_t>(context.attributes.integers("starts").size(), max_rank);
  const Shape source = stated_shape(context, 1, Dims(rank, -1));
  const Shape forward = sliced(context, source.dims());
  if (!compatible(forward, context.shape(0)))
    context.shape_error(cat("incoming gradient must have the shape ", forward, " of the slice of source ", source,
                            ", got ", context.shape(0)));
  return {{context.dtype(0), source}};
}

std::vector<TensorType> infer_slice_gradient_unvalued(const InferContext& context) {
  return {{context.dtype(0), shape_operand(context, 1)}};
}

void d_slice_gradient(GradientContext& g) {
  if (g.needs(0)) g.set(0, g.add_alike("slice", {g.incoming()}, g.attributes()));
}

// Update of a slice. Operands: data, update. The result is data with the elements that the slice reads replaced with
// `update`.
std::vector<TensorType> infer_slice_update_data(const InferContext& context) {
  context.require_same_dtype();
  const Shape forward = sliced(context, dims_for(context, 0, "starts"));
  if (!compatible(forward, context.shape(1)))
    context.shape_error(cat("update must have the shape ", forward, " of the slice of data ", context.shape(0),
                            ", got ", context.shape(1)));
  return {context.type(0)};
}

std::vector<TensorType> infer_slice_update_data_unvalued(const InferContext& context) {
  context.require_same_dtype(0, 2);
  return {context.type(0)};
}

void d_slice_update_data(GradientContext& g) {
  if (g.needs(0)) {
    Tensor* zeros = Builder(g.graph()).zeros_like(g.input(1));
    g.set(0, g.add_alike("slice_update_data", {g.incoming(), zeros}, g.attributes()));
  }
  if (g.needs(1)) g.set(1, g.add_alike("slice", {g.incoming()}, g.attributes()));
}

// Slices [start, end) of one axis, or from start to the end of the axis if `end` is nullopt. All other axes are kept
// whole.
Tensor* slice_axis(Graph& graph, Tensor* x, int axis, int64_t start, std::optional<int64_t> end, int64_t stride = 1) {
  const int rank = x->shape().rank();
  Ints starts(rank, 0), ends(rank, 0), strides(rank, 1);
  const int64_t all = (int64_t{1} << rank) - 1, others = all & ~(int64_t{1} << axis);
  starts[axis] = start;
  ends[axis] = end.value_or(0);
  strides[axis] = stride;
  return graph.add("slice", {x},
                   {{"starts", starts},
                    {"ends", ends},
                    {"strides", strides},
                    {"start_mask", others},
                    {"end_mask", end ? others : all}});
}

// Merges the shapes of the operands of concat or stack, which must be equal except along the joined axis of concat. The
// result is unranked if no operand is ranked.
Shape common_shape(const InferContext& context, size_t first, std::optional<int64_t> free_axis) {
  Shape common;
  for (size_t i = first; i < context.count(); ++i) {
    Shape shape = context.shape(i);
    if (!shape.ranked()) continue;
    if (free_axis) {
      Dims dims = shape.dims();
      dims[context.axis(*free_axis, shape.rank())] = -1;
      shape = Shape(dims);
    }
    if (!compatible(common, shape))
      context.shape_error(cat("operand ", i, " of shape ", context.shape(i), " does not match the shape ", common,
                              " of the other operands",
                              free_axis ? ": only the joined axis may differ" : ": all shapes must be equal"));
    common = merge(common, shape);
  }
  return common;
}

std::vector<TensorType> infer_concat(const InferContext& context) {
  context.require_same_dtype();
  const int64_t axis_attribute = context.attributes.integer("axis");
  const bool interleave = context.attributes.boolean("interleave");
  Shape common = common_shape(context, 0, interleave ? std::nullopt : std::optional(axis_attribute));
  if (!common.ranked()) return {{context.dtype(0), {}}};
  const int axis = context.axis(axis_attribute, common.rank());
  int64_t total = 0;
  for (size_t i = 0; i < context.count() && total >= 0; ++i) {
    const int64_t size = interleave ? common[axis] : context.shape(i).ranked() ? context.shape(i)[axis] : -1;
    total = size < 0 ? -1 : total + size;
    if (total > slice_limit) context.shape_error(cat("the joined axis ", axis, " would be longer than 2^62"));
  }
  Dims dims = common.dims();
  dims[axis] = total;
  return {{context.dtype(0), Shape(dims)}};
}

// Undoes a concat: returns the slice of `joined` for each of `parts`; null for parts that are not `wanted`. A static
// slice can address a part if the sizes of all parts before it, or of all parts after it, are known. If a wanted part
// cannot be addressed, returns an empty list.
std::vector<Tensor*> unjoin(Graph& graph, Tensor* joined, const std::vector<Tensor*>& parts,
                            const Attributes& attributes, const std::function<bool(size_t)>& wanted) {
  if (!joined->shape().ranked()) return {};
  const int axis = wrap_axis(attributes.integer("axis"), joined->shape().rank());
  const int64_t n = static_cast<int64_t>(parts.size());
  std::vector<Tensor*> result(n, nullptr);
  if (attributes.boolean("interleave")) {
    for (int64_t i = 0; i < n; ++i)
      if (wanted(i)) result[i] = slice_axis(graph, joined, axis, i, std::nullopt, n);
    return result;
  }
  const auto size = [&](int64_t i) { return parts[i]->shape().ranked() ? parts[i]->shape()[axis] : -1; };
  // The position of the boundary before each part, counted from the start and from the end of the axis; -1 if the
  // position depends on a part of unknown size.
  std::vector<int64_t> from_start(n + 1, 0), from_end(n + 1, 0);
  const auto sum = [](int64_t a, int64_t b) { return a < 0 || b < 0 ? -1 : a + b; };
  for (int64_t i = 0; i < n; ++i) from_start[i + 1] = sum(from_start[i], size(i));
  for (int64_t i = n - 1; i >= 0; --i) from_end[i] = sum(from_end[i + 1], size(i));
  const auto reachable = [&](int64_t border) { return from_start[border] >= 0 || from_end[border] >= 0; };
  for (int64_t i = 0; i < n; ++i)
    if (wanted(i) && size(i) != 0 && !(reachable(i) && reachable(i + 1))) return {};
  for (int64_t i = 0; i < n; ++i) {
    if (!wanted(i)) continue;
    const int64_t start = from_start[i] >= 0 ? from_start[i] : -from_end[i];
    std::optional<int64_t> end = from_start[i + 1] >= 0 ? from_start[i + 1] : -from_end[i + 1];
    // An end of 0 would mean the start of the axis, not its end, so the last part has no end.
    if (from_start[i + 1] < 0 && from_end[i + 1] == 0) end.reset();
    result[i] = size(i) == 0 ? slice_axis(graph, joined, axis, 0, 0) : slice_axis(graph, joined, axis, start, end);
  }
  return result;
}

void d_concat(GradientContext& g) {
  const std::vector<Tensor*>& parts = g.operation.inputs;
  std::vector<Tensor*> gradients =
      unjoin(g.graph(), g.incoming(), parts, g.attributes(), [&](size_t i) { return g.needs(i); });
  if (gradients.empty()) {
    std::vector<Tensor*> inputs{g.incoming()};
    inputs.insert(inputs.end(), parts.begin(), parts.end());
    for (auto& output : g.graph().create("concat_gradient", inputs, g.attributes())->outputs)
      gradients.push_back(output.get());
  }
  for (size_t i = 0; i < parts.size(); ++i)
    if (g.needs(i)) g.set(i, gradients[i]);
}

// Gradient of concat, used if the sizes of the parts only become known when the executable is specialized. Operands:
// incoming gradient, then the parts.
std::vector<TensorType> infer_concat_gradient(const InferContext& context) {
  std::vector<TensorType> types;
  for (size_t i = 1; i < context.count(); ++i) types.push_back(context.type(i));
  return types;
}

std::vector<Tensor*> decompose_concat_gradient(Builder& builder, const std::vector<Tensor*>& inputs,
                                               const Attributes& attributes) {
  const std::vector<Tensor*> parts(inputs.begin() + 1, inputs.end());
  std::vector<Tensor*> result = unjoin(builder.graph(), inputs[0], parts, attributes, [](size_t) { return true; });
  if (result.empty())
    throw UnsupportedError("[concat_gradient] the sizes of the parts must be static to compile this gradient");
  return result;
}

// The incoming gradients of all results of the operation, with zeros for results that no gradient reaches.
std::vector<Tensor*> all_incoming(GradientContext& g) {
  std::vector<Tensor*> incoming;
  for (size_t i = 0; i < g.operation.outputs.size(); ++i)
    incoming.push_back(g.incoming(i) ? g.incoming(i) : Builder(g.graph()).zeros_like(g.output(i)));
  return incoming;
}

void d_concat_gradient(GradientContext& g) {
  if (g.needs(0)) g.set(0, g.graph().add("concat", all_incoming(g), g.attributes()));
}

std::vector<TensorType> infer_split(const InferContext& context) {
  const Ints& sizes = context.attributes.integers("sizes");
  const Shape& source = context.shape(0);
  if (sizes.empty()) context.shape_error("sizes must have at least one entry");
  int64_t total = 0;
  for (int64_t size : sizes) {
    if (size < 0 || size >= slice_limit)
      context.shape_error(cat("sizes must be at least 0 and less than 2^62, got ", to_string(sizes)));
    total = std::min(total + size, slice_limit);
  }
  std::vector<TensorType> types(sizes.size(), {context.dtype(0), source});
  if (!source.ranked()) return types;
  const int axis = context.axis(context.attributes.integer("axis"), source.rank());
  if (source[axis] >= 0 && source[axis] != total)
    context.shape_error(cat("sizes must sum to the size of axis ", axis, " (", source[axis], "), got ",
                            to_string(sizes), " with sum ", total, ": source ", source));
  for (size_t i = 0; i < sizes.size(); ++i) {
    Dims dims = source.dims();
    dims[axis] = sizes[i];
    types[i].shape = Shape(dims);
  }
  return types;
}

// Inference for sizes given as a tensor without known value. The number of parts is the number of elements of the
// tensor.
std::vector<TensorType> infer_split_unvalued(const InferContext& context) {
  const Shape& sizes = context.shape(1);
  if (!sizes.known() || sizes.rank() != 1)
    context.shape_error(cat("sizes must be a list of static length, got ", sizes));
  if (sizes[0] > max_parts)
    context.shape_error(cat("sizes must have at most ", max_parts, " entries, got ", sizes[0], " entries"));
  Shape part = context.shape(0);
  if (part.ranked()) {
    Dims dims = part.dims();
    dims[context.axis(context.attributes.integer("axis"), part.rank())] = -1;
    part = Shape(dims);
  }
  return std::vector<TensorType>(static_cast<size_t>(sizes[0]), {context.dtype(0), part});
}

void d_split(GradientContext& g) {
  g.set(0, g.graph().add("concat", all_incoming(g), {{"axis", g.attributes().integer("axis")}}));
}

std::vector<TensorType> infer_stack(const InferContext& context) {
  context.require_same_dtype();
  const Shape common = common_shape(context, 0, std::nullopt);
  if (!common.ranked()) return {{context.dtype(0), {}}};
  if (common.rank() == max_rank)
    context.shape_error(cat("the result would have rank ", max_rank + 1, ", but the maximum rank is ", max_rank));
  Dims dims = common.dims();
  const int axis = context.axis(context.attributes.integer("axis"), common.rank() + 1);
  dims.insert(dims.begin() + axis, static_cast<int64_t>(context.count()));
  return {{context.dtype(0), Shape(dims)}};
}

void d_stack(GradientContext& g) {
  Builder builder(g.graph());
  const size_t count = g.operation.inputs.size();
  const Operation* parts =
      g.graph().create("split", {g.incoming()}, {{"sizes", Ints(count, 1)}, {"axis", g.attributes().integer("axis")}});
  for (size_t i = 0; i < count; ++i)
    if (g.needs(i)) g.set(i, builder.reshape_like(parts->output(i), g.input(i)));
}

std::vector<AttributeSpec> slice_attributes() {
  return {optional("starts", Ints{}),         optional("ends", Ints{}),         optional("strides", Ints{}),
          optional("start_mask", int64_t{0}), optional("end_mask", int64_t{0}), optional("squeeze_mask", int64_t{0})};
}

}  // namespace

const Family shape_slicing_family("shape", [] {
  const std::vector<AttributeSpec> join{required("axis", AttributeKind::integer), optional("interleave", false)};
  const auto slicing = [](Kind name, int operands, Infer infer, Infer unvalued, Gradient gradient) {
    OperationDefinition d = primitive(name, operands, slice_attributes(), std::move(infer), std::move(gradient));
    d.tensor_attributes = {"starts", "ends", "strides"};
    d.infer_unvalued = std::move(unvalued);
    define(std::move(d));
  };
  slicing("slice", 1, infer_slice, infer_slice_unvalued, d_slice);
  slicing("slice_gradient", 2, infer_slice_gradient, infer_slice_gradient_unvalued, d_slice_gradient);
  slicing("slice_update_data", 2, infer_slice_update_data, infer_slice_update_data_unvalued, d_slice_update_data);
  define(primitive("concat", {1, any_number}, join, infer_concat, d_concat));

  OperationDefinition concat_gradient =
      primitive("concat_gradient", {2, any_number}, join, infer_concat_gradient, d_concat_gradient);
  concat_gradient.decompose = decompose_concat_gradient;
  concat_gradient.internal = true;
  define(std::move(concat_gradient));

  const AttributeSpec axis = required("axis", AttributeKind::integer);
  OperationDefinition split = primitive("split", 1, {optional("sizes", Ints{}), axis}, infer_split, d_split);
  split.tensor_attributes = {"sizes"};
  split.infer_unvalued = infer_split_unvalued;
  define(std::move(split));
  define(primitive("stack", {1, any_number}, {axis}, infer_stack, d_stack));

  describe("concat", "tensors: tensors, axis, interleave", DTypeClass::any, R"(
Concatenate tensors along an axis.

Args:
    tensors: Tensors of one dtype, whose shapes differ at most along `axis`.
    axis: Axis to concatenate along; negative values count from the end.
    interleave: Whether to take elements from the tensors in turn, which requires equal shapes.
Returns: A tensor with the dtype of the operands.
Raises:
    ShapeError: If the shapes differ along any other axis, or axis is out of range.
    DTypeError: If the dtypes differ.
Gradient: to each tensor, its part of the incoming gradient.
Source: MPSGraph concatTensors:dimension:interleave:name:.
>>> g.run({}, g.concat([g.constant([1, 2]), g.constant([3])], 0)).tolist()
[1, 2, 3])");
  describe("stack", "tensors: tensors, axis = 0", DTypeClass::any, R"(
Join tensors of the same shape along a new axis.

Args:
    tensors: Tensors of one dtype and shape.
    axis: Position of the new axis in the result; negative values count from the end.
Returns: A tensor with the dtype of the operands and one more axis.
Raises:
    ShapeError: If the shapes differ, or axis is out of range.
    DTypeError: If the dtypes differ.
Gradient: to each tensor, its slice of the incoming gradient.
Source: MPSGraph stackTensors:axis:name:.
>>> g.run({}, g.stack([g.constant([1, 2]), g.constant([3, 4])], axis=1)).tolist()
[[1, 3], [2, 4]])");
});

}  // namespace mpsgraph::ops
