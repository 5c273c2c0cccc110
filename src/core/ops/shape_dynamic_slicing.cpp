// Operation family shape, fifth part: slices whose sizes are static and whose starts are tensors.
//
//   dynamic_slice(x, starts) {sizes=[n, m]}          x[a : a + n, b : b + m] where starts = [a, b]
//   dynamic_slice_update_data(data, update, starts)  data with that part replaced with `update`; sizes, if given, are
//                                                    the sizes of update
//
// Starts do not affect any shape, so kernels read them at run time, and nothing is recompiled for new values. Negative
// starts count from the end. Everything that is read or written must lie inside the tensor: unlike the ends of a slice,
// starts are not clamped. slice, slice_gradient, and slice_update_data create these operations when they are given
// sizes.
#include <algorithm>
#include <cstdlib>

#include "core/known_values.h"
#include "core/ops/primitive.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

std::optional<int64_t> window_start(int64_t start, int64_t size, int64_t stride, int64_t n) {
  if (size == 0) return 0;
  const int64_t first = start < 0 ? start + n : start, reach = (size - 1) * stride;
  const int64_t low = stride < 0 ? first + reach : first, high = stride < 0 ? first : first + reach;
  return low >= 0 && high < n ? std::optional(first) : std::nullopt;
}

Ints window_strides(const Attributes& attributes, size_t rank) {
  const Ints& strides = attributes.integers("strides");
  return strides.empty() ? Ints(rank, 1) : strides;
}

// Computes the same starts and sizes as slice_range, but with graph operations, for starts and ends that are tensors.
SlicePlaces slice_places(Builder& b, Tensor* sizes, Tensor* starts, Tensor* ends, const Ints& strides,
                         const Attributes& masks) {
  const size_t rank = strides.size();
  const auto each = [&](const auto& of_axis) {
    Ints values(rank);
    for (size_t axis = 0; axis < rank; ++axis) values[axis] = of_axis(axis);
    return b.ints(values);
  };
  const auto masked = [&](std::string_view mask) {
    return b.cast(each([&](size_t axis) { return masks.integer(mask) >> axis & 1; }), DType::boolean);
  };
  Tensor *n = b.cast(sizes, DType::int64), *zero = b.ints({0});
  Tensor* forward = b.cast(each([&](size_t axis) { return int64_t{strides[axis] > 0}; }), DType::boolean);
  // With a negative stride, the exclusive end of a slice that reaches the first element is -1.
  Tensor* low = each([&](size_t axis) { return strides[axis] > 0 ? 0 : -1; });
  Tensor* high = b.add(n, low);
  const auto from_front = [&](Tensor* given) {
    Tensor* place = b.cast(given, DType::int64);
    Tensor* from_end = b.add(place, n);
    return b.select(b.binary("less_than", place, zero), from_end, place);
  };
  const auto inside = [&](Tensor* given) {
    return b.binary("minimum", b.binary("maximum", from_front(given), low), high);
  };
  Tensor *start = inside(starts), *whole = b.select(forward, low, high);
  Tensor* first = b.select(masked("start_mask"), whole, start);
  Tensor* end = inside(ends);
  whole = b.select(forward, high, low);
  Tensor* last = b.select(masked("end_mask"), whole, end);
  Tensor* step = each([&](size_t axis) { return std::abs(strides[axis]); });
  Tensor* backward = b.sub(first, last);
  Tensor* span = b.binary("maximum", b.select(forward, b.sub(last, first), backward), zero);
  Tensor* count = b.binary("division", b.add(span, b.sub(step, b.ints({1}))), step);
  Tensor* squeezed = masked("squeeze_mask");
  return {b.select(squeezed, b.cast(starts, DType::int64), first), b.select(squeezed, b.ints({1}), count)};
}

