// MPSNNGraph nodes of family normalization.
#include "backends/metal/nngraph/data_sources.h"
#include "backends/metal/nngraph/make_node.h"

namespace mpsgraph::metal {
namespace {

template <class Node>
Node* with_style(Making& m, Node* node) {
  const nngraph::Layer& layer = m.parameters->layer;
  const bool changes = layer.updates_itself() || layer.has_optimizer();
  node.trainingStyle = changes ? MPSNNTrainingStyleUpdateDeviceGPU : MPSNNTrainingStyleUpdateDeviceNone;
  m.made.node = node;
  return node;
}

void make_batch(Making& m) {
  MPSCNNBatchNormalizationNode* node =
      with_style(m, [MPSCNNBatchNormalizationNode nodeWithSource:m.source() dataSource:batch_source(m.parameters)]);
  const std::string& flags = m.attributes().string("flags");
  node.flags = flags == "calculate_statistics_always"  ? MPSCNNBatchNormalizationFlagsCalculateStatisticsAlways
               : flags == "calculate_statistics_never" ? MPSCNNBatchNormalizationFlagsCalculateStatisticsNever
                                                       : MPSCNNBatchNormalizationFlagsDefault;
}

void make_instance(Making& m) {
  with_style(m, [MPSCNNInstanceNormalizationNode nodeWithSource:m.source() dataSource:instance_source(m.parameters)]);
}

void make_group(Making& m) {
  with_style(m, [MPSCNNGroupNormalizationNode nodeWithSource:m.source() dataSource:group_source(m.parameters)]);
}

}  // namespace

const NodeMakers normalization_makers("normalization", [] {
  define_maker("batch_normalization", make_batch);
  define_maker("instance_normalization", make_instance);
  define_maker("group_normalization", make_group);
});

}  // namespace mpsgraph::metal
