// Linear interpolation of rows of floats in vectors, once per vector set.
//
// Products and their sums are rounded each, as in plain loops: fused, they would give other bits than these do.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

// An element of the result is u x[low] + v x[high].
struct PairsOfTaps {
  const int32_t *low, *high;
  const float *u, *v;
};

struct ResizeRows {
  // y = u a + v b. Null where plain loops are as fast.
  void (*blend)(const float* a, float u, const float* b, float v, int64_t n, float* y);
  // Each of `count` pixels of y is weight[0] x[index[0]] + weight[1] x[index[1]], of the next two indices and weights;
  // a pixel has `inner` elements, at least `narrowest`. `past`: y goes past the caches, and a fence has to follow; it
  // begins at a whole vector, as each pixel does.
  void (*pixels)(const int64_t* index, const double* weight, int64_t count, int64_t inner, const float* x, bool past,
                 float* y);
  int64_t narrowest;
  // The same for pixels of one element, of n of them; indices go up or down. `past`: y begins at a whole vector, and
  // `count` are whole ones. Null where plain loops are as fast.
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
