// How a convolution reads its operands: axes of the layouts, groups and windows, from its attributes.
//
// For inference and for lowering; source, incoming gradient and result share the data layout. Every convolution, of two
// or three axes, grouped or depthwise, is one of groups of channels, which GroupedWeights tells kernels.
#pragma once

#include "core/ops/window.h"

namespace mpsgraph::ops {

// Plain weights have input channels / groups at weights_in, and output channels at weights_out; output channel o
// belongs to group o / (output channels / groups). Depthwise, each input channel is a group: its outputs have an axis
// of their own in two dimensions (the channel multiplier), and lie beside one another on the one axis of channels in
// three, where weights_in is weights_out.
struct Convolution : Windows {
  bool depthwise = false;
  int64_t groups = 1;  // of a plain one
  int weights_rank = 4, weights_out = 0, weights_in = 0;
  std::array<int, most> weights_spatial{};

  explicit Convolution(const Attributes& attributes) : Convolution(Windows(attributes), attributes) {}
  Convolution(const Windows& windows, const Attributes& attributes) : Windows(windows) {
    depthwise = !attributes.has("groups");
    if (!depthwise) groups = attributes.integer("groups");
    int first = 0;
    if (fixed_rank == 0) {  // as the last axes of the source
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

// Weights as [groups][inputs][outputs] beside their windowed axes: sizes, and strides in elements.
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
