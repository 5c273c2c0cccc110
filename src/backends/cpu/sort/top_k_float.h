// Vectorized search for the k best (largest or smallest) elements of a row of floats, compiled for each instruction
// set.
#pragma once

#include <cstdint>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

struct BestFloats {
  static constexpr int64_t most = 64;   // maximum k for which bound() may be called
  static constexpr int64_t room = 128;  // maximum number of elements found per call

  // Return a number such that at least k elements of x[0, n) are as good or better, or the worst possible number if
  // there is no such bound; k must be at most `most`. NaN is ignored. Only the beginning of a long row is examined.
  float (*bound)(const float* x, int64_t n, int64_t k);
  // Find elements of x[i, n) that are better than the limit (or as good, with `as_good`). Write their positions to
  // `found`, which has `room` entries, and return the number of positions. The search stops when `enough` elements have
  // been found or `room` might be exceeded; i is set to the position where it should resume. When looking for the
  // largest elements, NaN is better than any number; when looking for the smallest, it is worse. The limit must not be
  // NaN.
  int64_t (*find)(const float* x, int64_t& i, int64_t n, float limit, bool as_good, int64_t enough, int32_t* found);
};

MPSGRAPH_VECTOR_TABLE(BestFloats, greatest_floats);
MPSGRAPH_VECTOR_TABLE(BestFloats, smallest_floats);

}  // namespace mpsgraph::cpu
