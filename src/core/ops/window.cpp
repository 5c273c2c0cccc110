// The checks of window attributes, which convolution and pooling share. The arithmetic is in window.h.
#include "core/ops/window.h"

namespace mpsgraph::ops {

namespace {

constexpr std::array<std::string_view, 2> axis_names{"height", "width"};

}  // namespace

std::optional<PaddingStyle> padding_style_from_name(std::string_view name) {
  if (name == "EXPLICIT") return PaddingStyle::explicit_padding;
  if (name == "TF_VALID") return PaddingStyle::tf_valid;
  if (name == "TF_SAME") return PaddingStyle::tf_same;
  if (name == "ONNX_SAME_LOWER") return PaddingStyle::onnx_same_lower;
  return std::nullopt;
}

Windows2d::Windows2d(const Attributes& attributes) {
  const bool channels_last = attributes.string("data_layout") == "NHWC";
  channel = channels_last ? 3 : 1;
  spatial = channels_last ? std::array{1, 2} : std::array{2, 3};
  style = *padding_style_from_name(attributes.string("padding_style"));
  const Ints& padding = attributes.integers("padding");
  for (int i = 0; i < 2; ++i) {
    strides[i] = attributes.integers("strides")[i];
    dilations[i] = attributes.integers("dilations")[i];
    begin[i] = padding[2 * i];
    end[i] = padding[2 * i + 1];
  }
  ceil_mode = attributes.has("ceil_mode") && attributes.boolean("ceil_mode");
}

void require_pair(const InferContext& context, std::string_view attribute, int64_t least) {
  const Ints& values = context.attributes.integers(attribute);
  const auto outside = [least](int64_t v) { return v < least || v >= window_limit; };
  if (values.size() != 2 || std::any_of(values.begin(), values.end(), outside))
    context.shape_error(
        cat(attribute, " must be two numbers [y, x] from ", least, " to 2^31, came ", to_string(values)));
}

Windows2d checked_windows(const InferContext& context) {
  const Attributes& attributes = context.attributes;
  require_pair(context, "strides", 1);
  require_pair(context, "dilations", 1);
  const Ints& padding = attributes.integers("padding");
  if (padding.size() != 4)
    context.shape_error(cat("padding must be four numbers [top, bottom, left, right], came ", to_string(padding)));
  for (int64_t p : padding)
    if (p < 0 || p >= window_limit)
      context.shape_error(cat("padding must be from 0 to 2^31, came ", to_string(padding), "; use slice to crop"));
  const std::string& style = attributes.string("padding_style");
  if (!padding_style_from_name(style))
    context.graph_error(cat("padding_style '", style, "' is not one of EXPLICIT, TF_VALID, TF_SAME, ONNX_SAME_LOWER"));
  if (style != "EXPLICIT" && padding != Ints{0, 0, 0, 0})
    context.graph_error(cat("padding ", to_string(padding), " counts with padding_style EXPLICIT only, came ", style));
  const std::string& layout = attributes.string("data_layout");
  if (layout != "NHWC" && layout != "NCHW")
    context.graph_error(cat("data_layout '", layout, "' is not one of NHWC, NCHW"));
  return Windows2d(attributes);
}

int64_t output_size(const InferContext& context, const Windows2d& windows, int i, int64_t input, int64_t kernel) {
  if (input < 0 || kernel < 0) return -1;
  if (kernel == 0 || kernel >= window_limit)
    context.shape_error(cat("kernel ", axis_names[i], " must be from 1 to 2^31, came ", kernel));
  if (const auto window = windows.window(i, input, kernel)) return window->output;
  context.shape_error(cat(
      "the kernel covers ", (kernel - 1) * windows.dilations[i] + 1, " of the ", axis_names[i], ", source has ", input,
      " (axis ", windows.spatial[i], ") and padding ",
      windows.style == PaddingStyle::explicit_padding ? cat(windows.begin[i], " + ", windows.end[i]) : std::string("0"),
      "; pad the source or use a smaller kernel or dilation"));
}

Shape image_shape(const Windows2d& windows, int64_t batch, int64_t channels, int64_t height, int64_t width) {
  Dims dims(4);
  dims[windows.batch] = batch;
  dims[windows.channel] = channels;
  dims[windows.spatial[0]] = height;
  dims[windows.spatial[1]] = width;
  return Shape(std::move(dims));
}

Dims image_dims(const InferContext& context, size_t input) {
  context.require_rank(input, 4);
  return context.shape(input).ranked() ? context.shape(input).dims() : Dims(4, -1);
}

std::vector<AttributeSpec> window_attributes(std::vector<AttributeSpec> others) {
  std::vector<AttributeSpec> specs = std::move(others);
  for (AttributeSpec& shared : std::vector<AttributeSpec>{
           optional("strides", Ints{1, 1}), optional("dilations", Ints{1, 1}),
           optional("padding_style", std::string("TF_VALID")), optional("padding", Ints{0, 0, 0, 0}),
           optional("data_layout", std::string("NHWC"))}) {
    const auto same_name = [&](const AttributeSpec& spec) { return spec.name == shared.name; };
    if (std::none_of(specs.begin(), specs.end(), same_name)) specs.push_back(std::move(shared));
  }
  return specs;
}

}  // namespace mpsgraph::ops
