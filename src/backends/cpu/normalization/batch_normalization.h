// Batch normalization loops, compiled for each instruction set. With channels last, a loop processes rows, each of
// which holds one element per channel. With channels first, a loop processes the planes of a single channel.
//
// Threads divide the rows, and each calls a loop for a range of rows. The loops return sums in double precision, which
// are combined in a fixed order. The formulas are in src/core/ops/fused_batch_normalization.cpp.
#pragma once

#include <cstdint>

#include "backends/cpu/half_types.h"
#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

// Statistics of a range of rows: the number of rows, and for each channel a shift close to its mean and sums of the
// differences from that shift.
struct ChannelMoments {
  int64_t rows;
  float* near;      // per channel, the mean of the first rows, used as the shift
  double* sums;     // sums of x - near
  double* squares;  // sums of (x - near)²
};

// Per-channel values of the normalization y = (x - mean) * scale + offset.
struct ChannelScale {
  const float *mean, *scale, *offset;
};

// Per-channel coefficients of the gradient dx = own * g + common + along * (x - mean), where g is the incoming
// gradient.
struct ChannelSlope {
  const float *own, *common, *along;
};

// Where a gradient passes the ReLU that follows the normalization. none: everywhere, because there is no ReLU;
// computed: where the recomputed result is positive; given: where a given tensor is positive.
enum class Mask : uint8_t { none, computed, given };

// Inputs of the gradient sums. The gradient g is `first`, plus `second` if present, and is set to zero where the mask
// blocks it. If the mask is `given`, g is also written to `masked`.
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
  // Compute the moments of a range of rows; `partial` is scratch memory for 2 * channels floats.
  void (*moments)(const T* x, int64_t channels, float* partial, ChannelMoments& moments);
  // Compute y = (x - mean) * scale + offset, plus the residual if present, followed by ReLU if `relu` is set. With
  // `past`, y is written with streaming stores, which requires that the channels fill whole vectors.
  void (*apply)(const T* x, const T* residual, int64_t rows, int64_t channels, ChannelScale by, bool relu, bool past,
                T* y);
  // Compute the sums over rows of g and of g * (x - mean), where g is the masked gradient.
  void (*sums)(const GradientSource<T>& in, int64_t rows, int64_t channels, ChannelScale by, Mask mask, float* partial,
               double* of_g, double* of_product);
  // Compute the gradient with respect to the input, dx, from the incoming gradient g, to which the mask is applied
  // first. The mask must be `none` or `computed`.
  void (*gradient)(const T* g, const T* x, int64_t rows, int64_t channels, ChannelScale by, Mask mask,
                   ChannelSlope slope, bool past, T* dx);
  // Same as moments(), apply(), sums(), and gradient(), but for all planes of channel c.
  void (*plane_moments)(const T* x, const Planes& p, int64_t c, float& mean, float& variance);
  void (*plane_apply)(const T* x, const T* residual, const Planes& p, int64_t c, ChannelScale by, bool relu, T* y);
  void (*plane_sums)(const GradientSource<T>& in, const Planes& p, int64_t c, ChannelScale by, Mask mask, double& of_g,
                     double& of_product);
  void (*plane_gradient)(const T* g, const T* x, const Planes& p, int64_t c, ChannelScale by, Mask mask,
                         ChannelSlope slope, T* dx);
};

MPSGRAPH_VECTOR_TABLE(BatchNormalization<float>, float_batch_normalization);
MPSGRAPH_VECTOR_TABLE(BatchNormalization<BFloat16>, bfloat16_batch_normalization);

}  // namespace mpsgraph::cpu
