// Vectorized search for the best k of a row of floats, compiled for each instruction set.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

struct BestFloats {
  static constexpr int64_t most = 64;   // maximum k for a bound
  static constexpr int64_t room = 128;  // maximum found per call

  // Return a number such that at least k elements of x[0, n) are as good or better, k <= most; the worst possible
  // number if none is known. NaN is ignored. For a long row, the beginning is enough.
  float (*bound)(const float* x, int64_t n, int64_t k);
  // Find elements of x[i, n) that are better than the limit (or as good, with `as_good`), write their positions to
  // `found`, which has `room` entries, and return their number. The search stops when there are `enough` or `room`
  // might run out, with i set to where it should resume. NaN is better than any number when looking for the largest,
  // and worse when looking for the smallest. The limit must be a number.
  int64_t (*find)(const float* x, int64_t& i, int64_t n, float limit, bool as_good, int64_t enough, int32_t* found);
};

namespace baseline {
extern const BestFloats greatest_floats, smallest_floats;
}
namespace avx2 {
extern const BestFloats greatest_floats, smallest_floats;
}
namespace avx512 {
extern const BestFloats greatest_floats, smallest_floats;
}

}  // namespace mpsgraph::cpu
