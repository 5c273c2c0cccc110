// MPSNNPadding: how large a filter's result is, and where its windows lie.
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

// What a policy makes of one axis.
struct WindowAxis {
  int64_t size = 0;            // of the result
  int64_t before = 0, after = 0;  // padding; negative `after` leaves out what no window reaches
};

struct MPSGRAPH_API PaddingPolicy {
  PaddingSize size = PaddingSize::same;
  PaddingAlignment alignment = PaddingAlignment::centered;
  Remainder remainder = Remainder::top_left;
  // Instead of all that: padding [top, bottom, left, right], as a policy of the user's own gives it.
  bool custom = false;
  std::array<int64_t, 4> padding{};

  // `kernel` with its dilation; axis 0 is y, 1 is x.
  WindowAxis forward(int axis, int64_t source, int64_t kernel, int64_t stride) const;
  // Of a transposed convolution: the result's size, and the padding of the convolution that it undoes.
  WindowAxis reverse(int axis, int64_t source, int64_t kernel, int64_t stride) const;
  bool operator==(const PaddingPolicy&) const = default;
};
MPSGRAPH_API PaddingPolicy padding_policy(std::string_view name);  // "same", "valid", "full"; GraphError
using mpsgraph::to_string;  // of shapes, which the next would hide
MPSGRAPH_API std::string to_string(const PaddingPolicy& policy);

}  // namespace mpsgraph::nngraph
