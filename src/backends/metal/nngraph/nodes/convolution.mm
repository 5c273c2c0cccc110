// Family convolution. The neuron of a data source's descriptor is fused where the layer does not train; where it does,
// Apple wants it as a node of its own.
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
    m.unsupported(
        cat("groups of ", d.input_feature_channels / d.groups, " input channels; Apple's take a multiple of 4 each"));
  if (d.depthwise && d.output_feature_channels != d.input_feature_channels)
    m.unsupported(cat("a depthwise convolution from ", d.input_feature_channels, " to ", d.output_feature_channels,
                      " channels; Apple's gives as many as it takes"));
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
    m.unsupported(cat("a transposed convolution with ", to_string(m.filter.padding),
                      "; only centered policies of Apple's are documented to the pixel"));
  const nngraph::ConvolutionDescriptor& d = descriptor(m);
  if (m.filter.padding.size == nngraph::PaddingSize::same && (d.kernel_height % 2 == 0 || d.kernel_width % 2 == 0))
    m.unsupported(cat("a transposed convolution of ", d.kernel_height, "x", d.kernel_width,
                      " with padding same; on which side the odd pixel goes is documented for odd kernels only"));
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
