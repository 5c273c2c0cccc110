// Checks of window attributes, shared by convolution, pooling, and stencils. The arithmetic is in window.h.
#include "core/ops/window.h"

#include "core/ops/shape.h"

namespace mpsgraph::ops {

namespace {

// The name of a windowed axis in messages.
std::string axis_name(const Windows& windows, int i) {
  constexpr std::array<std::string_view, 3> names{"depth", "height", "width"};
  if (windows.channel == 0) return cat("axis ", windows.spatial[i]);
  return std::string(names[static_cast<size_t>(i + 3 - windows.count)]);
}

std::vector<std::string_view> data_layouts(int count) {
  return count == 2 ? std::vector<std::string_view>{"NHWC", "NCHW"} : std::vector<std::string_view>{"NDHWC", "NCDHW"};
}

}  // namespace

std::optional<PaddingStyle> padding_style_from_name(std::string_view name) {
  if (name == "EXPLICIT") return PaddingStyle::explicit_padding;
  if (name == "TF_VALID") return PaddingStyle::tf_valid;
  if (name == "TF_SAME") return PaddingStyle::tf_same;
  if (name == "EXPLICIT_OFFSET") return PaddingStyle::explicit_offset;
  if (name == "ONNX_SAME_LOWER") return PaddingStyle::onnx_same_lower;
  return std::nullopt;
}

Windows::Windows(const Attributes& attributes) {
  const Ints& padding = attributes.integers("padding");
  count = static_cast<int>(padding.size() / 2);
  if (const Attribute* layout = attributes.find("data_layout")) {
    fixed_rank = count + 2;
    channel = std::get<std::string>(*layout).back() == 'C' ? -1 : -1 - count;
  } else if (const Attribute* axis = attributes.find("channel_dimension_index")) {
    channel = static_cast<int>(std::get<int64_t>(*axis));
  }
  const int named = count + (channel == 0 ? 0 : 1);
  for (int axis = -named, i = 0; axis < 0; ++axis)
    if (axis != channel) spatial[i++] = axis;
  if (attributes.has("padding_style")) style = *padding_style_from_name(attributes.string("padding_style"));
  for (int i = 0; i < count; ++i) {
    strides[i] = attributes.integers("strides")[i];
    dilations[i] = attributes.integers("dilations")[i];
    begin[i] = padding[2 * i];
    end[i] = padding[2 * i + 1];
  }
  ceil_mode = attributes.has("ceil_mode") && attributes.boolean("ceil_mode");
}

void require_numbers(const InferContext& context, std::string_view attribute, int count, int64_t least) {
  const Ints& values = context.attributes.integers(attribute);
  const auto outside = [least](int64_t v) { return v < least || v >= window_limit; };
  if (values.size() != static_cast<size_t>(count) || std::any_of(values.begin(), values.end(), outside))
    context.shape_error(cat(attribute, " must be ", count, " numbers", count == 2 ? " [y, x]" : "", " of at least ",
                            least, " and less than 2^31, got ", to_string(values)));
}

Windows checked_windows(const InferContext& context, int count) {
  const Attributes& attributes = context.attributes;
  require_numbers(context, "strides", count, 1);
  require_numbers(context, "dilations", count, 1);
  const Ints& padding = attributes.integers("padding");
  if (padding.size() != static_cast<size_t>(2 * count))
    context.shape_error(cat("padding must be ", 2 * count, " numbers, before and after each axis",
                            count == 2 ? " [top, bottom, left, right]" : "", ", got ", to_string(padding)));
  for (int64_t p : padding)
    if (p < 0 || p >= window_limit)
      context.shape_error(
          cat("padding must be at least 0 and less than 2^31, got ", to_string(padding), "; use slice to crop"));
  if (attributes.has("padding_style")) {
    const std::string& name = attributes.string("padding_style");
    const auto style = padding_style_from_name(name);
    const bool offsets = attributes.has("offsets");
    if (!style || (style == PaddingStyle::explicit_offset && !offsets))
      context.graph_error(cat("padding_style must be one of EXPLICIT, TF_VALID, TF_SAME, ONNX_SAME_LOWER",
                              offsets ? ", EXPLICIT_OFFSET" : "", ", got '", name, "'"));
    const bool counts = style == PaddingStyle::explicit_padding || style == PaddingStyle::explicit_offset;
    if (!counts && std::any_of(padding.begin(), padding.end(), [](int64_t p) { return p != 0; }))
      context.graph_error(
          cat("padding requires padding_style EXPLICIT, got padding ", to_string(padding), " with ", name));
  }
  if (attributes.has("data_layout")) {
    const std::string& layout = attributes.string("data_layout");
    const auto layouts = data_layouts(count);
    if (std::find(layouts.begin(), layouts.end(), layout) == layouts.end())
      context.graph_error(cat("data_layout must be ", layouts[0], " or ", layouts[1], ", got '", layout, "'"));
  } else if (attributes.has("channel_dimension_index")) {
    const int64_t axis = attributes.integer("channel_dimension_index");
    if (axis < -4 || axis > -1)
      context.graph_error(cat("channel_dimension_index must be from -4 to -1, counted from the end, got ", axis));
  }
  return Windows(attributes);
}

int64_t output_size(const InferContext& context, const Windows& windows, int i, int64_t input, int64_t kernel) {
  if (input < 0 || kernel < 0) return -1;
  const std::string name = axis_name(windows, i);
  if (kernel == 0 || kernel >= window_limit)
    context.shape_error(cat("the kernel's ", name, " must be at least 1 and less than 2^31, got ", kernel));
  if (const auto window = windows.window(i, input, kernel)) return window->output;
  context.shape_error(cat(
      "the kernel covers ", (kernel - 1) * windows.dilations[i] + 1, " elements of the ", name,
      ", but source has size ", input,
      windows.fixed_rank ? cat(" (axis ", windows.fixed_rank + windows.spatial[i], ")") : std::string(),
      " plus padding ",
      windows.style == PaddingStyle::explicit_padding ? cat(windows.begin[i], " + ", windows.end[i]) : std::string("0"),
      "; pad the source or use a smaller kernel or dilation"));
}

Shape image_shape(const Windows& windows, const Shape& like, int64_t channels, const Sizes& sizes) {
  if (!like.ranked()) return like;
  Dims dims = like.dims();
  const auto at = [&](int axis) -> int64_t& { return dims[dims.size() - static_cast<size_t>(-axis)]; };
  if (windows.channel != 0) at(windows.channel) = channels;
  for (int i = 0; i < windows.count; ++i) at(windows.spatial[i]) = sizes[i];
  return Shape(std::move(dims));
}

Shape image(const InferContext& context, size_t input, const Windows& windows) {
  const Shape& shape = context.shape(input);
  if (windows.fixed_rank) {
    context.require_rank(input, windows.fixed_rank);
    return shape.ranked() ? shape : Shape(Dims(windows.fixed_rank, -1));
  }
  if (shape.ranked() && shape.rank() < 4)
    context.shape_error(cat("operand ", input, " must have rank 4 or more, got ", shape));
  return shape;
}

Shape stated_image(const InferContext& context, size_t input, const Windows& windows, const Shape& implied) {
  const bool any = !implied.ranked() && windows.fixed_rank;
  const Shape stated = stated_shape(context, input, any ? Shape(Dims(windows.fixed_rank, -1)) : implied);
  if (stated.ranked() && stated.rank() < 4)
    context.shape_error(cat("the shape operand must have 4 or more entries, got shape ", stated));
  return stated;
}

AttributeSpec layout_attribute(int count) { return optional("data_layout", std::string(data_layouts(count)[0])); }

std::vector<AttributeSpec> window_attributes(int count, std::vector<AttributeSpec> others) {
  std::vector<AttributeSpec> specs = std::move(others);
  for (AttributeSpec& spec : std::vector<AttributeSpec>{
           optional("strides", Ints(count, 1)), optional("dilations", Ints(count, 1)),
           optional("padding_style", std::string("TF_VALID")), optional("padding", Ints(2 * count, 0))}) {
    const auto same_name = [&](const AttributeSpec& other) { return other.name == spec.name; };
    if (std::none_of(specs.begin(), specs.end(), same_name)) specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace mpsgraph::ops
