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

// For this processor.
DepthwiseFunction depthwise_function();

// One filter for each channel, with channels last?
bool is_depthwise(const ConvolutionPlan& plan);
// And with dilations, so that the kernels here take them?
bool taps_lie_apart(const ConvolutionPlan& plan);

// Source, operand 0, convolved with weights, operand 1, float32; null where the library's kernel is the one to take.
std::unique_ptr<Kernel> depthwise_convolution(Lowering& lowering, const ConvolutionPlan& plan,
                                              const ProductExtras& extras);
// Of the incoming gradient, operand 0, and the weights, operand 1, likewise.
std::unique_ptr<Kernel> depthwise_data_gradient(Lowering& lowering, const ConvolutionPlan& plan);
// Of the incoming gradient, operand 0, and the source, operand 1, in float32; null where it is not depthwise with
// channels last.
std::unique_ptr<Kernel> depthwise_weights_gradient(Lowering& lowering, const ConvolutionPlan& plan);

}  // namespace mpsgraph::cpu
