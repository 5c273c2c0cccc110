// Operation family stencil: a weighted reduction over windows of the last four axes. Along each axis,
//
//   result[..., i] = reduction over j of source[..., i * stride + j * dilation - begin] * weights[j]
//
// The boundary mode determines which values a window reads outside the source. A stencil is therefore decomposed into a
// pad (or a slice, if an offset starts inside) and stencil_windows, which has no boundary and carries the derivative.
// A stencil that sums is bilinear, like a convolution. A minimum or maximum passes its gradient to the chosen filter
// tap, using the operations of max_pooling4d with indices. A product is decomposed into a product of slices.
#include "core/ops/pooling.h"
#include "core/ops/primitive.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

namespace {

constexpr std::string_view reduction_modes = "sum, product, minimum, maximum, arg_minimum or arg_maximum";

bool is_arg(std::string_view mode) { return mode == "arg_minimum" || mode == "arg_maximum"; }

std::string checked_reduction_mode(const InferContext& context) {
  const std::string& mode = context.attributes.string("reduction_mode");
  for (std::string_view known : {"sum", "product", "minimum", "maximum", "arg_minimum", "arg_maximum"})
    if (mode == known) return mode;
  context.graph_error(cat("reduction_mode must be ", reduction_modes, ", got '", mode, "'"));
}

Shape kernel_shape(const InferContext& context, size_t input) {
  context.require_rank(input, 4);
  return context.shape(input).ranked() ? context.shape(input) : Shape{-1, -1, -1, -1};
}

void require_stencil_operands(const InferContext& context) {
  context.require_float(0);
  context.require_same_dtype(0, 2);
}

// ---- without a boundary ----
Shape windowed(const InferContext& context, const Windows& w, const Shape& source, const Shape& weights) {
  Sizes sizes = unknown_sizes;
  for (int i = 0; i < 4; ++i) sizes[i] = output_size(context, w, i, size_at(source, w.spatial[i]), weights[i]);
  return image_shape(w, source, -1, sizes);
}

std::vector<TensorType> infer_windows(const InferContext& context) {
  require_stencil_operands(context);
  const Windows w = checked_windows(context, 4);
  const Shape shape = windowed(context, w, image(context, 0, w), kernel_shape(context, 1));
  return {{is_arg(checked_reduction_mode(context)) ? DType::int32 : context.dtype(0), shape}};
}

// Gradient of a stencil with respect to its source. Operands: incoming gradient, weights, output_shape.
std::vector<TensorType> infer_stencil_data_gradient(const InferContext& context) {
  require_stencil_operands(context);
  const Windows w = checked_windows(context, 4);
  const Shape incoming = image(context, 0, w);
  const Shape source = stated_image(context, 2, w, image_shape(w, incoming, -1, unknown_sizes));
  const Shape forward = windowed(context, w, source, kernel_shape(context, 1));
  if (!compatible(forward, incoming))
    context.shape_error(cat("incoming gradient must have the shape ", forward, " of the stencil's result, got ",
                            incoming, ": source ", source));
  return {{context.dtype(0), source}};
}

// Gradient of a stencil with respect to its weights. Operands: incoming gradient, source, output_shape.
std::vector<TensorType> infer_stencil_weights_gradient(const InferContext& context) {
  require_stencil_operands(context);
  const Windows w = checked_windows(context, 4);
  const Shape weights = stated_shape(context, 2, {-1, -1, -1, -1}), incoming = image(context, 0, w);
  const Shape forward = windowed(context, w, image(context, 1, w), weights);
  if (!compatible(forward, incoming))
    context.shape_error(cat("incoming gradient must have the shape ", forward, " of the stencil's result, got ",
                            incoming, ": weights ", weights));
  return {{context.dtype(0), weights}};
}

struct StencilGradients {
  GradientContext& g;

