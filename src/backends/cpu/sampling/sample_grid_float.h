// Bilinear sampling in float32 with the channels last, once per vector set.
//
// Coordinates become places a block at a time, in vectors of double, and each place is blended at once: nothing is kept
// between the two. Paddings that mirror, other types and planes stay with sample_grid.cpp.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

struct FloatGridSampling {
  struct Axis {
    double gain, start, step;  // as ops::GridAxis
    int64_t size;  // of the source
  };
  Axis x, y;
  int64_t columns, channels;  // of the result
  bool clamps;  // what lies outside is the nearest edge; otherwise the constant
  float constant;

  // result[i] = image at coordinates[i] for places [first, last) of one image.
  void (*sample)(const FloatGridSampling&, const float* image, const float* coordinates, int64_t first, int64_t last,
                 float* result) = nullptr;
};

namespace avx2 {
extern const decltype(FloatGridSampling::sample) sample_bilinear;
}
namespace avx512 {
extern const decltype(FloatGridSampling::sample) sample_bilinear;
}

}  // namespace mpsgraph::cpu
