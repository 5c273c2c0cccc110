// How resizing along one axis maps elements of the result to positions in the input, shared by inference and kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/definition.h"

namespace mpsgraph::ops {

enum class Rounding : uint8_t { round_prefer_ceil, round_prefer_floor, ceil, floor, round_to_even, round_to_odd };
std::optional<Rounding> rounding_from_name(std::string_view name);
// Rounds a position to an index in [0, size). Positions outside are clamped to the nearest edge; NaN becomes 0.
int64_t rounded_index(double place, Rounding rounding, int64_t size);

// How positions in the result map to positions in the input. In mode `given`, scale and offset map a result index to an
// input position.
struct Placement {
  enum class Mode : uint8_t { top_left, centered, corners, given } mode = Mode::top_left;
  double scale = 1, offset = 0;
  double source(int64_t i, int64_t input, int64_t result) const;
};
Placement::Mode placement_mode(const Attributes& attributes);

// The axes that a layout resizes; all axes if the layout is empty. Returns nullopt if the layout is not NHWC, NCHW,
// HWC, CHW, or HW, or does not match the rank.
std::optional<std::vector<int>> resized_axes(std::string_view layout, int rank);

}  // namespace mpsgraph::ops