  Attributes windows() const {
    Attributes attributes = g.attributes();
    attributes.erase("reduction_mode");
    return attributes;
  }
  Tensor* stencil(Tensor* source, Tensor* weights) const {
    Attributes attributes = windows();
    attributes.set("reduction_mode", std::string("sum"));
    return g.graph().add("stencil_windows", {source, weights}, attributes);
  }
  Tensor* d_source(Tensor* incoming, Tensor* weights, Tensor* source) const {
    Tensor* shape = Builder(g.graph()).shape_of(source);
    return g.graph().add("stencil_windows_data_gradient", {incoming, weights, shape}, windows());
  }
  Tensor* d_weights(Tensor* incoming, Tensor* source, Tensor* weights) const {
    Tensor* shape = Builder(g.graph()).shape_of(weights);
    return g.graph().add("stencil_windows_weights_gradient", {incoming, source, shape}, windows());
  }
};

// Derivative of a minimum or maximum stencil. Each result is source[tap] * weights[tap] for the tap that was chosen.
void d_stencil_extremum(GradientContext& g) {
  Tensor *source = g.input(0), *weights = g.input(1);
  if (!weights->shape().known())
    throw ShapeError(cat("[stencil] the weights of '", g.operation.name,
                         "' must have a static shape to differentiate a minimum or maximum, got ", weights->shape(),
                         g.operation.where()));
  Builder b(g.graph());
  Attributes chosen = g.attributes(), windows = g.attributes();
  chosen.set("reduction_mode", "arg_" + g.attributes().string("reduction_mode"));
  Tensor* taps = g.graph().add("stencil_windows", {source, weights}, chosen);
  windows.erase("reduction_mode");
  windows.set("kernel", weights->shape().dims());
  windows.set("return_indices_mode", std::string("local_flatten_4d"));
  Tensor* flat = b.reshape(weights, Ints{weights->shape().elements()});
  const Attributes along{{"axis", int64_t{0}}};
  if (g.needs(0)) {
    Tensor* share = b.mul(g.incoming(), g.graph().add("gather", {flat, taps}, along));
    g.set(0, g.graph().add("max_pooling4d_gradient_from_indices", {share, taps, b.shape_of(source)}, windows));
  }
  if (g.needs(1)) {
    Tensor* share = b.mul(g.incoming(), g.graph().add("max_pooling4d_at_indices", {source, taps}, windows));
    Tensor* sums = g.graph().add("gather_gradient", {share, taps, b.shape_of(flat)}, along);
    g.set(1, b.reshape(sums, weights->shape().dims()));
  }
}

void d_windows(GradientContext& g) {
  if (g.attributes().string("reduction_mode") != "sum") return d_stencil_extremum(g);
  const StencilGradients make{g};
  Tensor *source = g.input(0), *weights = g.input(1);
  if (g.needs(0)) g.set(0, make.d_source(g.incoming(), weights, source));
  if (g.needs(1)) g.set(1, make.d_weights(g.incoming(), source, weights));
}

void d_stencil_data_gradient(GradientContext& g) {
  const StencilGradients make{g};
  if (g.needs(0)) g.set(0, make.stencil(g.incoming(), g.input(1)));
  if (g.needs(1)) g.set(1, make.d_weights(g.input(0), g.incoming(), g.input(1)));
}

void d_stencil_weights_gradient(GradientContext& g) {
  const StencilGradients make{g};
  if (g.needs(0)) g.set(0, make.stencil(g.input(1), g.incoming()));
  if (g.needs(1)) g.set(1, make.d_source(g.input(0), g.incoming(), g.input(1)));
}

// ---- with a boundary ----

// Number of elements that a stencil's boundary adds before and after an axis. A negative number removes elements.
struct Margin {
  int64_t before = 0, after = 0;
};

// The windows along axis `i`; nullopt if no window fits. An explicit offset, at which the first window starts, is
// treated like explicit padding.
std::optional<Window> stencil_window(const Attributes& attributes, const Windows& w, int i, int64_t size,
                                     int64_t kernel) {
  const bool offset = w.style == PaddingStyle::explicit_offset;
  auto window = make_window(size, kernel, w.strides[i], w.dilations[i],
                            offset ? PaddingStyle::explicit_padding : w.style, w.begin[i], w.end[i], false);
  if (window && offset) {
    const int64_t start = attributes.integers("offsets")[i];
    window->end += window->begin + start;
    window->begin = -start;
  }
  return window;
}

// Whether the padding depends on the size of the axis: with TF_SAME and ONNX_SAME_LOWER it does unless the stride is 1.
bool needs_size(const Windows& w, int i) {
  return (w.style == PaddingStyle::tf_same || w.style == PaddingStyle::onnx_same_lower) && w.strides[i] > 1;
}

Margin margin(const Attributes& attributes, const Windows& w, int i, int64_t size, int64_t kernel) {
  const int64_t reach = (kernel - 1) * w.dilations[i] + 1;
  const auto window = stencil_window(attributes, w, i, size < 0 ? reach : size, kernel);
  return {window->begin, window->end};
}

std::vector<TensorType> infer_stencil(const InferContext& context) {
  require_stencil_operands(context);
  const Attributes& attributes = context.attributes;
  const std::string mode = checked_reduction_mode(context);
  const std::string& boundary = attributes.string("boundary_mode");
  const auto pad_mode = pad_mode_from_name(boundary);
  if (!pad_mode)
    context.graph_error(cat("boundary_mode must be constant, reflect, symmetric, clamp_to_edge, zero, periodic or ",
                            "anti_periodic, got '", boundary, "'"));
  const Windows w = checked_windows(context, 4);
  require_numbers(context, "offsets", 4, -window_limit);
  const Ints& offsets = attributes.integers("offsets");
  if (w.style != PaddingStyle::explicit_offset &&
      std::any_of(offsets.begin(), offsets.end(), [](int64_t o) { return o; }))
    context.graph_error(cat("offsets require padding_style EXPLICIT_OFFSET, got offsets ", to_string(offsets), " with ",
                            attributes.string("padding_style")));
  const Shape source = image(context, 0, w), weights = kernel_shape(context, 1);
  Sizes sizes = unknown_sizes;
  for (int i = 0; i < 4; ++i) {
    const int64_t size = size_at(source, w.spatial[i]), kernel = weights[i];
    if (kernel == 0 || kernel >= window_limit)
      context.shape_error(
          cat("weights must have at least 1 and less than 2^31 elements along each axis, got ", weights));
    if (size < 0 || kernel < 0) continue;
    const auto window = stencil_window(attributes, w, i, size, kernel);
    if (!window)
      context.shape_error(cat("the weights cover ", (kernel - 1) * w.dilations[i] + 1, " elements of axis ",
                              w.spatial[i], ", but source ", source, " has size ", size,
                              " along this axis, plus padding; pad it, or use fewer weights or a smaller dilation"));
    if (size == 0 && window->output > 0 && pad_mode != PadMode::constant)
      context.shape_error(cat("an empty axis requires boundary_mode constant, because boundary_mode '", boundary,
                              "' has nothing to repeat, got axis ", w.spatial[i], " of source ", source));
    sizes[i] = window->output;
  }
  return {{is_arg(mode) ? DType::int32 : context.dtype(0), image_shape(w, source, -1, sizes)}};
}

// Applies the boundary to the source: pads and crops it by the margins.
Tensor* with_margins(Builder& b, Tensor* source, const Attributes& attributes, const std::array<Margin, 4>& margins,
                     int rank) {
  Ints starts(rank, 0), ends(rank, 0), left(rank, 0), right(rank, 0);
  int64_t end_mask = (int64_t{1} << rank) - 1;
  bool cuts = false, pads = false;
  for (int i = 0; i < 4; ++i) {
    const auto [before, after] = margins[i];
    const int axis = rank - 4 + i;
    starts[axis] = std::max<int64_t>(-before, 0);
    if (after < 0) ends[axis] = after, end_mask &= ~(int64_t{1} << axis);
    left[axis] = std::max<int64_t>(before, 0);
    right[axis] = std::max<int64_t>(after, 0);
    cuts = cuts || before < 0 || after < 0;
    pads = pads || left[axis] > 0 || right[axis] > 0;
  }
  // Pad before cropping, because padding may repeat elements that cropping removes.
  const std::string& mode = attributes.string("boundary_mode");
  if (pads)
    source = b.graph().add("pad", {source},
                           {{"left", left},
                            {"right", right},
                            {"mode", mode},
                            {"value", mode == "constant" ? *attributes.find("padding_constant") : Attribute(0.0)}});
  if (!cuts) return source;
  return b.graph().add("slice", {source},
                       {{"starts", starts}, {"ends", ends}, {"strides", Ints(rank, 1)}, {"end_mask", end_mask}});
}

// Decomposes a product stencil into a product over all filter taps. The factor of a tap is its weight times the slice
// of source elements that the tap reads.
Tensor* product_of_taps(Builder& b, Tensor* source, Tensor* weights, const Windows& w, int rank) {
  const Dims& kernel = weights->shape().dims();
  Tensor* product = nullptr;
  for (int64_t tap = 0; tap < element_count(kernel); ++tap) {
    Ints starts(rank, 0), ends(rank, 0), steps(rank, 1), at(4);
    int64_t end_mask = (int64_t{1} << rank) - 1;
    for (int64_t i = 3, rest = tap; i >= 0; rest /= kernel[i--]) {
      const auto axis = rank - 4 + i;
      at[i] = rest % kernel[i];
      starts[axis] = at[i] * w.dilations[i];
      steps[axis] = w.strides[i];
      // A tap's slice ends early enough to leave room for the later taps. The end is negative, so it counts from the
      // end of the axis.
      ends[axis] = starts[axis] - (kernel[i] - 1) * w.dilations[i];
      if (ends[axis] < 0) end_mask &= ~(int64_t{1} << axis);
    }
    Tensor* seen = b.graph().add("slice", {source},
                                 {{"starts", starts}, {"ends", ends}, {"strides", steps}, {"end_mask", end_mask}});
    Ints behind = at;
    for (int64_t& i : behind) ++i;
    Tensor* weight = b.graph().add("slice", {weights}, {{"starts", at}, {"ends", behind}, {"strides", Ints(4, 1)}});
    Tensor* factor = b.mul(seen, weight);
    product = product ? b.mul(product, factor) : factor;
  }
  return product;
}

std::vector<Tensor*> decompose_stencil(Builder& b, const std::vector<Tensor*>& inputs, const Attributes& attributes) {
  const Windows w(attributes);
  Tensor *source = inputs[0], *weights = inputs[1];
  std::array<Margin, 4> margins;
  for (int i = 0; i < 4; ++i) {
    const int64_t size = size_at(source->shape(), w.spatial[i]), kernel = size_at(weights->shape(), i - 4);
    const bool same = w.style == PaddingStyle::tf_same || w.style == PaddingStyle::onnx_same_lower;
    if (!source->shape().ranked() || (same && kernel < 0) || (needs_size(w, i) && size < 0))
      throw ShapeError(cat("[stencil] source and weights must have static shapes with padding_style ",
                           attributes.string("padding_style"), ", got source ", source->shape(), " and weights ",
                           weights->shape()));
    margins[i] = margin(attributes, w, i, size, std::max<int64_t>(kernel, 1));
  }
  const int rank = source->shape().rank();
  const std::string& mode = attributes.string("reduction_mode");
  Tensor* bounded = with_margins(b, source, attributes, margins, rank);
  if (mode == "product") {
    if (!weights->shape().known())
      throw ShapeError(
          cat("[stencil] the weights must have a static shape with reduction_mode product, got ", weights->shape()));
    return {product_of_taps(b, bounded, weights, w, rank)};
  }
  return {b.graph().add("stencil_windows", {bounded, weights},
                        {{"reduction_mode", mode},
                         {"strides", attributes.integers("strides")},
                         {"dilations", attributes.integers("dilations")}})};
}

}  // namespace

const Family stencil_family("stencil", [] {
  const AttributeSpec mode = optional("reduction_mode", std::string("sum"));
  OperationDefinition stencil = primitive(
      "stencil", 2,
      window_attributes(4, {mode, optional("offsets", Ints{0, 0, 0, 0}), optional("boundary_mode", std::string("zero")),
                            optional("padding_style", std::string("EXPLICIT")), optional("padding_constant", 0.0)}),
      infer_stencil, {});
  stencil.decompose = decompose_stencil;
  define(std::move(stencil));

  const auto internal = [](Kind name, int inputs, std::vector<AttributeSpec> others, Infer infer, Gradient gradient) {
    OperationDefinition d =
        primitive(name, inputs, window_attributes(4, std::move(others)), std::move(infer), std::move(gradient));
    d.internal = true;
    define(std::move(d));
  };
  internal("stencil_windows", 2, {mode}, infer_windows, d_windows);
  internal("stencil_windows_data_gradient", 3, {}, infer_stencil_data_gradient, d_stencil_data_gradient);
  internal("stencil_windows_weights_gradient", 3, {}, infer_stencil_weights_gradient, d_stencil_weights_gradient);
});

}  // namespace mpsgraph::ops
