// How a 2D pooling reads its source: layout, kernel and windows, from its attributes.
//
// Padding takes no part in a maximum. In an average it counts as zeros with include_zero_pad_to_average, and not at all
// without; what ceil_mode adds beyond the padding never counts. A window that only ever sees padding (possible with
// dilation) has the lowest value as its maximum, and 0 as its average.
#pragma once

#include "core/ops/window.h"

namespace mpsgraph::ops {

struct Pooling2d : Windows2d {
  std::array<int64_t, 2> kernel{};
  bool include_zero_pad_to_average = false;

  explicit Pooling2d(const Attributes& attributes) : Pooling2d(Windows2d(attributes), attributes) {}
  Pooling2d(const Windows2d& windows, const Attributes& attributes) : Windows2d(windows) {
    kernel = {attributes.integers("kernel")[0], attributes.integers("kernel")[1]};
    include_zero_pad_to_average =
        attributes.has("include_zero_pad_to_average") && attributes.boolean("include_zero_pad_to_average");
  }
  Window window(int i, int64_t input) const { return *Windows2d::window(i, input, kernel[i]); }
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

}  // namespace mpsgraph::ops
