// Linear interpolation of rows of floats in vectors, once per vector set.
//
// Products and their sums are rounded each, as in plain loops: fused, they would give other bits than these do.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

struct ResizeRows {
  // y = u a + v b
  void (*blend)(const float* a, float u, const float* b, float v, int64_t n, float* y);
  // Each of `count` pixels of y is weight[0] x[index[0]] + weight[1] x[index[1]], of the next two indices and weights;
  // a pixel has `inner` elements, at least `narrowest`. `past`: y goes past the caches, and begins at a whole vector,
  // as each pixel does.
  void (*pixels)(const int64_t* index, const double* weight, int64_t count, int64_t inner, const float* x, bool past,
                 float* y);
  int64_t narrowest;
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
