// Sizes and strides of a convolution, shared by all convolution kernels, and the kernels for every layout, number of
// groups, and float type: matmuls of patches (im2col) and direct loops.
//
// A 2-D convolution is treated as 3-D with a first axis of size 1. Every convolution, depthwise ones included, is
// expressed in groups of channels (core/ops/convolution.h), so the direct loops also cover depthwise convolutions.
#pragma once

#include <array>

#include "backends/cpu/dispatch.h"
#include "core/ops/convolution.h"

namespace mpsgraph::cpu {

struct ConvolutionKinds {
  Kind forward, data_gradient, weights_gradient;
};
inline constexpr ConvolutionKinds convolution_kinds[] = {
    {"convolution2d", "convolution2d_data_gradient", "convolution2d_weights_gradient"},
    {"convolution3d", "convolution3d_data_gradient", "convolution3d_weights_gradient"},
    {"depthwise_convolution2d", "depthwise_convolution2d_data_gradient", "depthwise_convolution2d_weights_gradient"},
    {"depthwise_convolution3d", "depthwise_convolution3d_data_gradient", "depthwise_convolution3d_weights_gradient"},
};

// Sizes and element strides of an image tensor, in the order batch, channel, depth, height, width.
struct ConvolutionImage {
  int64_t n = 1, c = 1, sn = 0, sc = 0;
  std::array<int64_t, 3> size{1, 1, 1}, step{0, 0, 0};
  ConvolutionImage(const ops::Windows& axes, const Dims& dims);
  int64_t pixels() const { return size[0] * size[1] * size[2]; }
};

// Geometry of a convolution and its gradients: `x` describes the source image and `y` the result.
struct ConvolutionPlan {
  ConvolutionImage x, y;
  std::array<int64_t, 3> kernel{1, 1, 1}, kernel_step{0, 0, 0};  // size and strides of the weights
  std::array<ops::Window, 3> windows{};
  ops::GroupedWeights weights;
  int64_t groups, inputs, outputs;  // groups, and input and output channels per group

  ConvolutionPlan(const ops::Convolution& c, const Dims& source, const Dims& weights, const Dims& result);
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  bool empty() const { return y.n * y.c * y.pixels() == 0 || taps() * inputs == 0; }
  // Return whether the pixels of a result are evenly spaced in memory, which is not the case if channels lie between
  // the spatial axes.
  bool even() const {
    return y.step[1] == y.size[2] * y.step[2] && (y.size[0] == 1 || y.step[0] == y.size[1] * y.step[1]);
  }
  int64_t tap_offset(int64_t tap) const {  // element offset in the weights
    return tap / (kernel[1] * kernel[2]) * kernel_step[0] + tap / kernel[2] % kernel[1] * kernel_step[1] +
           tap % kernel[2] * kernel_step[2];
  }
};

// Build a convolution of the source (operand 0) with the weights (operand 1), without an epilogue.
std::unique_ptr<Kernel> convolve(Lowering& lowering, const ConvolutionPlan& plan);
// Build the gradient with respect to the input from the incoming gradient (operand 0) and the weights (operand 1).
std::unique_ptr<Kernel> convolve_back(Lowering& lowering, const ConvolutionPlan& plan);
// Build the gradient with respect to the weights from the incoming gradient (operand 0) and the source (operand 1).
std::unique_ptr<Kernel> convolve_weights(Lowering& lowering, const ConvolutionPlan& plan);

// Direct convolution for any strides: computes the result element by element, accumulating each sum in double.
template <class T>
struct DirectConvolution {
  static void forward(const ConvolutionPlan& p, const T* x, const T* w, T* y);
  static void data_gradient(const ConvolutionPlan& p, const T* incoming, const T* w, T* x);
  static void weights_gradient(const ConvolutionPlan& p, const T* incoming, const T* x, T* w);
};

}  // namespace mpsgraph::cpu
