// How the attributes of a convolution determine the roles of its operands' axes: layouts, groups, and windows.
//
// Shared by inference and lowering. Source, incoming gradient, and result have the same data layout. Every convolution
// (two or three axes, grouped or depthwise) can be treated as a grouped convolution; GroupedWeights describes the
// weights to kernels in this form.
#pragma once

#include "core/ops/window.h"

namespace mpsgraph::ops {

// Indices of the axes of a convolution's weights.
//
// Not depthwise: axis weights_in has input channels / groups entries, and axis weights_out has one entry per output
// channel. Output channel o belongs to group o / (output channels / groups), rounded down.
// Depthwise: each input channel is a group. In two dimensions, weights_in is the axis of input channels, and
// weights_out the axis of the outputs of each input channel. In three dimensions, a single axis holds the outputs of
// all input channels, those of one input channel next to each other; weights_in and weights_out are both this axis.
struct Convolution : Windows {
  bool depthwise = false;
  int64_t groups = 1;  // number of groups; unused if depthwise
  int weights_rank = 4, weights_out = 0, weights_in = 0;
  std::array<int, most> weights_spatial{};

  explicit Convolution(const Attributes& attributes) : Convolution(Windows(attributes), attributes) {}
  Convolution(const Windows& windows, const Attributes& attributes) : Windows(windows) {
    depthwise = !attributes.has("groups");
    if (!depthwise) groups = attributes.integer("groups");
    int first = 0;
    if (fixed_rank == 0) {  // The weights have the layout of the source's last four axes.
      weights_out = weights_in = weights_rank + channel;
      for (int i = 0; i < count; ++i) weights_spatial[i] = weights_rank + spatial[i];
      return;
    }
    weights_rank = count + 2;
    if (attributes.string("weights_layout").front() == 'O')
      weights_out = 0, weights_in = 1, first = 2;
    else
      weights_out = count + 1, weights_in = count;
    for (int i = 0; i < count; ++i) weights_spatial[i] = first + i;
  }
};

// Weights viewed as [groups][inputs][outputs] at each spatial position: sizes, and strides in elements.
struct GroupedWeights {
  int64_t groups, inputs, outputs;
  int64_t group_stride, input_stride, output_stride;

  GroupedWeights(const Convolution& c, int64_t source_channels, const Dims& weights) {
    const Dims strides = contiguous_strides(weights);
    const int64_t in = weights[c.weights_in], out = weights[c.weights_out];
    groups = c.depthwise ? source_channels : c.groups;
    inputs = c.depthwise ? 1 : in;
    const bool own_axis = c.depthwise && c.weights_in != c.weights_out;
    outputs = own_axis ? out : groups > 0 ? out / groups : 0;
    input_stride = strides[c.weights_in];
    output_stride = strides[c.weights_out];
    group_stride = own_axis ? strides[c.weights_in] : outputs * output_stride;
  }
};

}  // namespace mpsgraph::ops
