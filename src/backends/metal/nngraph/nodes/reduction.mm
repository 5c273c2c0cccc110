// MPSNNGraph nodes of family reduction. Among Apple's reductions, only the sum over channels has a weight; for the
// others, a neuron node applies the weight.
#include "backends/metal/nngraph/make_node.h"
#include "backends/metal/nngraph/neurons.h"

namespace mpsgraph::metal {
namespace {

template <class Node>
void make_reduction(Making& m) {
  m.made.node = [Node nodeWithSource:m.source()];
  if (m.attributes().has("weight") && m.attributes().real("weight") != 1)
    m.add_behind(neuron_descriptor("linear", m.attributes().real("weight"), 0, 0, nullptr), true);
}

}  // namespace

const NodeMakers reduction_makers("reduction", [] {
  define_maker("reduction_row_min", make_reduction<MPSNNReductionRowMinNode>);
  define_maker("reduction_row_max", make_reduction<MPSNNReductionRowMaxNode>);
  define_maker("reduction_row_mean", make_reduction<MPSNNReductionRowMeanNode>);
  define_maker("reduction_row_sum", make_reduction<MPSNNReductionRowSumNode>);
  define_maker("reduction_column_min", make_reduction<MPSNNReductionColumnMinNode>);
  define_maker("reduction_column_max", make_reduction<MPSNNReductionColumnMaxNode>);
  define_maker("reduction_column_mean", make_reduction<MPSNNReductionColumnMeanNode>);
  define_maker("reduction_column_sum", make_reduction<MPSNNReductionColumnSumNode>);
  define_maker("reduction_feature_channels_min", make_reduction<MPSNNReductionFeatureChannelsMinNode>);
  define_maker("reduction_feature_channels_max", make_reduction<MPSNNReductionFeatureChannelsMaxNode>);
  define_maker("reduction_feature_channels_mean", make_reduction<MPSNNReductionFeatureChannelsMeanNode>);
  define_maker("reduction_feature_channels_sum", make_reduction<MPSNNReductionFeatureChannelsSumNode>);
  define_maker("reduction_feature_channels_argument_min", make_reduction<MPSNNReductionFeatureChannelsArgumentMinNode>);
  define_maker("reduction_feature_channels_argument_max", make_reduction<MPSNNReductionFeatureChannelsArgumentMaxNode>);
  define_maker("reduction_spatial_mean", make_reduction<MPSNNReductionSpatialMeanNode>);
});

}  // namespace mpsgraph::metal
