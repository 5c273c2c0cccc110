// Batch normalization loops, compiled for each instruction set: over rows of channels with channels last, and over the
// planes of a single channel with channels first.
//
// A loop over rows processes a range of them, so that threads can divide the rows; sums are returned in double
// precision and combined in a fixed order. The formulas are in src/core/ops/fused_batch_normalization.cpp.
#pragma once

#include <cstdint>

#include "backends/cpu/half_types.h"

namespace mpsgraph::cpu {

// Statistics of a range of rows, by channel: the number of rows, a shift close to their mean, and sums of the
// differences from that shift.
struct ChannelMoments {
  int64_t rows;
  float* near;      // mean of the first rows, used as the shift
  double* sums;     // of x - near
  double* squares;  // of (x - near)²
};

// Normalization by channel: (x - mean) * scale + offset.
struct ChannelScale {
  const float *mean, *scale, *offset;
};

// Gradient by channel: dx = own * g + common + along * (x - mean).
struct ChannelSlope {
  const float *own, *common, *along;
};

// Where a gradient passes the ReLU after the normalization: everywhere if there is none; where the recomputed result is
// positive; or where a given tensor is positive.
enum class Mask : uint8_t { none, computed, given };

// Inputs of the gradient sums: g = first (+ second, if present), after the mask. If the mask is given by a tensor, g is
// also written to `masked`.
template <class T>
struct GradientSource {
  const T *first, *second, *x, *positive;
  T* masked;

  GradientSource from(int64_t i) const {
    const auto on = [i](auto* p) { return p ? p + i : nullptr; };
    return {on(first), on(second), on(x), on(positive), on(masked)};
  }
};

// A tensor of shape [outer, channels, inner].
struct Planes {
  int64_t outer, channels, inner;
};

template <class T>
struct BatchNormalization {
  // Compute the moments of some rows; `partial` is scratch memory for 2 * channels floats.
  void (*moments)(const T* x, int64_t channels, float* partial, ChannelMoments& moments);
  // y = (x - mean) * scale + offset, plus the residual if present, followed by ReLU. With `past`, y is written by
  // streaming stores, which requires channels in whole vectors.
  void (*apply)(const T* x, const T* residual, int64_t rows, int64_t channels, ChannelScale by, bool relu, bool past,
                T* y);
  // Compute the sums of g and of g * (x - mean).
  void (*sums)(const GradientSource<T>& in, int64_t rows, int64_t channels, ChannelScale by, Mask mask, float* partial,
               double* of_g, double* of_product);
  // Compute the gradient of the source from g after the mask, which must be `none` or `computed`.
  void (*gradient)(const T* g, const T* x, int64_t rows, int64_t channels, ChannelScale by, Mask mask,
                   ChannelSlope slope, bool past, T* dx);
  // The same for all planes of a single channel.
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
