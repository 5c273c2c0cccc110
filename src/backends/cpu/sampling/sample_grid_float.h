// Bilinear sampling in float32, compiled for each instruction set.
//
// Coordinates are converted to positions a block at a time, in vectors of double. With channels last, the points are
// blended one by one, a vector of channels at a time. With channels first, a vector of points is gathered from one
// plane after another. Mirrored padding, other types, and the gradient with respect to the source are handled by
// sample_grid.cpp.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

struct FloatGridSampling {
  struct Axis {
    double gain, start, step;  // as in ops::GridAxis
    int64_t size;  // of the source
  };
  Axis x, y;
  int64_t columns, places, channels;  // of the result
  bool clamps;  // outside, use the nearest edge; otherwise the constant
  float constant;
};

// Loops for points [first, last) of one image.
struct FloatGridLoops {
  using Sample = void (*)(const FloatGridSampling&, const float* image, const float* coordinates, int64_t first,
                          int64_t last, float* result);
  Sample pixels, planes;  // result[i] = image at coordinates[i]; for `planes`, in all channels
  // result[i] = sum over all planes of incoming[i] times the derivatives with respect to the coordinates.
  void (*coordinate_gradient_of_planes)(const FloatGridSampling&, const float* incoming, const float* image,
                                        const float* coordinates, int64_t first, int64_t last, float* result);
};

namespace avx2 {
extern const FloatGridLoops grid_loops;
}
namespace avx512 {
extern const FloatGridLoops grid_loops;
}

}  // namespace mpsgraph::cpu
