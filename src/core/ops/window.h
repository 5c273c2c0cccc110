// The arithmetic of sliding windows, for convolution, pooling and stencils and for the kernels that run them.
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

// explicit_offset is the stencil's alone.
enum class PaddingStyle : uint8_t { explicit_padding, tf_valid, tf_same, explicit_offset, onnx_same_lower };
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
  // The positions from `first` on and before `last` are those where this tap reads inside.
  struct Positions {
    int64_t first, last;
  };
  Positions inside(int64_t tap) const {
    const int64_t shift = begin - tap * dilation, room = input - 1 + shift;  // position p reads p * stride - shift
    const int64_t first = shift > 0 ? (shift + stride - 1) / stride : 0;
    return {first, std::max(first, std::min(output, room < 0 ? 0 : room / stride + 1))};
  }
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

// The attributes that every operation with windows has, by windowed axis, slowest first.
//
// The layout is the attribute data_layout, or channel_dimension_index (one of the last four axes, the others have
// windows), or without either the last four axes have windows. Axes count from the end, so that what stands in front
// of those that the layout names is batch, whatever its rank.
struct Windows {
  static constexpr int most = 4;
  int count = 0;       // windowed axes
  int fixed_rank = 0;  // what the rank of the source must be; 0: 4 or more
  int channel = 0;     // axis, from -1; 0: there is none
  std::array<int, most> spatial{};
  std::array<int64_t, most> strides{}, dilations{}, begin{}, end{};
  PaddingStyle style = PaddingStyle::explicit_padding;
  bool ceil_mode = false;

  Windows() = default;
  explicit Windows(const Attributes& attributes);  // of an operation that passed inference
  std::optional<Window> window(int i, int64_t input, int64_t kernel) const {
    return make_window(input, kernel, strides[i], dilations[i], style, begin[i], end[i], ceil_mode);
  }
};

// The size at an axis that counts from the end; -1 when the shape is unranked.
inline int64_t size_at(const Dims& dims, int axis) { return dims[dims.size() - static_cast<size_t>(-axis)]; }
inline int64_t size_at(const Shape& shape, int axis) { return shape.ranked() ? size_at(shape.dims(), axis) : -1; }

// What inference needs beyond that. `count` is the number of windowed axes that the operation has.
inline constexpr int64_t window_limit = int64_t{1} << 31;
Windows checked_windows(const InferContext& context, int count);
// That many numbers, each at least `least`.
void require_numbers(const InferContext& context, std::string_view attribute, int count, int64_t least);
// Output size of windowed axis `i` for a kernel size; -1 when one of the sizes is unknown.
int64_t output_size(const InferContext& context, const Windows& windows, int i, int64_t input, int64_t kernel);
// The shape of an operand laid out as the source; all sizes unknown, or unranked, when its rank is.
Shape image(const InferContext& context, size_t input, const Windows& windows);
// `like` with other sizes at the axes of windows and channels (which is ignored when there are none).
using Sizes = std::array<int64_t, Windows::most>;
// The shape of an image that a shape operand states, when the other operands imply `implied` (unranked: nothing).
Shape stated_image(const InferContext& context, size_t input, const Windows& windows, const Shape& implied = Shape());
Shape image_shape(const Windows& windows, const Shape& like, int64_t channels, const Sizes& sizes);
inline constexpr Sizes unknown_sizes{-1, -1, -1, -1};

// strides, dilations, padding style and padding for windows over `count` axes; `others` are added, and may override.
std::vector<AttributeSpec> window_attributes(int count, std::vector<AttributeSpec> others);
AttributeSpec layout_attribute(int count);  // data_layout, for 2 or 3 windowed axes

}  // namespace mpsgraph::ops
