// Vector loops of matrix-vector products whose matrix has elements of 1 to 4 bytes and whose vector is float32. The
// time is bound by reading the matrix. Compiled for each instruction set.
#pragma once

#include <cstdint>

#include "backends/cpu/half_types.h"
#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

// Parameters of quantized elements: an element q stands for (q - zero) * scale. Each array has one number per element
// of the result, and may be null.
struct RowParameters {
  const float *zeros = nullptr, *scales = nullptr;

  RowParameters from(int64_t i) const { return {zeros ? zeros + i : nullptr, scales ? scales + i : nullptr}; }
};

// Loops for a matrix of one element type. In each sum, rows[...] stands for the element after its conversion to float32
// with the parameters. Matrices of float32 have no parameters, and only those of bytes have zeros.
struct RowLoops {
  // sums[j] = sum over i of factors[i] * rows[i * stride + j], for i < count and j < n.
  void (*weighted_sum)(float* sums, const float* factors, const void* rows, RowParameters parameters, int64_t stride,
                       int64_t count, int64_t n);
  // sums[r] = sum over i of rows[r * n + i] * x[i], for r < count and i < n. The order of additions is the same for
  // all rows.
  void (*dots)(float* sums, const void* rows, RowParameters parameters, const float* x, int64_t count, int64_t n);
};

struct RowTiles {
  RowLoops floats, halves, bfloats, signed_bytes, unsigned_bytes;
};

MPSGRAPH_VECTOR_TABLE(RowTiles, row_tiles);

}  // namespace mpsgraph::cpu
