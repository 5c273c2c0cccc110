// Vectorized softmax of a row of floats, compiled for each instruction set.
#pragma once

#include <cstdint>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

struct RowExponents {
  float largest, sum;
};
struct SoftmaxRows {
  // Return the maximum of a row and the sum of e^(x - maximum). The exponentials are written to y unless y is null. The
  // maximum ignores NaN, but the sum becomes NaN. In all functions of this struct, y may be x.
  RowExponents (*exponents)(const float* x, int64_t n, float* y);
  void (*scale)(float factor, int64_t n, float* y);                                      // y *= factor
  void (*shift)(const float* x, float first, float second, int64_t n, float* y);         // y = (x - first) - second
  void (*gradient)(const float* incoming, const float* x, int64_t n, float* y);  // y = x (incoming - Σ incoming x)
};

MPSGRAPH_VECTOR_TABLE(SoftmaxRows, softmax_rows);

}  // namespace mpsgraph::cpu
