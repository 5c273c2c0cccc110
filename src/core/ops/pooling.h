// How a pooling reads its source: layout, kernel and windows, from its attributes.
//
// Padding takes no part in a maximum. In an average it counts as zeros with include_zero_pad_to_average, and not at all
// without; what ceil_mode adds beyond the padding never counts. A window that only ever sees padding (possible with
// dilation) has the lowest value as its maximum, at index -1, and 0 as its average.
#pragma once

#include "core/ops/window.h"

namespace mpsgraph::ops {

// Over two axes of images, or over the last four axes of anything.
struct Pooling : Windows {
  std::array<int64_t, most> kernel{};
  bool include_zero_pad_to_average = false;

  explicit Pooling(const Attributes& attributes) : Pooling(Windows(attributes), attributes) {}
  Pooling(const Windows& windows, const Attributes& attributes) : Windows(windows) {
    for (int i = 0; i < count; ++i) kernel[i] = attributes.integers("kernel")[i];
    include_zero_pad_to_average =
        attributes.has("include_zero_pad_to_average") && attributes.boolean("include_zero_pad_to_average");
  }
  // Windows of a stencil: over four axes, without padding, of the weights' shape.
  Pooling(const Windows& windows, const Dims& weights) : Windows(windows) {
    for (int i = 0; i < count; ++i) kernel[i] = weights[static_cast<size_t>(i)];
  }
  Window window(int i, int64_t input) const { return *Windows::window(i, input, kernel[i]); }
};

// The elements of one axis that a window takes, from tap `first` on, `count` of them inside the input, and how many
// taps an average divides by.
struct PoolingTaps {
  int64_t first = 0;
  int64_t count = 0;
  int64_t divisor = 0;
};
inline PoolingTaps pooling_taps(const Window& w, int64_t position, bool include_padding) {
  const auto taps_below = [&](int64_t limit) {  // taps that read before `limit`
    const int64_t distance = limit - w.at(position, 0);
    return std::clamp<int64_t>((distance + w.dilation - 1) / w.dilation, 0, w.kernel);
  };
  const int64_t first = w.at(position, 0) < 0 ? taps_below(0) : 0;
  const int64_t count = std::max<int64_t>(taps_below(w.input) - first, 0);
  return {first, count, include_padding ? taps_below(w.input + w.end) : count};
}

// What an index of a maximum counts: elements of the source (global) or taps of the window (local), row by row over
// the last `axes` axes.
struct IndicesMode {
  bool global = true;
  int axes = 4;
};
std::optional<IndicesMode> indices_mode_from_name(std::string_view name);  // "global_flatten_2d"
// Can an index and the position of its window tell the element? Not when the window moves its taps over an axis that
// the index does not count.
bool locates(const IndicesMode& mode, const Pooling& pooling);

// What the files of the family share.
Pooling checked_pooling(const InferContext& context, int axes);
Shape pooled(const InferContext& context, const Pooling& pooling, const Shape& source);
// The source's shape for an incoming gradient, operand 0; `stated` is what the other operands say of it.
Shape unpooled(const InferContext& context, const Pooling& pooling, const Shape& stated);
// The definition of a pooling over two or four axes with these attributes beside those of every pooling.
OperationDefinition pooling_definition(std::string_view name, int axes, int inputs, std::vector<AttributeSpec> others,
                                       Infer infer, Gradient gradient);

}  // namespace mpsgraph::ops
