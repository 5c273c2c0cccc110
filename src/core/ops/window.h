// The arithmetic of sliding windows, for convolution and pooling and for the kernels that run them.
//
// A window of `kernel` taps, `dilation` apart, moves over an axis in steps of `stride`. The padding
// style says how much is added at both ends of the axis, or how many positions the window takes.
// Nothing here knows what happens at a position.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/definition.h"

namespace mpsgraph::ops {

enum class PaddingStyle : uint8_t { explicit_padding, tf_valid, tf_same, onnx_same_lower };
std::optional<PaddingStyle> padding_style_from_name(std::string_view name);

// One axis, with its effective padding: what TF_SAME adds is in begin and end.
struct Window {
  int64_t input = 0;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t output = 0;    // positions of the window
  int64_t overhang = 0;  // what the last position covers beyond the end padding; only with ceil_mode

  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  // Where tap `tap` of position `position` reads; outside [0, input) it is padding.
  int64_t at(int64_t position, int64_t tap) const { return position * stride + tap * dilation - begin; }
};

// `begin` and `end` count for explicit padding only. No window when the kernel does not fit into a non-empty input;
// an empty input has no positions, unless padding makes some. Sizes are below 2^31, `input` below 2^62.
inline std::optional<Window> make_window(int64_t input, int64_t kernel, int64_t stride, int64_t dilation,
                                         PaddingStyle style, int64_t begin, int64_t end, bool ceil_mode) {
  Window w{input, kernel, stride, dilation};
  if (style == PaddingStyle::tf_same || style == PaddingStyle::onnx_same_lower) {
    w.output = (input + stride - 1) / stride;
    const int64_t total = std::max<int64_t>((w.output - 1) * stride + w.reach() - input, 0);
    const int64_t smaller = w.output ? total / 2 : 0, larger = w.output ? total - total / 2 : 0;
    w.begin = style == PaddingStyle::tf_same ? smaller : larger;
    w.end = style == PaddingStyle::tf_same ? larger : smaller;
    return w;
  }
  if (style == PaddingStyle::explicit_padding) w.begin = begin, w.end = end;
  const int64_t room = input + w.begin + w.end - w.reach();
  if (room < 0 && input > 0) return std::nullopt;
  if (room < 0) return w;
  w.output = room / stride + 1;
  // The last, partly covered position counts when it starts before the end padding.
  if (ceil_mode && room % stride != 0 && w.output * stride < input + w.begin) ++w.output;
  w.overhang = std::max<int64_t>((w.output - 1) * stride - room, 0);
  return w;
}

// The attributes that every operation with 2D windows has; pairs are [y, x].
struct Windows2d {
  int batch = 0, channel = 0;
  std::array<int, 2> spatial{};  // axes of height and width
  std::array<int64_t, 2> strides{}, dilations{}, begin{}, end{};
  PaddingStyle style = PaddingStyle::tf_valid;
  bool ceil_mode = false;

  Windows2d() = default;
  explicit Windows2d(const Attributes& attributes);  // of an operation that passed inference
  std::optional<Window> window(int i, int64_t input, int64_t kernel) const {
    return make_window(input, kernel, strides[i], dilations[i], style, begin[i], end[i], ceil_mode);
  }
};

// What inference needs beyond that. `what` names the operand in messages.
inline constexpr int64_t window_limit = int64_t{1} << 31;
Windows2d checked_windows(const InferContext& context);
void require_pair(const InferContext& context, std::string_view attribute, int64_t least);
// Output size of axis `i` for a kernel size; -1 when one of the sizes is unknown.
int64_t output_size(const InferContext& context, const Windows2d& windows, int i, int64_t input, int64_t kernel);
// The shape with these sizes in the order of the layout.
Shape image_shape(const Windows2d& windows, int64_t batch, int64_t channels, int64_t height, int64_t width);
// The shape of a source operand, or all unknown when unranked; ShapeError when it is not of rank 4.
Dims image_dims(const InferContext& context, size_t input);

// strides, dilations, padding and layout, which the operations of both families share; `others` may override.
std::vector<AttributeSpec> window_attributes(std::vector<AttributeSpec> others);

}  // namespace mpsgraph::ops
