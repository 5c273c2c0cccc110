// Operation family sample_grid: sampling a source at coordinates, and the gradients of sampling.
//
//   result[n, y, x, c] = source at (coordinates[n, y, x, 1], coordinates[n, y, x, 0]), interpolated between elements
//
// The first coordinate runs along the width. Along an axis of size s, with align_corners the extreme coordinates are
// the centers of the outer elements, 0 and s - 1 (or -1 and 1 if normalized); without it they are the outer edges of
// these elements, 0 and s. Relative coordinates are offsets from the position of the result element; the sum of
// position and offset is scaled to the source. The gradients have kernels. They also have decompositions into gathers,
// scatters, and weights, from which the second derivatives follow.
#include "core/ops/sample_grid.h"

#include <algorithm>

#include "core/ops/primitive.h"
#include "core/ops/resize.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

GridAxis grid_axis(const Attributes& attributes, int64_t source, int64_t result) {
  const bool corners = attributes.boolean("align_corners"), normalised = attributes.boolean("normalize_coordinates");
  const auto from = static_cast<double>(source), to = static_cast<double>(result);
  if (!attributes.boolean("relative_coordinates")) {
    if (corners) return normalised ? GridAxis{(from - 1) / 2, (from - 1) / 2, 0} : GridAxis{1, 0, 0};
    return normalised ? GridAxis{from / 2, (from - 1) / 2, 0} : GridAxis{1, -0.5, 0};
  }
  const double scale = corners ? (result > 1 ? (from - 1) / (to - 1) : 0) : from / to;
  const double start = corners ? 0 : scale / 2 - 0.5;
  return {normalised ? (corners ? from - 1 : from) / 2 : scale, start, scale};
}

GridLayout grid_layout(const Attributes& attributes) {
  return attributes.string("layout") == "NCHW" ? GridLayout{2, 3, 1} : GridLayout{1, 2, 3};
}

namespace {

// Checks the attributes and coordinates, and returns the shape of sampling a tensor of shape `source`.
Shape sampled(const InferContext& context, const Shape& source, size_t coordinates) {
  const Attributes& a = context.attributes;
  if (const std::string& layout = a.string("layout"); layout != "NHWC" && layout != "NCHW")
    context.graph_error(cat("layout must be NHWC or NCHW, got '", layout, "'"));
  const auto pad = pad_mode_from_name(a.string("padding_mode"));
  if (!pad || *pad == PadMode::periodic || *pad == PadMode::anti_periodic)
    context.graph_error(cat("padding_mode must be constant, zero, reflect, symmetric or clamp_to_edge, got '",
                            a.string("padding_mode"), "'"));
  if (const std::string& mode = a.string("sampling_mode"); mode != "bilinear" && mode != "nearest")
    context.graph_error(cat("sampling_mode must be bilinear or nearest, got '", mode, "'"));
  if (!rounding_from_name(a.string("nearest_rounding_mode")))
    context.graph_error(cat("nearest_rounding_mode must be round_prefer_ceil, round_prefer_floor, ceil, floor, ",
                            "round_to_even or round_to_odd, got '", a.string("nearest_rounding_mode"), "'"));
  context.require_float(0);
  context.require_rank(coordinates, 4);
  if (source.ranked() && source.rank() != 4)
    context.shape_error(cat("source must have four axes (", a.string("layout"), "), got ", source));
  const auto four = [](const Shape& shape) { return shape.ranked() ? shape : Shape{-1, -1, -1, -1}; };
  const Shape grid = four(context.shape(coordinates)), from = four(source);
  if (grid[3] != 2 && grid[3] != -1)
    context.shape_error(cat("coordinates must have size 2 along the last axis (x, y), got ", grid));
  const GridLayout layout = grid_layout(a);
  if (from[0] >= 0 && grid[0] >= 0 && from[0] != grid[0])
    context.shape_error(cat("source and coordinates must have the same batch size, got ", from, " and ", grid));
  if ((from[layout.height] == 0 || from[layout.width] == 0) && grid[1] != 0 && grid[2] != 0 &&
      *pad != PadMode::constant)
    context.shape_error(cat("an empty source can only be sampled with padding_mode constant, got source ", from));
  Dims dims(4);
  dims[0] = std::max(from[0], grid[0]);
  dims[layout.height] = grid[1];
  dims[layout.width] = grid[2];
  dims[layout.channels] = from[layout.channels];
  return Shape(dims);
}

std::vector<TensorType> infer_sample_grid(const InferContext& context) {
  context.require_same_dtype();
  return {{context.dtype(0), sampled(context, context.shape(0), 1)}};
}

void d_sample_grid(GradientContext& g) {
  if (g.needs(0)) {
    Tensor* shape = Builder(g.graph()).shape_of(g.input(0));
    g.set(0, g.graph().add("sample_grid_source_gradient", {g.incoming(), g.input(1), shape}, g.attributes()));
  }
  if (g.needs(1) && g.attributes().string("sampling_mode") == "bilinear")
    g.set(1, g.graph().add("sample_grid_coordinate_gradient", {g.incoming(), g.input(0), g.input(1)}, g.attributes()));
}

void require_incoming(const InferContext& context, const Shape& forward) {
  if (!compatible(forward, context.shape(0)))
    context.shape_error(
        cat("incoming gradient must have the shape ", forward, " of the sampling result, got ", context.shape(0)));
}

// Gradient of grid sampling with respect to the source. Operands: incoming gradient, coordinates, source_shape.
std::vector<TensorType> infer_sampled_source_gradient(const InferContext& context) {
  context.require_same_dtype(0, 2);
  const Shape source = shape_operand(context, 2);
  require_incoming(context, sampled(context, source, 1));
  return {{context.dtype(0), source}};
}

// Gradient of grid sampling with respect to the coordinates. Operands: incoming gradient, source, coordinates.
std::vector<TensorType> infer_coordinate_gradient(const InferContext& context) {
  context.require_same_dtype();
  require_incoming(context, sampled(context, context.shape(1), 2));
  return {context.type(2)};
}

// ---- the decomposition ----

// Decomposes grid sampling of NHWC tensors into simpler operations. A sampling position lies between elements of the
// source. Each of these elements is a tap: its index along an axis (as a float) and its interpolation weight.
class GridComposition {
 public:
  struct Tap {
    Tensor *index, *weight;  // both of shape [n, y, x]; a null weight means 1
  };

