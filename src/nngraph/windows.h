// What filters with windows share: their sizes as a padding policy says, as attributes of the core's operations.
#pragma once

#include "nngraph/definition.h"

namespace mpsgraph::nngraph {

struct Window {
  int64_t height, width, stride_y, stride_x, dilation_y = 1, dilation_x = 1;
};

// A source with windows over it: what no window reaches at its beginning is cut off.
struct Windowed {
  Tensor* source;
  Dims size;  // of the result: height, width
  Attributes attributes;  // strides, dilations, padding
};
Windowed windowed(const Lowering& l, const Window& window);

// x behind a neuron of this type and these parameters; `slopes`: of a PReLU, one for each channel. `derived`: its
// derivative is that of what is built here. Apple's ReLU has 1 at 0, the core's has 0, and will not do then.
Tensor* neuron(Builder& b, std::string_view type, double a, double b_, double c, const ConstantPtr& slopes, Tensor* x,
               bool derived = false);

}  // namespace mpsgraph::nngraph
