// Operation family resize: resizing images by nearest neighbor or linear interpolation.
//
//   resize_nearest, resize_bilinear(images, size[, scale, offset])                    and their gradients
//   resize_..._gradient(incoming, input_shape[, scale, offset])
//
// Element i of the result is the interpolated value at position p of the input, independently for each axis:
//
//   top left   p = i · input / result              centered   p = (i + 1/2) · input / result - 1/2
//   corners    p = i · (input - 1) / (result - 1)  given      i = p · scale + offset
//
// Positions beyond an edge are clamped to the edge. With a layout, the layout's two spatial axes are resized; without a
// layout, all axes. Resizing is linear in the images, so its gradient is the transposed operation, whose own gradient
// is resizing.
#include "core/ops/resize.h"

#include <algorithm>
#include <cmath>

#include "core/ops/primitive.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

std::optional<Rounding> rounding_from_name(std::string_view name) {
  constexpr std::string_view names[] = {"round_prefer_ceil", "round_prefer_floor", "ceil", "floor",
                                        "round_to_even",     "round_to_odd"};
  const auto found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<Rounding>(found - std::begin(names));
}

int64_t rounded_index(double place, Rounding rounding, int64_t size) {
  switch (rounding) {
    case Rounding::round_prefer_ceil: place = std::floor(place + 0.5); break;
    case Rounding::round_prefer_floor: place = std::ceil(place - 0.5); break;
    case Rounding::ceil: place = std::ceil(place); break;
    case Rounding::floor: place = std::floor(place); break;
    case Rounding::round_to_even: place = std::nearbyint(place); break;
    case Rounding::round_to_odd: {
      const double below = std::floor(place);
      const bool tie = place - below == 0.5, odd = std::fmod(below, 2) != 0;
      place = tie ? below + (odd ? 0 : 1) : std::floor(place + 0.5);
      break;
    }
  }
  return place > 0 ? static_cast<int64_t>(std::min(place, static_cast<double>(size - 1))) : 0;
}

double Placement::source(int64_t i, int64_t input, int64_t result) const {
  const auto at = static_cast<double>(i), from = static_cast<double>(input), to = static_cast<double>(result);
  switch (mode) {
    case Mode::top_left: return at * from / to;
    case Mode::centered: return (at + 0.5) * from / to - 0.5;
    case Mode::corners: return result > 1 ? at * (from - 1) / (to - 1) : 0;
    case Mode::given: break;
  }
  return (at - offset) / scale;
}

Placement::Mode placement_mode(const Attributes& attributes) {
  if (attributes.boolean("align_corners")) return Placement::Mode::corners;
  return attributes.boolean("center_result") ? Placement::Mode::centered : Placement::Mode::top_left;
}

std::optional<std::vector<int>> resized_axes(std::string_view layout, int rank) {
  std::vector<int> axes;
  if (layout.empty()) {
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
    return axes;
  }
  for (std::string_view known : {"NHWC", "NCHW", "HWC", "CHW", "HW"}) {
    if (layout != known || static_cast<int>(layout.size()) != rank) continue;
    const auto height = static_cast<int>(layout.find('H'));
    return std::vector<int>{height, height + 1};
  }
  return std::nullopt;
}