  GridComposition(Builder& b, const Attributes& attributes, const Shape& source, Tensor* coordinates)
      : b_(b), attributes_(attributes), coordinates_(coordinates), layout_(grid_layout(attributes)) {
    const Shape& grid = coordinates->shape();
    const bool relative = attributes.boolean("relative_coordinates");
    for (int k : {0, 1}) {
      const int axis = k == 0 ? layout_.width : layout_.height;
      sizes_[k] = source.ranked() ? source[axis] : -1;
      const int64_t result = grid.ranked() ? grid[2 - k] : -1;
      if (sizes_[k] < 0 || (relative && result < 0))
        throw UnsupportedError("[sample_grid] the heights and widths must be static to compile this operation");
      map_[k] = grid_axis(attributes, sizes_[k], std::max<int64_t>(result, 1));
      taps_[k] = taps(k);
    }
  }

  Tensor* to_nhwc(Tensor* x) { return layout_.channels == 1 ? b_.transpose(x, {0, 2, 3, 1}) : x; }
  Tensor* from_nhwc(Tensor* x) { return layout_.channels == 1 ? b_.transpose(x, {0, 3, 1, 2}) : x; }

  // Calls f(y tap, x tap) for each combination of taps.
  template <class F>
  void each(const F& f) {
    for (size_t i = 0; i < taps_[1].size(); ++i)
      for (size_t j = 0; j < taps_[0].size(); ++j) f(i, j);
  }
  Tensor* weight(size_t y, size_t x) {
    Tensor *wy = taps_[1][y].weight, *wx = taps_[0][x].weight;
    return wy ? b_.mul(wy, wx) : nullptr;
  }
  Tensor* indices(size_t y, size_t x) {
    Tensor* both = b_.graph().add("stack", {taps_[1][y].index, taps_[0][x].index}, {{"axis", int64_t{3}}});
    return b_.cast(both, DType::int32);
  }
  // The source elements at the taps with indices y and x; where a tap lies outside the source, the padding constant.
  Tensor* values(Tensor* source, size_t y, size_t x) {
    Tensor* inside = b_.graph().add("gather_nd", {source, indices(y, x)}, {{"batch_dimensions", int64_t{1}}});
    const bool constant = attributes_.string("padding_mode") == "constant" && attributes_.real("constant_value") != 0;
    if (!constant) return inside;
    Tensor* within_row = contained(0, taps_[0][x].index);
    Tensor* within = b_.binary("logical_and", contained(1, taps_[1][y].index), within_row);
    Tensor* outside = b_.scalar_like(inside, attributes_.real("constant_value"));
    return b_.select(channel(within), inside, outside);
  }
  // Appends a channel axis to a tensor [n, y, x], so that it broadcasts over channels.
  Tensor* channel(Tensor* x) { return b_.graph().add("expand_dims", {x}, {{"axes", Ints{3}}}); }
  double gain(int k) const { return map_[k].gain; }
  const std::vector<Tap>& of(int k) const { return taps_[k]; }

