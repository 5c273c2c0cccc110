// Vectorized softmax of a row of floats, compiled for each instruction set.
#pragma once

#include <cstdint>

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

namespace baseline {
extern const SoftmaxRows softmax_rows;
}
namespace avx2 {
extern const SoftmaxRows softmax_rows;
}
namespace avx512 {
extern const SoftmaxRows softmax_rows;
}
const SoftmaxRows& softmax_rows();  // returns the loops for this processor

}  // namespace mpsgraph::cpu
