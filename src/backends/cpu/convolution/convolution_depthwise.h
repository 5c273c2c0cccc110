// Depthwise convolutions, each channel by itself; their loops stand in convolution_depthwise_loops.h.
#pragma once

#include <memory>

#include "backends/cpu/convolution/convolution.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/product_epilogue.h"

namespace mpsgraph::cpu {

// One filter for each channel, with channels last?
bool is_depthwise(const ConvolutionPlan& plan);

// Source, operand 0, convolved with weights, operand 1, float32; null where the library's kernel is the one to take.
std::unique_ptr<Kernel> depthwise_convolution(Lowering& lowering, const ConvolutionPlan& plan,
                                              const ProductEpilogue& extras);
// The same with channels before rows and columns, where pixels of a row are read one after the other, and taps are
// neighbours.
std::unique_ptr<Kernel> depthwise_planes(Lowering& lowering, const ConvolutionPlan& plan,
                                         const ProductEpilogue& extras);
// Of the incoming gradient, operand 0, and the weights, operand 1, likewise: without strides, or with dilations.
std::unique_ptr<Kernel> depthwise_data_gradient(Lowering& lowering, const ConvolutionPlan& plan);
// Of the incoming gradient, operand 0, and the source, operand 1, in float32; null where it is not depthwise with
// channels last.
std::unique_ptr<Kernel> depthwise_weights_gradient(Lowering& lowering, const ConvolutionPlan& plan);

}  // namespace mpsgraph::cpu
