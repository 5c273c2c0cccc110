// MPSNNGraph nodes of family convolution. If the layer does not train, the neuron in the data source's descriptor
// becomes part of the convolution node. If the layer trains, Apple requires a separate neuron node.
#include "backends/metal/nngraph/data_sources.h"
#include "backends/metal/nngraph/make_node.h"
#include "backends/metal/nngraph/neurons.h"

namespace mpsgraph::metal {
namespace {

const nngraph::ConvolutionDescriptor& descriptor(const Making& m) { return m.parameters->layer.convolution; }

bool accumulates_in_half(const Making& m) { return m.attributes().string("accumulator_precision") == "float16"; }

id<MPSCNNConvolutionDataSource> source_of(const Making& m) {
  return convolution_source(m.parameters, {.fuses = !m.has_gradient, .half = accumulates_in_half(m)});
}

void finish(Making& m, MPSCNNConvolutionNode* node) {
  node.accumulatorPrecision = accumulates_in_half(m) ? MPSNNConvolutionAccumulatorPrecisionOptionHalf
                                                     : MPSNNConvolutionAccumulatorPrecisionOptionFloat;
  const nngraph::Layer& layer = m.parameters->layer;
  const bool changes = layer.updates_itself() || layer.has_optimizer();
  node.trainingStyle = changes ? MPSNNTrainingStyleUpdateDeviceGPU : MPSNNTrainingStyleUpdateDeviceNone;
  m.made.node = node;
  const nngraph::Neuron& n = descriptor(m).neuron;
  if (m.has_gradient && n.type != "none") m.add_behind(neuron_descriptor(n.type, n.a, n.b, n.c, nullptr), true);
}

void check_groups(const Making& m) {
  const nngraph::ConvolutionDescriptor& d = descriptor(m);
  if (d.groups > 1 && !d.depthwise && d.input_feature_channels / d.groups % 4 != 0)
    m.unsupported(cat("the number of input channels per group must be a multiple of 4, got ",
                      d.input_feature_channels / d.groups, "; use device=\"cpu\""));
  if (d.depthwise && d.output_feature_channels != d.input_feature_channels)
    m.unsupported(cat("a depthwise convolution must have as many output as input channels, got ",
                      d.output_feature_channels, " and ", d.input_feature_channels, "; use device=\"cpu\""));
}

void make_convolution(Making& m) {
  check_groups(m);
  finish(m, [MPSCNNConvolutionNode nodeWithSource:m.source() weights:source_of(m)]);
}

void make_fully_connected(Making& m) {
  finish(m, [MPSCNNFullyConnectedNode nodeWithSource:m.source() weights:source_of(m)]);
}

void make_transpose(Making& m) {
  if (m.filter.padding.custom || m.filter.padding.alignment != nngraph::PaddingAlignment::centered)
    m.unsupported(cat("a transposed convolution must have a centered padding policy, because Apple does not fully "
                      "document other policies, got ",
                      to_string(m.filter.padding), "; use device=\"cpu\""));
  const nngraph::ConvolutionDescriptor& d = descriptor(m);
  if (m.filter.padding.size == nngraph::PaddingSize::same && (d.kernel_height % 2 == 0 || d.kernel_width % 2 == 0))
    m.unsupported(cat("a transposed convolution with padding same must have odd kernel sizes, because Apple does not "
                      "document the position of the odd pixel otherwise, got ",
                      d.kernel_height, "x", d.kernel_width, "; use device=\"cpu\""));
  finish(m, [MPSCNNConvolutionTransposeNode nodeWithSource:m.source()
                                  convolutionGradientState:nil
                                                   weights:source_of(m)]);
}

}  // namespace

const NodeMakers convolution_makers("convolution", [] {
  define_maker("convolution", make_convolution);
  define_maker("convolution_transpose", make_transpose);
  define_maker("fully_connected", make_fully_connected);
});

}  // namespace mpsgraph::metal
