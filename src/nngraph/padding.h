// MPSNNPadding: the size of a filter's result and the positions of its windows.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "mpsgraph/core/types.h"
#include "mpsgraph/export.h"

namespace mpsgraph::nngraph {

enum class PaddingSize { valid_only, same, full };
enum class PaddingAlignment { centered, top_left, bottom_right };
enum class Remainder { top_left, top_right, bottom_left, bottom_right };

// The result of applying a padding policy to one axis.
struct WindowAxis {
  int64_t size = 0;            // size of the result
  int64_t before = 0, after = 0;  // padding; a negative `after` skips pixels that no window reaches
};

struct MPSGRAPH_API PaddingPolicy {
  PaddingSize size = PaddingSize::same;
  PaddingAlignment alignment = PaddingAlignment::centered;
  Remainder remainder = Remainder::top_left;
  // Whether a user-defined policy has set `padding`, the explicit padding [top, bottom, left, right], which replaces
  // the settings above.
  bool custom = false;
  std::array<int64_t, 4> padding{};

  // The windows of a filter along an axis (0 is y, 1 is x). `kernel` is the size of a window, including the gaps of a
  // dilated kernel.
  WindowAxis forward(int axis, int64_t source, int64_t kernel, int64_t stride) const;
  // For a transposed convolution: the result's size, and the padding of the convolution that it reverses.
  WindowAxis reverse(int axis, int64_t source, int64_t kernel, int64_t stride) const;
  bool operator==(const PaddingPolicy&) const = default;
};
// "same", "valid", or "full"; GraphError for other names
MPSGRAPH_API PaddingPolicy padding_policy(std::string_view name);
using mpsgraph::to_string;  // keeps the overloads for shapes visible
MPSGRAPH_API std::string to_string(const PaddingPolicy& policy);

}  // namespace mpsgraph::nngraph
