// How the attributes of a pooling describe its windows: layout, kernel, and padding.
//
// Padding is never the maximum of a window. In an average, padding counts as zeros if include_zero_pad_to_average is
// set, otherwise it is excluded; elements that ceil_mode adds beyond the padding are always excluded. A window that
// covers only padding (possible with dilation) has the lowest value as its maximum, at index -1, and 0 as its average.
#pragma once

#include "core/ops/window.h"

namespace mpsgraph::ops {

// Pooling over the two spatial axes of images, or over the last four axes of any tensor.
struct Pooling : Windows {
  std::array<int64_t, most> kernel{};
  bool include_zero_pad_to_average = false;

  explicit Pooling(const Attributes& attributes) : Pooling(Windows(attributes), attributes) {}
  Pooling(const Windows& windows, const Attributes& attributes) : Windows(windows) {
    for (int i = 0; i < count; ++i) kernel[i] = attributes.integers("kernel")[i];
    include_zero_pad_to_average =
        attributes.has("include_zero_pad_to_average") && attributes.boolean("include_zero_pad_to_average");
  }
  // The windows of a stencil, which span four axes, have no padding, and have the shape of the weights.
  Pooling(const Windows& windows, const Dims& weights) : Windows(windows) {
    for (int i = 0; i < count; ++i) kernel[i] = weights[static_cast<size_t>(i)];
  }
  Window window(int i, int64_t input) const { return *Windows::window(i, input, kernel[i]); }
};

// The elements that a window covers along one axis: `count` filter taps from `first` on lie inside the input.
// `divisor`, the number of taps by which an average divides, may include padding.
struct PoolingTaps {
  int64_t first = 0;
  int64_t count = 0;
  int64_t divisor = 0;
};
inline PoolingTaps pooling_taps(const Window& w, int64_t position, bool include_padding) {
  const auto taps_below = [&](int64_t limit) {  // number of taps that read an index less than `limit`
    const int64_t distance = limit - w.at(position, 0);
    return std::clamp<int64_t>((distance + w.dilation - 1) / w.dilation, 0, w.kernel);
  };
  const int64_t first = w.at(position, 0) < 0 ? taps_below(0) : 0;
  const int64_t count = std::max<int64_t>(taps_below(w.input) - first, 0);
  return {first, count, include_padding ? taps_below(w.input + w.end) : count};
}

// What the index of a maximum counts: positions over the last `axes` axes in row-major order, either among the elements
// of the source (global) or among the taps of the window (local).
struct IndicesMode {
  bool global = true;
  int axes = 4;
};
std::optional<IndicesMode> indices_mode_from_name(std::string_view name);  // accepts names such as "global_flatten_2d"
// Whether an index, together with the position of its window, identifies a source element. It does not if the window
// extends over an axis that the index does not count.
bool locates(const IndicesMode& mode, const Pooling& pooling);

// Functions shared by the files of the family pooling.
Pooling checked_pooling(const InferContext& context, int axes);
Shape pooled(const InferContext& context, const Pooling& pooling, const Shape& source);
// The shape of a pooling's source, inferred by its gradient from the incoming gradient (operand 0) and from `stated`,
// the part of the shape that the other operands specify.
Shape unpooled(const InferContext& context, const Pooling& pooling, const Shape& stated);
// Definition of a pooling over two or four axes, with `others` in addition to the attributes of every pooling.
OperationDefinition pooling_definition(Kind name, int axes, int inputs, std::vector<AttributeSpec> others, Infer infer,
                                       Gradient gradient);

}  // namespace mpsgraph::ops
