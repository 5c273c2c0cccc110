// Running sums along a row of floats, and its total, in vectors, once per vector set.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

struct RowSums {
  // y[i] = start + the sum of x[0 .. i], exclusive without x[i], reverse from the end on; held in double. y may be x.
  void (*running)(double start, const float* x, int64_t n, bool exclusive, bool reverse, float* y);
  double (*total)(const float* x, int64_t n);
};

namespace avx2 {
extern const RowSums row_sums;
}
namespace avx512 {
extern const RowSums row_sums;
}

}  // namespace mpsgraph::cpu
