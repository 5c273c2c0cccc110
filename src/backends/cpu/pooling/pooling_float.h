// Inner loops of float32 pooling, compiled for each instruction set.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

struct FloatPooling {
  static constexpr int64_t max_taps = 64;
  // With lanes: out[c] = maximum of x[offsets[t] + c] over the taps, where NaN wins. This is repeated for `positions`
  // positions, advancing by `step` in x and `lanes` in out.
  void (*maxima)(const float* x, const int64_t* offsets, int64_t taps, int64_t lanes, int64_t positions, int64_t step,
                 float* out);
  // Like maxima, for one position, and set at[c] to the number of the first tap that is the maximum.
  void (*first_maxima)(const float* x, const int64_t* offsets, int64_t taps, int64_t lanes, float* out, int32_t* at);
  // to[offsets[t] + c] receives in[c] for the first tap that is the maximum, and zero for the other taps; added with
  // `add`, otherwise stored.
  void (*gradient)(const float* x, const float* in, const int64_t* offsets, int64_t taps, int64_t lanes, bool add,
                   float* to);
  // out[c] = `by` times the sum of x[offsets[t] + c] over the taps.
  void (*sums)(const float* x, const int64_t* offsets, int64_t taps, int64_t lanes, float by, float* out);
  // out[c] = sum of by[t] * in[offsets[t] + c] over the taps.
  void (*weighted_sums)(const float* in, const int64_t* offsets, const float* by, int64_t taps, int64_t lanes,
                        float* out);
  // Without lanes: m[i] = x[i * stride] if that is larger or NaN.
  void (*take_larger)(const float* x, int64_t stride, int64_t n, float* m);
  // Like take_larger; where m[i] changes or at[i] is negative, also set at[i] = index + i * step.
  void (*take_first_larger)(const float* x, int64_t stride, int64_t n, int32_t index, int32_t step, float* m,
                            int32_t* at);
};

namespace baseline {
extern const FloatPooling float_pooling;
}
namespace avx2 {
extern const FloatPooling float_pooling;
}
const FloatPooling& float_pooling();  // for this processor

}  // namespace mpsgraph::cpu
