// Vectorized linear interpolation of rows of floats, compiled for each instruction set.
//
// Products and their sums are rounded separately, as in the plain loops; fused multiply-adds would give different bits.
#pragma once

#include <cstdint>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

// Tap table for elements computed as u x[low] + v x[high], with one entry per element in each array.
struct PairsOfTaps {
  const int32_t *low, *high;
  const float *u, *v;
};

struct ResizeRows {
  // Compute y = u a + v b for n elements. Null if plain loops are as fast.
  void (*blend)(const float* a, float u, const float* b, float v, int64_t n, float* y);
  // Compute `count` pixels of y, each as weight[0] x[index[0]] + weight[1] x[index[1]]; each pixel takes the next two
  // indices and weights. A pixel has `inner` elements, at least `narrowest`. If `past` is set, y is written with
  // streaming stores. This requires that y and each pixel are aligned to a vector, and that the caller issues a fence
  // afterwards.
  void (*pixels)(const int64_t* index, const double* weight, int64_t count, int64_t inner, const float* x, bool past,
                 float* y);
  int64_t narrowest;
  // Interpolate `count` pixels of a single element each from the n elements of x. The indices must be monotonic. If
  // `past` is set, y is written with streaming stores, so y must be aligned to a vector, and `count` must fill whole
  // vectors. Null if plain loops are as fast.
  void (*elements)(const PairsOfTaps& taps, int64_t count, const float* x, int64_t n, bool past, float* y);
};

MPSGRAPH_VECTOR_TABLE(ResizeRows, resize_rows);

}  // namespace mpsgraph::cpu
