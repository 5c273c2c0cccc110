// Bilinear sampling in float32, compiled for each instruction set.
//
// A block of coordinates at a time is converted to positions, in vectors of double. With channels last, the points are
// blended one by one, a vector of channels at a time. With channels first, a vector of points is gathered from one
// plane after another. Mirrored padding, other types, and the gradient with respect to the source are handled by
// sample_grid.cpp.
#pragma once

#include <cstdint>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

struct FloatGridSampling {
  struct Axis {
    double gain, start, step;  // same meaning as in ops::GridAxis
    int64_t size;  // size of the source along this axis
  };
  Axis x, y;
  int64_t columns, places, channels;  // columns, points per image, and channels of the result
  bool clamps;  // outside the source, use the nearest edge; otherwise, use the constant
  float constant;
};

// Loops for sampling points [first, last) of one image.
struct FloatGridLoops {
  using Sample = void (*)(const FloatGridSampling&, const float* image, const float* coordinates, int64_t first,
                          int64_t last, float* result);
  // Set result[i] to the image at coordinates[i]. `pixels` is for channels last, `planes` for channels first; each
  // processes all channels.
  Sample pixels, planes;
  // Set result[i] to the sum over all planes of incoming[i] times the derivatives of the sampled value with respect to
  // the two coordinates.
  void (*coordinate_gradient_of_planes)(const FloatGridSampling&, const float* incoming, const float* image,
                                        const float* coordinates, int64_t first, int64_t last, float* result);
};

MPSGRAPH_OPTIONAL_TABLE(FloatGridLoops, grid_loops);

}  // namespace mpsgraph::cpu
