// Depthwise convolutions with channels last: each channel by itself, so that vectors run along the channels of a pixel.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/cpu/convolution/convolution.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/product_extras.h"

namespace mpsgraph::cpu {

// Of a pixel: to[c] = before[c], if there is any, + sum over taps of rows[t][c] * weights[t][c].
struct DepthwisePixel {
  const float* const* rows;
  const float* const* weights;
  int64_t taps, channels;
  const float* before;
  float* to;
};

// Of pixels side by side that see the same taps: rows of taps, and in a row taps that are evenly spaced. Steps are in
// elements; a tap's weights are `channels` behind those of the tap before. Sums get bias and residual, where there are
// any, and relu.
struct DepthwiseStrip {
  const float* const* rows;  // what the first tap of each row sees of the first pixel
  const float* const* weights;
  int64_t tap_rows, taps_of_row, tap_step, pixels, pixel_step, channels;
  const float *bias, *residual;
  bool relu;
  float* to;
  int64_t to_step;
};

struct DepthwiseFunctions {
  void (*pixel)(const DepthwisePixel& pixel);
  void (*strip)(const DepthwiseStrip& strip);
};
namespace baseline {
extern const DepthwiseFunctions depthwise_functions;
}
namespace avx2 {
extern const DepthwiseFunctions depthwise_functions;
}
namespace avx512 {
extern const DepthwiseFunctions depthwise_functions;
}

// For this processor.
const DepthwiseFunctions& depthwise_functions();

// One filter for each channel, with channels last?
bool is_depthwise(const ConvolutionPlan& plan);
// And with dilations, so that the kernels here take the gradients too?
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
