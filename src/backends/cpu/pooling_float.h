// The inner loops of maximum pooling in float32 over contiguous channels, once per instruction set.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

struct FloatMaxPooling {
  static constexpr int64_t max_taps = 16;
  // out[c] = maximum of x[offsets[t] + c] over the taps; NaN wins.
  void (*maxima)(const float* x, const int64_t* offsets, int64_t taps, int64_t lanes, float* out);
  // to[offsets[t] + c] gets in[c] for the first tap that is the maximum; the other taps get zero. With `add` it is
  // added, else stored.
  void (*gradient)(const float* x, const float* in, const int64_t* offsets, int64_t taps, int64_t lanes, bool add,
                   float* to);
};

namespace baseline {
extern const FloatMaxPooling float_max_pooling;
}
namespace avx2 {
extern const FloatMaxPooling float_max_pooling;
}

}  // namespace mpsgraph::cpu