namespace {

std::vector<int> axes_of(const InferContext& context, int rank) {
  const std::string& layout = context.attributes.string("layout");
  const auto axes = resized_axes(layout, rank);
  if (!axes)
    context.shape_error(cat("layout must be NHWC, NCHW, HWC, CHW or HW and match the rank of the images (", rank,
                            "), got '", layout, "'; without a layout, size has one entry per axis"));
  return *axes;
}

void check_mode(const InferContext& context, size_t images) {
  if (context.attributes.has("nearest_rounding_mode")) {
    const std::string& mode = context.attributes.string("nearest_rounding_mode");
    if (!rounding_from_name(mode))
      context.graph_error(cat("nearest_rounding_mode must be round_prefer_ceil, round_prefer_floor, ceil, floor, ",
                              "round_to_even or round_to_odd, got '", mode, "'"));
    if (is_complex(context.dtype(images)))
      context.dtype_error(cat("images must not be complex, got ", context.dtype(images)));
  } else {
    context.require_float(images);
  }
  if (context.count() == 3) context.graph_error("scale and offset must be passed together");
  for (size_t i = 2; i < context.count(); ++i) {
    context.require_float(i);
    context.require_rank(i, 1);
  }
}

// Checks that scale and offset, if given, have one entry per resized axis.
void check_placement(const InferContext& context, const Shape& images) {
  if (!images.ranked()) return;
  const auto count = static_cast<int64_t>(axes_of(context, images.rank()).size());
  for (size_t i = 2; i < context.count(); ++i) {
    if (!compatible(context.shape(i), Shape{count}))
      context.shape_error(cat(i == 2 ? "scale" : "offset", " must have one entry per resized axis (", count, "), got ",
                              context.shape(i)));
  }
}

// Checks that no empty axis is resized to a non-empty one.
void check_sizes(const InferContext& context, const Shape& from, const Shape& to) {
  if (!from.ranked() || !to.ranked()) return;
  for (int axis = 0; axis < from.rank(); ++axis)
    if (from[axis] == 0 && to[axis] > 0)
      context.shape_error(cat("an empty axis of images cannot be resized to a non-empty one, got axis ", axis, " of ",
                              from, " for the result ", to));
}

std::vector<TensorType> infer_resize(const InferContext& context) {
  check_mode(context, 0);
  const Shape& images = context.shape(0);
  check_placement(context, images);
  const Shape size = shape_operand(context, 1);
  if (!images.ranked()) return {{context.dtype(0), {}}};
  const std::vector<int> axes = axes_of(context, images.rank());
  if (size.ranked() && size.dims().size() != axes.size())
    context.shape_error(
        cat("size must have one entry per resized axis (", axes.size(), ") of ", images, ", got ", size));
  Dims dims = images.dims();
  for (size_t i = 0; i < axes.size(); ++i) dims[axes[i]] = size.ranked() ? size.dims()[i] : -1;
  check_sizes(context, images, Shape(dims));
  return {{context.dtype(0), Shape(dims)}};
}

void d_resize(GradientContext& g) {
  if ((g.operation.inputs.size() > 2 && g.needs(2)) || (g.operation.inputs.size() > 3 && g.needs(3)))
    throw UnsupportedError(cat("[", g.operation.kind(), "] gradients with respect to scale and offset of '",
                               g.operation.name, "' are not supported", g.operation.where()));
  std::vector<Tensor*> inputs{g.incoming(), Builder(g.graph()).shape_of(g.input(0))};
  inputs.insert(inputs.end(), g.operation.inputs.begin() + 2, g.operation.inputs.end());
  const bool nearest = g.operation.is("resize_nearest");
  g.set(0,
        g.graph().add(nearest ? Kind("resize_nearest_gradient") : "resize_bilinear_gradient", inputs, g.attributes()));
}

std::vector<TensorType> infer_resize_gradient(const InferContext& context) {
  if (context.dtype(0) == DType::boolean)
    context.dtype_error("incoming gradient must be numeric, got bool: cast it to float32 first");
  check_mode(context, 0);
  const Shape& incoming = context.shape(0);
  const Shape images = shape_operand(context, 1);
  check_placement(context, images);
  if (images.ranked() && incoming.ranked()) {
    if (images.rank() != incoming.rank())
      context.shape_error(cat("incoming gradient must have the rank of the images ", images, ", got ", incoming));
    Dims dims = images.dims();
    for (int axis : axes_of(context, images.rank())) dims[axis] = incoming[axis];
    if (!compatible(Shape(dims), incoming))
      context.shape_error(cat("incoming gradient must have the shape ", Shape(dims), " of the resized images, got ",
                              incoming, ": images ", images));
    check_sizes(context, images, incoming);
  }
  return {{context.dtype(0), images}};
}

void d_resize_gradient(GradientContext& g) {
  if (!g.needs(0)) return;
  Builder b(g.graph());
  Tensor* size = b.shape_of(g.input(0));
  if (const std::string& layout = g.attributes().string("layout"); !layout.empty()) {
    const auto height = static_cast<int64_t>(layout.find('H'));
    size = g.graph().add("gather", {size, b.ints({height, height + 1})}, {{"axis", int64_t{0}}});
  }
  std::vector<Tensor*> inputs{g.incoming(), size};
  inputs.insert(inputs.end(), g.operation.inputs.begin() + 2, g.operation.inputs.end());
  const bool nearest = g.operation.is("resize_nearest_gradient");
  g.set(0, g.graph().add(nearest ? Kind("resize_nearest") : "resize_bilinear", inputs, g.attributes()));
}

}  // namespace

const Family resize_family("resize", [] {
  std::vector<AttributeSpec> attributes{optional("center_result", false), optional("align_corners", false),
                                        optional("layout", std::string())};
  for (Kind name : Kinds{"resize_bilinear", "resize_nearest"}) {
    if (name == "resize_nearest")
      attributes.push_back(optional("nearest_rounding_mode", std::string("round_prefer_ceil")));
    const Kind gradient = name == "resize_nearest" ? Kind("resize_nearest_gradient") : "resize_bilinear_gradient";
    define(primitive(name, {2, 4}, attributes, infer_resize, d_resize));
    define(primitive(gradient, {2, 4}, attributes, infer_resize_gradient, d_resize_gradient));
  }
});

}  // namespace mpsgraph::ops
