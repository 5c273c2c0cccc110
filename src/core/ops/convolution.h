// How a convolution reads its operands: axes of the layouts, groups and windows, from its attributes.
//
// For inference and for lowering; source, incoming gradient and result share the data layout.
#pragma once

#include "core/ops/window.h"

namespace mpsgraph::ops {

// The weights have input channels / groups at weights_in, and output channels at weights_out; output channel o
// belongs to group o / (output channels / groups).
struct Convolution2d : Windows2d {
  int64_t groups = 1;
  int weights_out = 0, weights_in = 0;
  std::array<int, 2> weights_spatial{};  // axes of kernel height and width

  explicit Convolution2d(const Attributes& attributes) : Convolution2d(Windows2d(attributes), attributes) {}
  Convolution2d(const Windows2d& windows, const Attributes& attributes) : Windows2d(windows) {
    const bool outputs_last = attributes.string("weights_layout") == "HWIO";
    weights_out = outputs_last ? 3 : 0;
    weights_in = outputs_last ? 2 : 1;
    weights_spatial = outputs_last ? std::array{0, 1} : std::array{2, 3};
    groups = attributes.integer("groups");
  }
};

}  // namespace mpsgraph::ops
