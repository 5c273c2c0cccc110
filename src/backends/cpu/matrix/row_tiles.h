// Vector loops of matrix-vector products whose matrix has elements of 1 to 4 bytes and whose vector is float32. The
// time is bound by reading the matrix. Compiled for each instruction set.
#pragma once

#include <cstdint>

#include "backends/cpu/half_types.h"
#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

// Loops for a matrix of one element type.
struct RowLoops {
  // sums[j] = sum over i of factors[i] * rows[i * stride + j], for i < count and j < n.
  void (*weighted_sum)(float* sums, const float* factors, const void* rows, int64_t stride, int64_t count, int64_t n);
  // sums[r] = sum over i of rows[r * n + i] * x[i], for r < count and i < n. The order of additions is the same for
  // all rows.
  void (*dots)(float* sums, const void* rows, const float* x, int64_t count, int64_t n);
};

struct RowTiles {
  RowLoops floats, halves, bfloats, signed_bytes, unsigned_bytes;
};

MPSGRAPH_VECTOR_TABLE(RowTiles, row_tiles);

}  // namespace mpsgraph::cpu
