// What resizing means for one axis: which place of the input an element of the result shows. For inference and kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/definition.h"

namespace mpsgraph::ops {

enum class Rounding : uint8_t { round_prefer_ceil, round_prefer_floor, ceil, floor, round_to_even, round_to_odd };
std::optional<Rounding> rounding_from_name(std::string_view name);
// A place as an index in [0, size); what lies outside is its nearest edge, NaN the first.
int64_t rounded_index(double place, Rounding rounding, int64_t size);

// How places of the result and the input belong together. A given scale and offset go from input to result.
struct Placement {
  enum class Mode : uint8_t { top_left, centered, corners, given } mode = Mode::top_left;
  double scale = 1, offset = 0;
  double source(int64_t i, int64_t input, int64_t result) const;
};
Placement::Mode placement_mode(const Attributes& attributes);

// The axes that a layout resizes (all without one); nothing when the layout is none of NHWC, NCHW, HWC, CHW, HW or has
// another rank.
std::optional<std::vector<int>> resized_axes(std::string_view layout, int rank);

}  // namespace mpsgraph::ops
