// Node family reduction: reductions along rows (the width becomes 1), columns (the height becomes 1), channels, or both
// spatial axes. MPSNNReduction…Node.
#include "nngraph/definition.h"

namespace mpsgraph::nngraph {
namespace {

struct ReductionNode {
  std::string_view name, apple;
  Kind operation;
  Ints axes;
};

Tensor* reduce(Lowering& l, const ReductionNode& kind) {
  if (kind.operation == "reduction_arg_minimum" || kind.operation == "reduction_arg_maximum")
    return l.b.cast(l.add(kind.operation, {l.sources[0]}, {{"axis", int64_t{3}}}), DType::float32);
  Tensor* result = l.add(kind.operation, {l.sources[0]}, {{"axes", kind.axes}});
  if (l.attributes().has("weight"))
    if (const double weight = l.attributes().real("weight"); weight != 1) result = l.b.mul(result, weight);
  return result;
}

}  // namespace

const NodeFamily reduction_family("reduction", [] {
  static const Ints row{2}, column{1}, channels{3}, spatial{1, 2};
  static const ReductionNode kinds[] = {
      {"reduction_row_min", "MPSNNReductionRowMinNode", "reduction_minimum", row},
      {"reduction_row_max", "MPSNNReductionRowMaxNode", "reduction_maximum", row},
      {"reduction_row_mean", "MPSNNReductionRowMeanNode", "mean", row},
      {"reduction_row_sum", "MPSNNReductionRowSumNode", "reduction_sum", row},
      {"reduction_column_min", "MPSNNReductionColumnMinNode", "reduction_minimum", column},
      {"reduction_column_max", "MPSNNReductionColumnMaxNode", "reduction_maximum", column},
      {"reduction_column_mean", "MPSNNReductionColumnMeanNode", "mean", column},
      {"reduction_column_sum", "MPSNNReductionColumnSumNode", "reduction_sum", column},
      {"reduction_feature_channels_min", "MPSNNReductionFeatureChannelsMinNode", "reduction_minimum", channels},
      {"reduction_feature_channels_max", "MPSNNReductionFeatureChannelsMaxNode", "reduction_maximum", channels},
      {"reduction_feature_channels_mean", "MPSNNReductionFeatureChannelsMeanNode", "mean", channels},
      {"reduction_feature_channels_sum", "MPSNNReductionFeatureChannelsSumNode", "reduction_sum", channels},
      {"reduction_feature_channels_argument_min", "MPSNNReductionFeatureChannelsArgumentMinNode",
       "reduction_arg_minimum", channels},
      {"reduction_feature_channels_argument_max", "MPSNNReductionFeatureChannelsArgumentMaxNode",
       "reduction_arg_maximum", channels},
      {"reduction_spatial_mean", "MPSNNReductionSpatialMeanNode", "mean", spatial},
  };
  for (const ReductionNode& kind : kinds) {
    NodeDefinition d;
    d.name = kind.name;
    d.apple = kind.apple;
    d.first_macos = "10.14";
    if (kind.name == "reduction_spatial_mean")
      d.apple_gradient = "MPSNNReductionSpatialMeanGradientNode";
    else
      d.without = "the legacy MPSNNGraph API has a gradient filter only for the spatial mean";
    if (kind.operation == "reduction_sum") d.attributes = {optional("weight", 1.0)};
    d.lower = [&kind](Lowering& l) { return reduce(l, kind); };
    define_node(std::move(d));
  }
});

}  // namespace mpsgraph::nngraph
