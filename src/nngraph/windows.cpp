// Windows over a source image: conversion of a padding policy to attributes of core operations.
#include "nngraph/windows.h"

#include <algorithm>

namespace mpsgraph::nngraph {

Windowed windowed(const Lowering& l, const Window& w) {
  const int64_t reach_y = (w.height - 1) * w.dilation_y + 1, reach_x = (w.width - 1) * w.dilation_x + 1;
  WindowAxis y = l.node.padding.forward(0, l.height(), reach_y, w.stride_y);
  WindowAxis x = l.node.padding.forward(1, l.width(), reach_x, w.stride_x);
  if (y.size < 1 || x.size < 1)
    l.shape_error(cat("windows of ", w.height, "x", w.width, " do not fit into images of ", l.height(), "x", l.width(),
                      " (", to_string(l.node.padding), ")"));
  Tensor* source = l.sources[0];
  if (y.before < 0 || x.before < 0) {
    const Ints starts{0, std::max<int64_t>(0, -y.before), std::max<int64_t>(0, -x.before), 0};
    const Dims& dims = source->shape().dims();
    source = l.add("slice", {source},
                   {{"starts", starts}, {"ends", Ints(dims.begin(), dims.end())}, {"strides", Ints{1, 1, 1, 1}}});
    y.before = std::max<int64_t>(0, y.before), x.before = std::max<int64_t>(0, x.before);
  }
  const Ints padding{y.before, std::max<int64_t>(0, y.after), x.before, std::max<int64_t>(0, x.after)};
  return {source,
          {y.size, x.size},
          {{"strides", Ints{w.stride_y, w.stride_x}},
           {"dilations", Ints{w.dilation_y, w.dilation_x}},
           {"padding", padding},
           {"padding_style", std::string("EXPLICIT")}}};
}

}  // namespace mpsgraph::nngraph