 private:
  std::vector<Tap> taps(int k) {
    Tensor* p = place(k);
    if (attributes_.string("sampling_mode") == "nearest") return {{wrapped(k, rounded(p)), nullptr}};
    Tensor* below = b_.unary("floor", p);
    Tensor* fraction = b_.sub(p, below);
    return {{wrapped(k, below), b_.sub(1.0, fraction)}, {wrapped(k, b_.add(below, 1)), fraction}};
  }

  Tensor* place(int k) {
    Tensor* p = b_.graph().add("slice", {coordinates_},
                               {{"starts", Ints{0, 0, 0, k}},
                                {"ends", Ints{0, 0, 0, k + 1}},
                                {"strides", Ints{1, 1, 1, 1}},
                                {"start_mask", int64_t{7}},
                                {"end_mask", int64_t{7}},
                                {"squeeze_mask", int64_t{8}}});
    Tensor* at = b_.add(b_.mul(p, map_[k].gain), map_[k].start);
    if (map_[k].step == 0) return at;
    Tensor* own = b_.graph().add("coordinate_along_axis", {b_.shape_of(p)}, {{"axis", int64_t{2 - k}}});
    return b_.add(at, b_.mul(b_.cast(own, p->dtype()), map_[k].step));
  }

  Tensor* rounded(Tensor* p) {
    switch (*rounding_from_name(attributes_.string("nearest_rounding_mode"))) {
      case Rounding::round_prefer_ceil: return b_.unary("floor", b_.add(p, 0.5));
      case Rounding::round_prefer_floor: return b_.unary("ceil", b_.sub(p, 0.5));
      case Rounding::ceil: return b_.unary("ceil", p);
      case Rounding::floor: return b_.unary("floor", p);
      case Rounding::round_to_even: return b_.unary("rint", p);
      case Rounding::round_to_odd: break;
    }
    return b_.add(b_.unary("rint", b_.sub(p, 1)), 1);  // rounding x - 1 to even and adding 1 rounds x to odd
  }

  // For each index outside the source, the index of the element that the padding mode uses instead.
  Tensor* wrapped(int k, Tensor* index) {
    const auto n = static_cast<double>(sizes_[k]);
    const auto clamped = [&](Tensor* x) {
      return b_.graph().add("clamp", {x, b_.scalar_like(x, 0), b_.scalar_like(x, std::max(n - 1, 0.0))});
    };
    const auto mirrored = [&](double period, double back) {
      Tensor* i = b_.binary("floor_modulo", index, b_.scalar_like(index, period));
      return b_.binary("minimum", i, b_.sub(back, i));
    };
    switch (*pad_mode_from_name(attributes_.string("padding_mode"))) {
      case PadMode::clamp_to_edge: return clamped(index);
      case PadMode::reflect: return n > 1 ? mirrored(2 * n - 2, 2 * n - 2) : clamped(index);
      case PadMode::symmetric: return mirrored(2 * n, 2 * n - 1);
      default: return index;
    }
  }

  Tensor* contained(int k, Tensor* index) {
    Tensor* low = b_.binary("greater_than_or_equal_to", index, b_.scalar_like(index, 0));
    return b_.binary("logical_and", low,
                     b_.binary("less_than", index, b_.scalar_like(index, static_cast<double>(sizes_[k]))));
  }

