// Loops of pooling_float.h.
// Instruction sets: baseline, avx2.
//
// All taps of a window are combined in registers, regardless of their
// number.
#include <cstring>
#include <type_traits>

#include "backends/cpu/pooling/pooling_float.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

constexpr int64_t W = lanes<float>;
using V = Floats;
using I = Ints;

// The parameter pack n... is empty for a whole vector. For the last, partial vector, it holds the number of remaining
// lanes.
template <int constant_taps, class... N>
inline void maxima_at(const float* x, const int64_t* offsets, int64_t taps, float* out, N... n) {
  V m = load(x + offsets[0], n...);
  for (int64_t t = 1; t < (constant_taps ? constant_taps : taps); ++t) {
    const V v = load(x + offsets[t], n...);
    m = ((v > m) | (v != v)) ? v : m;
  }
  store(out, m, n...);
}

// Return the index of the first tap that attains the maximum, or of the first NaN, in each lane. Set m to the maxima.
template <class... N>
inline I first_maximum(const float* x, const int64_t* offsets, int64_t taps, V& m, N... n) {
  m = load(x + offsets[0], n...);
  I first{};
  for (int64_t t = 1; t < taps; ++t) {
    const V v = load(x + offsets[t], n...);
    const I better = (v > m) | ((v != v) & (m == m));
    m = better ? v : m;
    first = better ? I{} + static_cast<int32_t>(t) : first;
  }
  return first;
}

template <int constant_taps, bool add, class... N>
inline void gradient_at(const float* x, const float* in, const int64_t* offsets, int64_t taps, float* to, N... n) {
  if (constant_taps) taps = constant_taps;
  V m;
  const I first = first_maximum(x, offsets, taps, m, n...);
  const V given = load(in, n...);
  for (int64_t t = 0; t < taps; ++t) {
    const V share = first == static_cast<int32_t>(t) ? given : V{};
    store(to + offsets[t], add ? load(to + offsets[t], n...) + share : share, n...);
  }
}

template <int constant_taps>
void maxima_of(const float* x, const int64_t* offsets, int64_t taps, int64_t lanes, int64_t positions, int64_t step,
               float* out) {
  for (int64_t i = 0; i < positions; ++i, x += step, out += lanes) {
    int64_t c = 0;
    for (; c + W <= lanes; c += W) maxima_at<constant_taps>(x + c, offsets, taps, out + c);
    if (c < lanes) maxima_at<constant_taps>(x + c, offsets, taps, out + c, lanes - c);
  }
}

template <int constant_taps, bool add>
void gradient_of(const float* x, const float* in, const int64_t* offsets, int64_t taps, int64_t lanes, float* to) {
  int64_t c = 0;
  for (; c + W <= lanes; c += W) gradient_at<constant_taps, add>(x + c, in + c, offsets, taps, to + c);
  if (c < lanes) gradient_at<constant_taps, add>(x + c, in + c, offsets, taps, to + c, lanes - c);
}

void maxima(const float* x, const int64_t* offsets, int64_t taps, int64_t lanes, int64_t positions, int64_t step,
            float* out) {
  const auto loop = taps == 4 ? maxima_of<4> : taps == 9 ? maxima_of<9> : maxima_of<0>;
  loop(x, offsets, taps, lanes, positions, step, out);
}

void first_maxima(const float* x, const int64_t* offsets, int64_t taps, int64_t lanes, float* out, int32_t* at) {
  const auto lanes_at = [&](int64_t c, auto... n) {
    V m;
    const I first = first_maximum(x + c, offsets, taps, m, n...);
    store(out + c, m, n...);
    std::memcpy(at + c, &first, sizeof...(n) ? static_cast<size_t>(lanes - c) * 4 : sizeof first);
  };
  int64_t c = 0;
  for (; c + W <= lanes; c += W) lanes_at(c);
  if (c < lanes) lanes_at(c, lanes - c);
}

void gradient(const float* x, const float* in, const int64_t* offsets, int64_t taps, int64_t lanes, bool add,
              float* to) {
  const auto loop = taps == 4   ? (add ? gradient_of<4, true> : gradient_of<4, false>)
                    : taps == 9 ? (add ? gradient_of<9, true> : gradient_of<9, false>)
                                : (add ? gradient_of<0, true> : gradient_of<0, false>);
  loop(x, in, offsets, taps, lanes, to);
}

void sums(const float* x, const int64_t* offsets, int64_t taps, int64_t lanes, float by, float* out) {
  for_lanes<float>(lanes, [=](int64_t c, auto... n) {
    V sum{};
    for (int64_t t = 0; t < taps; ++t) sum += load(x + offsets[t] + c, n...);
    store(out + c, sum * by, n...);
  });
}

void weighted_sums(const float* in, const int64_t* offsets, const float* by, int64_t taps, int64_t lanes, float* out) {
  for_lanes<float>(lanes, [=](int64_t c, auto... n) {
    V sum{};
    for (int64_t t = 0; t < taps; ++t) sum += load(in + offsets[t] + c, n...) * by[t];
    store(out + c, sum, n...);
  });
}

// Call loop(stride) with the common strides 1 and 2 as compile-time constants.
template <class Loop>
inline void with_stride(int64_t stride, const Loop& loop) {
  if (stride == 1)
    loop(std::integral_constant<int64_t, 1>{});
  else if (stride == 2)
    loop(std::integral_constant<int64_t, 2>{});
  else
    loop(stride);
}

void take_larger(const float* x, int64_t stride, int64_t n, float* m) {
  with_stride(stride, [=](auto s) {
    for (int64_t i = 0; i < n; ++i) {
      const float v = x[i * s];
      m[i] = ((v > m[i]) | (v != v)) ? v : m[i];
    }
  });
}

void take_first_larger(const float* x, int64_t stride, int64_t n, int32_t index, int32_t step, float* m, int32_t* at) {
  with_stride(stride, [=](auto s) {
    for (int64_t i = 0; i < n; ++i) {
      const float v = x[i * s];
      const bool better = (v > m[i]) | ((v != v) & (m[i] == m[i])) | (at[i] < 0);
      m[i] = better ? v : m[i];
      at[i] = better ? index + static_cast<int32_t>(i) * step : at[i];
    }
  });
}

}  // namespace

constinit const FloatPooling float_pooling{maxima,        first_maxima, gradient,         sums,
                                           weighted_sums, take_larger,  take_first_larger};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
