// Sizes and positions of windows, by the formulas in MPSNeuralNetworkTypes.h.
#include "nngraph/padding.h"

#include <algorithm>

#include "mpsgraph/core/errors.h"

namespace mpsgraph::nngraph {
namespace {

// Return the difference between the sizes of result and source at stride 1, divided by (kernel size - 1): -1 for valid,
// 0 for same, and 1 for full padding.
int64_t style(PaddingSize size) { return static_cast<int64_t>(size) - 1; }

// If the total padding of an axis is odd, return whether the larger part is placed before the image.
bool remainder_before(const PaddingPolicy& policy, int axis) {
  const bool top = policy.remainder == Remainder::top_left || policy.remainder == Remainder::top_right;
  const bool left = policy.remainder == Remainder::top_left || policy.remainder == Remainder::bottom_left;
  return axis == 0 ? top : left;
}

// Distribute `total` pixels of padding over both ends of an axis. If the total is negative, the windows skip pixels.
WindowAxis share_out(const PaddingPolicy& policy, int axis, int64_t size, int64_t total) {
  int64_t before = 0;
  if (policy.alignment == PaddingAlignment::bottom_right)
    before = total;
  else if (policy.alignment == PaddingAlignment::centered)
    before = (total + ((total & 1) && remainder_before(policy, axis) ? 1 : 0)) >> 1;
  return {size, before, total - before};
}

}  // namespace

WindowAxis PaddingPolicy::forward(int axis, int64_t source, int64_t kernel, int64_t stride) const {
  if (custom) {
    const int64_t before = padding[2 * axis], after = padding[2 * axis + 1];
    return {(source + before + after - kernel) / stride + 1, before, after};
  }
  const int64_t extent = source + style(size) * (kernel - 1);
  const int64_t result = extent <= 0 ? 0 : (extent + stride - 1) / stride;
  return share_out(*this, axis, result, (result - 1) * stride + kernel - source);
}

WindowAxis PaddingPolicy::reverse(int axis, int64_t source, int64_t kernel, int64_t stride) const {
  if (custom) {
    const int64_t before = padding[2 * axis], after = padding[2 * axis + 1];
    return {(source - 1) * stride + kernel - before - after, before, after};
  }
  const int64_t result = (source - 1) * stride + 1 + style(size) * (kernel - 1);
  return share_out(*this, axis, result, (source - 1) * stride + kernel - result);
}

PaddingPolicy padding_policy(std::string_view name) {
  PaddingPolicy policy;
  if (name == "valid")
    policy.size = PaddingSize::valid_only;
  else if (name == "full")
    policy.size = PaddingSize::full;
  else if (name != "same")
    throw GraphError(cat("unknown padding policy '", std::string(name), "'; must be one of same, valid, full"));
  return policy;
}

std::string to_string(const PaddingPolicy& policy) {
  if (policy.custom)
    return cat("padding [", policy.padding[0], ", ", policy.padding[1], ", ", policy.padding[2], ", ",
               policy.padding[3], "]");
  constexpr const char *sizes[] = {"valid", "same", "full"}, *alignments[] = {"centered", "top left", "bottom right"},
                       *remainders[] = {"top left", "top right", "bottom left", "bottom right"};
  return cat(sizes[static_cast<int>(policy.size)], ", ", alignments[static_cast<int>(policy.alignment)], ", remainder ",
             remainders[static_cast<int>(policy.remainder)]);
}

}  // namespace mpsgraph::nngraph
