// Maps the grid coordinates along one axis to source positions, for the decomposition and for kernels.
#pragma once

#include "core/definition.h"

namespace mpsgraph::ops {

// Maps a grid coordinate to a source position along one axis: coordinate p of result element i is at gain · p + start +
// step · i.
struct GridAxis {
  double gain, start, step;
};
GridAxis grid_axis(const Attributes& attributes, int64_t source, int64_t result);

// The axes that hold height, width, and channels.
struct GridLayout {
  int height, width, channels;
};
GridLayout grid_layout(const Attributes& attributes);

}  // namespace mpsgraph::ops
