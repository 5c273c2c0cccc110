// The arithmetic of sliding windows, shared by convolution, pooling, stencils, and their kernels.
//
// A window of `kernel` taps, `dilation` apart, moves along an axis in steps of `stride`. The padding style determines
// how much padding is added at both ends of the axis, or how many positions the window takes. This header is
// independent of the computation at each position.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/definition.h"

namespace mpsgraph::ops {

// Only stencils use explicit_offset.
enum class PaddingStyle : uint8_t { explicit_padding, tf_valid, tf_same, explicit_offset, onnx_same_lower };
std::optional<PaddingStyle> padding_style_from_name(std::string_view name);

// A window along one axis. `begin` and `end` are the effective padding, which includes the padding added by TF_SAME.
struct Window {
  int64_t input = 0;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t output = 0;    // number of window positions
  int64_t overhang = 0;  // how far the last position extends beyond the end padding; only with ceil_mode

  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  // The input index that tap `tap` reads at position `position`. Indices outside [0, input) are padding.
  int64_t at(int64_t position, int64_t tap) const { return position * stride + tap * dilation - begin; }
  // The half-open range [first, last) of positions at which this tap reads inside the input.
  struct Positions {
    int64_t first, last;
  };
  Positions inside(int64_t tap) const {
    // Tap `tap` at window position p reads input index p * stride - shift.
    const int64_t shift = begin - tap * dilation, room = input - 1 + shift;
    const int64_t first = shift > 0 ? (shift + stride - 1) / stride : 0;
    return {first, std::max(first, std::min(output, room < 0 ? 0 : room / stride + 1))};
  }
};

// Computes the window along one axis. `begin` and `end` are used only with explicit padding. Returns nullopt if the
// kernel does not fit into the input. An input of size 0 has no window positions unless padding provides some. `input`
// must be below 2^62, all other sizes below 2^31.
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
  // With ceil_mode, a last window that extends beyond the padded input is kept if it starts before the padding at the
  // end.
  if (ceil_mode && room % stride != 0 && w.output * stride < input + w.begin) ++w.output;
  w.overhang = std::max<int64_t>((w.output - 1) * stride - room, 0);
  return w;
}

// The attributes common to all operations with windows, with one entry per windowed axis, slowest-varying axis first.
//
// The layout is given by data_layout, or by channel_dimension_index (the channel axis among the last four axes; the
// other three are windowed). If the operation has neither attribute, the last four axes are windowed. Axes count from
// the end, so all axes before the ones that the layout names are batch axes, for any rank.
struct Windows {
  static constexpr int most = 4;
  int count = 0;       // number of windowed axes
  int fixed_rank = 0;  // required rank of the source; 0 if any rank of at least 4 is allowed
  int channel = 0;     // channel axis, counted from the end (negative); 0 if there is none
  std::array<int, most> spatial{};
  std::array<int64_t, most> strides{}, dilations{}, begin{}, end{};
  PaddingStyle style = PaddingStyle::explicit_padding;
  bool ceil_mode = false;

  Windows() = default;
  explicit Windows(const Attributes& attributes);  // `attributes` must belong to an operation that has passed inference
  std::optional<Window> window(int i, int64_t input, int64_t kernel) const {
    return make_window(input, kernel, strides[i], dilations[i], style, begin[i], end[i], ceil_mode);
  }
};

// The size of the axis `axis`, which is given as a negative number counted from the end; -1 if the shape is unranked.
inline int64_t size_at(const Dims& dims, int axis) { return dims[dims.size() - static_cast<size_t>(-axis)]; }
inline int64_t size_at(const Shape& shape, int axis) { return shape.ranked() ? size_at(shape.dims(), axis) : -1; }

inline constexpr int64_t window_limit = int64_t{1} << 31;  // exclusive limit for sizes other than `input`

// Reads and checks the window attributes, for use by type inference only. `count` is the number of windowed axes of the
// operation.
Windows checked_windows(const InferContext& context, int count);
// Throws unless the attribute holds exactly `count` numbers, each of them at least `least`.
void require_numbers(const InferContext& context, std::string_view attribute, int count, int64_t least);
// The number of window positions along windowed axis `i` for these input and kernel sizes; -1 if a size is unknown.
int64_t output_size(const InferContext& context, const Windows& windows, int i, int64_t input, int64_t kernel);
// The shape of operand `input`, which must have the source's layout. If the operand is unranked but the layout
// determines the rank, all dimensions are unknown.
Shape image(const InferContext& context, size_t input, const Windows& windows);
using Sizes = std::array<int64_t, Windows::most>;
// The shape of an image specified by a shape operand, checked against `implied`, the shape that the other operands
// imply (unranked if they imply nothing).
Shape stated_image(const InferContext& context, size_t input, const Windows& windows, const Shape& implied = Shape());
// The shape `like` with its windowed axes set to `sizes` and its channel axis, if there is one, set to `channels`.
Shape image_shape(const Windows& windows, const Shape& like, int64_t channels, const Sizes& sizes);
inline constexpr Sizes unknown_sizes{-1, -1, -1, -1};

// The attributes strides, dilations, padding_style, and padding for windows over `count` axes, together with `others`,
// which may override them.
std::vector<AttributeSpec> window_attributes(int count, std::vector<AttributeSpec> others);
AttributeSpec layout_attribute(int count);  // the attribute data_layout, for 2 or 3 windowed axes

}  // namespace mpsgraph::ops
