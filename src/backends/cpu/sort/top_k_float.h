// What a search for the best k of a row of floats looks at elements with, in vectors, once per vector set.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

struct BestFloats {
  static constexpr int64_t most = 64;   // that a bound is known of
  static constexpr int64_t room = 128;  // for what is found at once

  // A number that k of x[0, n) are at least as good as, k <= most; the worst one where none is known. NaN does not
  // count. The beginning of a long row is enough.
  float (*bound)(const float* x, int64_t n, int64_t k);
  // Writes to `found`, of `room`, where in x[i, n) better elements than the limit stand, until there are `enough` or
  // room may be short, and moves i on to what it has not looked at; returns how many. `as_good`: elements as good as
  // the limit too. NaN is better than any number for the greatest, and worse for the smallest. The limit is a number.
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
