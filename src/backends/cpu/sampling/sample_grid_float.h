// Bilinear sampling in float32, once per vector set.
//
// Coordinates become places a block at a time, in vectors of double. With the channels last each place is blended at
// once, a vector of channels at a time; of planes, a vector of places at a time is gathered from one after another.
// Paddings that mirror, other types and sums by the source stay with sample_grid.cpp.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

struct FloatGridSampling {
  struct Axis {
    double gain, start, step;  // as ops::GridAxis
    int64_t size;  // of the source
  };
  Axis x, y;
  int64_t columns, places, channels;  // of the result
  bool clamps;  // what lies outside is the nearest edge; otherwise the constant
  float constant;
};

// For places [first, last) of one image.
struct FloatGridLoops {
  using Sample = void (*)(const FloatGridSampling&, const float* image, const float* coordinates, int64_t first,
                          int64_t last, float* result);
  Sample pixels, planes;  // result[i] = image at coordinates[i]; planes: all channels of it
  // result[i] = the sum over all planes of incoming[i] times the derivatives by the coordinates.
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
