// Depthwise convolutions with channels last: each channel by itself, so that vectors run along the channels of a pixel.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/cpu/convolution/convolution.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/product_extras.h"

namespace mpsgraph::cpu {

// Of a pixel: to[c] = sum over taps of rows[t][c] * weights[t][c], then bias and residual, where there are any, then
// relu.
struct DepthwisePixel {
  const float* const* rows;
  const float* const* weights;
  int64_t taps, channels;
  const float *bias, *residual;
  bool relu;
  float* to;
};
using DepthwiseFunction = void (*)(const DepthwisePixel& pixel);

namespace baseline {
void depthwise_pixel(const DepthwisePixel& pixel);
}
namespace avx2 {
void depthwise_pixel(const DepthwisePixel& pixel);
}
namespace avx512 {
void depthwise_pixel(const DepthwisePixel& pixel);
}

// Source, operand 0, convolved with weights, operand 1, float32; null where the library's kernel is the one to take.
std::unique_ptr<Kernel> depthwise_convolution(Lowering& lowering, const ConvolutionPlan& plan,
                                              const ProductExtras& extras);

}  // namespace mpsgraph::cpu
