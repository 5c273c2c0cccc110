// Kernels for depthwise convolutions; their inner loops are in convolution_depthwise_loops.h.
#pragma once

#include <memory>

#include "backends/cpu/convolution/convolution.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/product_epilogue.h"

namespace mpsgraph::cpu {

// Return whether the convolution is depthwise, with one filter per channel and channels last.
bool is_depthwise(const ConvolutionPlan& plan);

// Build a float32 depthwise convolution of the source (operand 0) with the weights (operand 1), channels last. Return
// null if the general kernels should be used.
std::unique_ptr<Kernel> depthwise_convolution(Lowering& lowering, const ConvolutionPlan& plan,
                                              const ProductEpilogue& extras);
// Build a float32 depthwise convolution with channels first, where the pixels of a row are contiguous. Return null if
// it is not supported, for example for dilated taps.
std::unique_ptr<Kernel> depthwise_planes(Lowering& lowering, const ConvolutionPlan& plan,
                                         const ProductEpilogue& extras);
// Build the gradient with respect to the input from the incoming gradient (operand 0) and the weights (operand 1).
// Return null if the convolution is not depthwise with channels last.
std::unique_ptr<Kernel> depthwise_data_gradient(Lowering& lowering, const ConvolutionPlan& plan);
// Build the float32 gradient with respect to the weights from the incoming gradient (operand 0) and the source (operand
// 1). Return null if the convolution is not depthwise with channels last.
std::unique_ptr<Kernel> depthwise_weights_gradient(Lowering& lowering, const ConvolutionPlan& plan);

}  // namespace mpsgraph::cpu
