// Where a grid's coordinates lie in the source, for one axis of the plane: for the composition and for kernels.
#pragma once

#include "core/definition.h"

namespace mpsgraph::ops {

// The place in the source of coordinate p at index i of the result: gain · p + start + step · i.
struct GridAxis {
  double gain, start, step;
};
GridAxis grid_axis(const Attributes& attributes, int64_t source, int64_t result);

// The axes of the plane and of the channels.
struct GridLayout {
  int height, width, channels;
};
GridLayout grid_layout(const Attributes& attributes);

}  // namespace mpsgraph::ops