  Builder& b_;
  const Attributes& attributes_;
  Tensor* coordinates_;
  const GridLayout layout_;
  int64_t sizes_[2];
  GridAxis map_[2];
  std::vector<Tap> taps_[2];  // taps along the width and along the height
};

Tensor* sum(Builder& b, Tensor* total, Tensor* term) { return total ? b.add(total, term) : term; }

std::vector<Tensor*> decompose_sample_grid(Builder& b, const std::vector<Tensor*>& inputs,
                                           const Attributes& attributes) {
  GridComposition c(b, attributes, inputs[0]->shape(), inputs[1]);
  Tensor *source = c.to_nhwc(inputs[0]), *total = nullptr;
  c.each([&](size_t y, size_t x) {
    Tensor *values = c.values(source, y, x), *weight = c.weight(y, x);
    total = sum(b, total, weight ? b.mul(values, c.channel(weight)) : values);
  });
  return {c.from_nhwc(total)};
}

std::vector<Tensor*> decompose_source_gradient(Builder& b, const std::vector<Tensor*>& inputs,
                                               const Attributes& attributes) {
  const std::vector<std::unique_ptr<Block>> no_blocks;
  const InferContext context(definition_of("sample_grid_source_gradient"), inputs, attributes, no_blocks, "");
  GridComposition c(b, attributes, shape_operand(context, 2), inputs[1]);
  Tensor* incoming = c.to_nhwc(inputs[0]);
  Tensor* total = c.to_nhwc(b.broadcast_to(b.scalar_like(incoming, 0), inputs[2]));
  c.each([&](size_t y, size_t x) {
    Tensor* weight = c.weight(y, x);
    Tensor* part = weight ? b.mul(incoming, c.channel(weight)) : incoming;
    total = b.graph().add("scatter_nd", {total, part, c.indices(y, x)}, {{"batch_dimensions", int64_t{1}}});
  });
  return {c.from_nhwc(total)};
}

// Gradient of the coordinates. The weights 1 - f and f of two neighboring elements have the derivatives -1 and 1 with
// respect to the position.
std::vector<Tensor*> decompose_coordinate_gradient(Builder& b, const std::vector<Tensor*>& inputs,
                                                   const Attributes& attributes) {
  GridComposition c(b, attributes, inputs[1]->shape(), inputs[2]);
  Tensor *incoming = c.to_nhwc(inputs[0]), *source = c.to_nhwc(inputs[1]);
  Tensor* by[2] = {nullptr, nullptr};
  c.each([&](size_t y, size_t x) {
    Tensor* product = b.mul(incoming, c.values(source, y, x));
    Tensor* over_channels = b.graph().add("squeeze", {b.sum(product, {3})}, {{"axes", Ints{3}}});
    for (int k : {0, 1}) {
      Tensor* along = b.mul(over_channels, c.of(1 - k)[k == 0 ? y : x].weight);
      by[k] = sum(b, by[k], (k == 0 ? x : y) == 0 ? b.neg(along) : along);
    }
  });
  for (int k : {0, 1}) by[k] = b.mul(by[k], c.gain(k));
  return {b.graph().add("stack", {by[0], by[1]}, {{"axis", int64_t{3}}})};
}

}  // namespace

const Family sample_grid_family("sample_grid", [] {
  const std::vector<AttributeSpec> attributes{optional("layout", std::string("NHWC")),
                                              optional("normalize_coordinates", true),
                                              optional("relative_coordinates", false),
                                              optional("align_corners", false),
                                              optional("padding_mode", std::string("constant")),
                                              optional("sampling_mode", std::string("bilinear")),
                                              optional("nearest_rounding_mode", std::string("round_prefer_ceil")),
                                              optional("constant_value", 0.0)};
  OperationDefinition sample = primitive("sample_grid", 2, attributes, infer_sample_grid, d_sample_grid);
  sample.decompose = decompose_sample_grid;
  define(std::move(sample));
  OperationDefinition source =
      primitive("sample_grid_source_gradient", 3, attributes, infer_sampled_source_gradient, nullptr);
  source.decompose = decompose_source_gradient;
  source.internal = true;
  define(std::move(source));
  OperationDefinition coordinates =
      primitive("sample_grid_coordinate_gradient", 3, attributes, infer_coordinate_gradient, nullptr);
  coordinates.decompose = decompose_coordinate_gradient;
  coordinates.internal = true;
  define(std::move(coordinates));
});

}  // namespace mpsgraph::ops