namespace {

constexpr int64_t max_extent = int64_t{1} << 31;  // limit for sizes and strides, so that their products do not overflow

// Checks that windows of the given sizes fit into a tensor of shape `source`. Unknown sizes are not checked.
void check_windows(const InferContext& context, const Dims& source, const Dims& sizes, size_t starts_operand) {
  const TensorType& starts = context.type(starts_operand);
  const auto rank = static_cast<int64_t>(source.size());
  // Messages omit the internal prefix dynamic_, because users know these operations without it.
  const std::string front = cat("[", context.definition.name.name().substr(std::string_view("dynamic_").size()), "] ");
  if (!is_integer(starts.dtype) || starts.dtype == DType::uint64)
    context.dtype_error(cat("starts must be integers that fit in int64, got ", starts, "; cast them to int64 first"));
  if (!compatible(starts.shape, Shape{rank}))
    context.shape_error(cat("starts must be a list with one entry per axis (", rank, "), got ", starts));
  const Ints strides = window_strides(context.attributes, source.size());
  const auto wrong = [](int64_t stride) { return stride == 0 || stride > max_extent || stride < -max_extent; };
  if (strides.size() != source.size() || std::any_of(strides.begin(), strides.end(), wrong))
    context.shape_error(cat("strides must be nonzero, at most 2^31 in magnitude, and equal in number to the axes of ",
                            to_string(source), ", got ", to_string(strides)));
  const std::optional<KnownValues> known = known_values(context.inputs[starts_operand]);
  for (size_t axis = 0; axis < source.size(); ++axis) {
    const int64_t n = source[axis], size = sizes[axis];
    if (size == 0 || size < 0 || n < 0) continue;
    const int64_t span = (size - 1) * std::abs(strides[axis]) + 1;
    if (span > n) {
      const std::string steps = strides[axis] == 1 ? "" : cat(" with stride ", strides[axis]);
      throw ShapeError(cat(front, "sizes must fit into the source, got size ", size, steps, " along axis ", axis,
                           " of ", to_string(source), context.where));
    }
    if (!known || axis >= known->size() || !(*known)[axis]) continue;
    if (!window_start(*(*known)[axis], size, strides[axis], n))
      throw OutOfRangeError(cat(front, "start ", *(*known)[axis], " of axis ", axis,
                                " is out of range: a slice of size ", size, " extends beyond ", to_string(source),
                                context.where));
  }
}

std::vector<TensorType> infer_dynamic_slice(const InferContext& context) {
  const Ints& sizes = context.attributes.integers("sizes");
  const Dims source = dims_for(context, 0, "sizes");
  for (int64_t size : sizes)
    if (size < 0 || size > max_extent)
      context.shape_error(cat("sizes must be between 0 and 2^31, got ", to_string(sizes)));
  check_windows(context, source, sizes, 1);
  return {{context.dtype(0), Shape(sizes)}};
}

std::vector<TensorType> infer_dynamic_slice_unvalued(const InferContext& context) {
  const Shape& source = context.shape(0);
  return {{context.dtype(0), source.ranked() ? Shape(Dims(source.dims().size(), -1)) : Shape()}};
}

std::vector<TensorType> infer_dynamic_slice_update_data(const InferContext& context) {
  context.require_same_dtype(0, 2);
  const Shape &data = context.shape(0), &update = context.shape(1);
  const Ints& sizes = context.attributes.integers("sizes");
  if (!sizes.empty() && !compatible(update, Shape(sizes)))
    context.shape_error(
        cat("update must have the shape ", to_string(sizes), " of the slice of data ", data, ", got ", update));
  if (data.ranked() && update.ranked()) {
    if (data.rank() != update.rank())
      context.shape_error(cat("update must have the rank of data ", data, ", got ", update));
    check_windows(context, data.dims(), update.dims(), 2);
  }
  return {context.type(0)};
}

std::vector<TensorType> infer_dynamic_slice_update_data_unvalued(const InferContext& context) {
  context.require_same_dtype(0, 2);
  return {context.type(0)};
}

void d_dynamic_slice(GradientContext& g) {
  if (!g.needs(0)) return;
  const Attributes strides{{"strides", *g.attributes().find("strides")}};
  g.set(0, g.graph().add("dynamic_slice_update_data",
                         {Builder(g.graph()).zeros_like(g.input(0)), g.incoming(), g.input(1)}, strides));
}

void d_dynamic_slice_update_data(GradientContext& g) {
  Builder b(g.graph());
  Tensor *update = g.input(1), *starts = g.input(2);
  if (g.needs(0))
    g.set(0, g.graph().add("dynamic_slice_update_data", {g.incoming(), b.zeros_like(update), starts}, g.attributes()));
  if (!g.needs(1)) return;
  Attributes attributes{{"strides", *g.attributes().find("strides")}};
  std::vector<Tensor*> inputs{g.incoming(), starts};
  if (update->shape().known())
    attributes.set("sizes", update->shape().dims());
  else
    inputs.push_back(b.shape_of(update));
  g.set(1, g.graph().add("dynamic_slice", inputs, attributes));
}

}  // namespace

const Family shape_dynamic_slicing_family("shape", [] {
  OperationDefinition slice = primitive("dynamic_slice", 2, {optional("sizes", Ints{}), optional("strides", Ints{})},
                                        infer_dynamic_slice, d_dynamic_slice);
  slice.tensor_attributes = {"sizes"};
  slice.infer_unvalued = infer_dynamic_slice_unvalued;
  slice.internal = true;
  define(std::move(slice));
  OperationDefinition update =
      primitive("dynamic_slice_update_data", 3, {optional("sizes", Ints{}), optional("strides", Ints{})},
                infer_dynamic_slice_update_data, d_dynamic_slice_update_data);
  update.tensor_attributes = {"sizes"};
  update.infer_unvalued = infer_dynamic_slice_update_data_unvalued;
  update.internal = true;
  define(std::move(update));
});

}  // namespace mpsgraph::ops
