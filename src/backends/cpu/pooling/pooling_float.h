// Inner loops of float32 pooling, compiled for each instruction set.
#pragma once

#include <cstdint>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

struct FloatPooling {
  static constexpr int64_t max_taps = 64;
  // For plans with several lanes: set out[c] to the maximum of x[offsets[t] + c] over the taps t, for each lane c. If
  // an element is NaN, the result is NaN. Repeat this for `positions` positions, advancing x by `step` and out by
  // `lanes`.
  void (*maxima)(const float* x, const int64_t* offsets, int64_t taps, int64_t lanes, int64_t positions, int64_t step,
                 float* out);
  // Like maxima, for one position; also set at[c] to the index of the first tap t that attains the maximum.
  void (*first_maxima)(const float* x, const int64_t* offsets, int64_t taps, int64_t lanes, float* out, int32_t* at);
  // For each lane c and tap t, store in[c] in to[offsets[t] + c] if t is the first tap that attains the maximum,
  // otherwise zero. With `add`, add these values instead of storing them.
  void (*gradient)(const float* x, const float* in, const int64_t* offsets, int64_t taps, int64_t lanes, bool add,
                   float* to);
  // Set out[c] to `by` times the sum of x[offsets[t] + c] over the taps t, for each lane c.
  void (*sums)(const float* x, const int64_t* offsets, int64_t taps, int64_t lanes, float by, float* out);
  // Set out[c] to the sum of by[t] * in[offsets[t] + c] over the taps t, for each lane c.
  void (*weighted_sums)(const float* in, const int64_t* offsets, const float* by, int64_t taps, int64_t lanes,
                        float* out);
  // For plans with a single lane: for each i below n, set m[i] to x[i * stride] if this element is NaN or larger than
  // m[i].
  void (*take_larger)(const float* x, int64_t stride, int64_t n, float* m);
  // Like take_larger, and also set at[i] to index + i * step if m[i] changes. If at[i] is negative, the element is
  // taken in any case.
  void (*take_first_larger)(const float* x, int64_t stride, int64_t n, int32_t index, int32_t step, float* m,
                            int32_t* at);
};

MPSGRAPH_SHORT_VECTOR_TABLE(FloatPooling, float_pooling);

}  // namespace mpsgraph::cpu
