// Vectorized linear interpolation of rows of floats, compiled for each instruction set.
//
// Products and their sums are rounded separately, as in the plain loops; fused multiply-adds would give different bits.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

// Taps for elements of the form u x[low] + v x[high].
struct PairsOfTaps {
  const int32_t *low, *high;
  const float *u, *v;
};

struct ResizeRows {
  // y = u a + v b. Null if plain loops are as fast.
  void (*blend)(const float* a, float u, const float* b, float v, int64_t n, float* y);
  // Compute `count` pixels of y, each weight[0] x[index[0]] + weight[1] x[index[1]] with the next two indices and
  // weights. A pixel has `inner` elements, at least `narrowest`. With `past`, y is written with streaming stores, which
  // requires y and each pixel to be aligned to a vector, and a fence afterwards.
  void (*pixels)(const int64_t* index, const double* weight, int64_t count, int64_t inner, const float* x, bool past,
                 float* y);
  int64_t narrowest;
  // Interpolate pixels of a single element, n of them in x, with monotonic indices. With `past`, y must be aligned to a
  // vector, and `count` must fill whole vectors. Null if plain loops are as fast.
  void (*elements)(const PairsOfTaps& taps, int64_t count, const float* x, int64_t n, bool past, float* y);
};

namespace baseline {
extern const ResizeRows resize_rows;
}
namespace avx2 {
extern const ResizeRows resize_rows;
}
namespace avx512 {
extern const ResizeRows resize_rows;
}

}  // namespace mpsgraph::cpu
