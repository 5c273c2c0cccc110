// Vector loops of matrix-vector products whose matrix is float32, float16, or bfloat16 and whose vector is float32. The
// time is bound by reading the matrix. Compiled for each instruction set.
#pragma once

#include <cstdint>

#include "backends/cpu/half_types.h"
#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

template <class T>
struct RowLoops {
  // sums[j] = sum over i of factors[i] * rows[i * stride + j], for i < count and j < n.
  void (*weighted_sum)(float* sums, const float* factors, const T* rows, int64_t stride, int64_t count, int64_t n);
  // The sum over i < n of row[i] * x[i].
  float (*dot)(const T* row, const float* x, int64_t n);
};

struct RowTiles {
  RowLoops<float> floats;
  RowLoops<Half> halves;
  RowLoops<BFloat16> bfloats;
};

MPSGRAPH_VECTOR_TABLE(RowTiles, row_tiles);

}  // namespace mpsgraph::cpu
