// Code shared by filters with windows: it turns window sizes and a padding policy into attributes of core operations.
#pragma once

#include "nngraph/definition.h"

namespace mpsgraph::nngraph {

struct Window {
  int64_t height, width, stride_y, stride_x, dilation_y = 1, dilation_x = 1;
};

// A source image and the windows over it. If no window covers the first pixels of an axis, `source` is the image
// without these pixels.
struct Windowed {
  Tensor* source;
  Dims size;  // size of the result: (height, width)
  Attributes attributes;  // strides, dilations, and padding of the core operation
};
Windowed windowed(const Lowering& l, const Window& window);

// Apply a neuron with the given type and parameters to x. `slopes` has one slope per channel of a PReLU. Set `derived`
// if the core differentiates the result; ReLU is then built so that its derivative at 0 is 1, like Apple's, instead of
// the core's 0.
Tensor* neuron(Builder& b, std::string_view type, double a, double b_, double c, const ConstantPtr& slopes, Tensor* x,
               bool derived = false);

}  // namespace mpsgraph::nngraph
