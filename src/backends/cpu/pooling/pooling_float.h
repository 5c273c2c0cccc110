// The inner loops of pooling in float32, once per instruction set.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

struct FloatPooling {
  static constexpr int64_t max_taps = 64;
  // Lanes: out[c] = maximum of x[offsets[t] + c] over the taps; NaN wins. Then the same `step` further on and `lanes`
  // behind, for as many positions.
  void (*maxima)(const float* x, const int64_t* offsets, int64_t taps, int64_t lanes, int64_t positions, int64_t step,
                 float* out);
  // And at[c] = the number of the first tap that is the maximum.
  void (*first_maxima)(const float* x, const int64_t* offsets, int64_t taps, int64_t lanes, float* out, int32_t* at);
  // to[offsets[t] + c] gets in[c] for the first tap that is the maximum; the other taps get zero. With `add` it is
  // added, else stored.
  void (*gradient)(const float* x, const float* in, const int64_t* offsets, int64_t taps, int64_t lanes, bool add,
                   float* to);
  // out[c] = by times the sum of x[offsets[t] + c] over the taps.
  void (*sums)(const float* x, const int64_t* offsets, int64_t taps, int64_t lanes, float by, float* out);
  // out[c] = the sum of by[t] * in[offsets[t] + c].
  void (*weighted_sums)(const float* in, const int64_t* offsets, const float* by, int64_t taps, int64_t lanes,
                        float* out);
  // Rows: m[i] becomes x[i * stride] where that is larger, or NaN.
  void (*take_larger)(const float* x, int64_t stride, int64_t n, float* m);
  // And there, or where at[i] is negative, at[i] becomes index + i * step.
  void (*take_first_larger)(const float* x, int64_t stride, int64_t n, int32_t index, int32_t step, float* m,
                            int32_t* at);
};

namespace baseline {
extern const FloatPooling float_pooling;
}
namespace avx2 {
extern const FloatPooling float_pooling;
}
const FloatPooling& float_pooling();  // of this processor

}  // namespace mpsgraph::cpu
