// The loops of batch normalization, once per instruction set: over rows of channels where these are last, and over the
// planes of one channel where they are not.
//
// A loop over rows takes some of them, so that every thread has its own; sums come out in double precision, to be
// combined in a fixed order. What is computed stands in src/core/ops/fused_batch_normalization.cpp.
#pragma once

#include <cstdint>

#include "backends/cpu/half_types.h"

namespace mpsgraph::cpu {

// Of some rows, by channel: how many they are, a number near their mean, and sums of what lies between.
struct ChannelMoments {
  int64_t rows;
  float* near;      // a mean of the first rows
  double* sums;     // of x - near
  double* squares;  // of (x - near)²
};

// By channel: what is normalized as (x - mean) * scale + offset.
struct ChannelScale {
  const float *mean, *scale, *offset;
};

// By channel: dx = own * g + common + along * (x - mean).
struct ChannelSlope {
  const float *own, *common, *along;
};

// Where a gradient passes a relu behind the normalization: everywhere, for there is none; where its result, computed
// again, is positive; or where a tensor that is there is positive.
enum class Mask : uint8_t { none, computed, given };

// What the sums for the gradients are made from: g = (first + second, if there is one) behind the mask, which is
// written to `masked` where it is given by where a tensor is positive.
template <class T>
struct GradientSource {
  const T *first, *second, *x, *positive;
  T* masked;

  GradientSource from(int64_t i) const {
    const auto on = [i](auto* p) { return p ? p + i : nullptr; };
    return {on(first), on(second), on(x), on(positive), on(masked)};
  }
};

// A tensor [outer, channels, inner].
struct Planes {
  int64_t outer, channels, inner;
};

template <class T>
struct BatchNormalization {
  // `partial` is memory for 2 * channels floats.
  void (*moments)(const T* x, int64_t channels, float* partial, ChannelMoments& moments);
  // y = (x - mean) * scale + offset, plus the residual if there is one, and relu of that. Past the caches where they
  // would not keep it, and channels fill whole vectors.
  void (*apply)(const T* x, const T* residual, int64_t rows, int64_t channels, ChannelScale by, bool relu, bool past,
                T* y);
  // Sums of g and of g * (x - mean).
  void (*sums)(const GradientSource<T>& in, int64_t rows, int64_t channels, ChannelScale by, Mask mask, float* partial,
               double* of_g, double* of_product);
  // The gradient for the source, from g behind the mask, which is none or computed.
  void (*gradient)(const T* g, const T* x, int64_t rows, int64_t channels, ChannelScale by, Mask mask,
                   ChannelSlope slope, bool past, T* dx);
  // The same for one channel, with all its planes.
  void (*plane_moments)(const T* x, const Planes& p, int64_t c, float& mean, float& variance);
  void (*plane_apply)(const T* x, const T* residual, const Planes& p, int64_t c, ChannelScale by, bool relu, T* y);
  void (*plane_sums)(const GradientSource<T>& in, const Planes& p, int64_t c, ChannelScale by, Mask mask, double& of_g,
                     double& of_product);
  void (*plane_gradient)(const T* g, const T* x, const Planes& p, int64_t c, ChannelScale by, Mask mask,
                         ChannelSlope slope, T* dx);
};

namespace baseline {
extern const BatchNormalization<float> float_batch_normalization;
extern const BatchNormalization<BFloat16> bfloat16_batch_normalization;
}  // namespace baseline
namespace avx2 {
extern const BatchNormalization<float> float_batch_normalization;
extern const BatchNormalization<BFloat16> bfloat16_batch_normalization;
}  // namespace avx2
namespace avx512 {
extern const BatchNormalization<float> float_batch_normalization;
extern const BatchNormalization<BFloat16> bfloat16_batch_normalization;
}  // namespace avx512

}  // namespace mpsgraph::cpu
