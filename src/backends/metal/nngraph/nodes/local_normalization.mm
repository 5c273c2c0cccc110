// MPSNNGraph nodes of family local_normalization.
#include "backends/metal/nngraph/make_node.h"

namespace mpsgraph::metal {
namespace {

void set_parameters(Making& m, MPSCNNNormalizationNode* node) {
  node.alpha = m.number("alpha");
  node.beta = m.number("beta");
  node.delta = m.number("delta");
  m.made.node = node;
}

void make_spatial(Making& m) {
  MPSCNNSpatialNormalizationNode* node = [MPSCNNSpatialNormalizationNode nodeWithSource:m.source()
                                                                             kernelSize:m.size("kernel_width")];
  node.kernelWidth = m.size("kernel_width");
  node.kernelHeight = m.size("kernel_height");
  set_parameters(m, node);
}

void make_cross_channel(Making& m) {
  set_parameters(m, [MPSCNNCrossChannelNormalizationNode nodeWithSource:m.source() kernelSize:m.size("kernel_size")]);
}

void make_local_contrast(Making& m) {
  MPSCNNLocalContrastNormalizationNode* node =
      [MPSCNNLocalContrastNormalizationNode nodeWithSource:m.source() kernelSize:m.size("kernel_width")];
  node.kernelWidth = m.size("kernel_width");
  node.kernelHeight = m.size("kernel_height");
  node.pm = m.number("pm");
  node.ps = m.number("ps");
  node.p0 = m.number("p0");
  set_parameters(m, node);
}

}  // namespace

const NodeMakers local_normalization_makers("local_normalization", [] {
  define_maker("spatial_normalization", make_spatial);
  define_maker("cross_channel_normalization", make_cross_channel);
  define_maker("local_contrast_normalization", make_local_contrast);
});

}  // namespace mpsgraph::metal
