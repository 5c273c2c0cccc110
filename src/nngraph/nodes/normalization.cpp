// Node family normalization: MPSCNNBatchNormalizationNode, …InstanceNormalizationNode, …GroupNormalizationNode.
//
//   y = gamma * (x - mean) / sqrt(variance + epsilon) + beta
//
// The variance is divided by the number of elements. Batch normalization uses the statistics of the batch if its
// gradient filter is in the graph, and those of the data source otherwise.
#include "nngraph/definition.h"

namespace mpsgraph::nngraph {
namespace {

void require_feature_channels(const Lowering& l) {
  const int64_t expected = l.layer->normalization.number_of_feature_channels;
  if (l.channels() != expected)
    l.shape_error(cat("the number of image channels must be ", expected,
                      " as in the descriptor of the data source, got ", l.channels()));
}

Tensor* normalized(const Lowering& l, Tensor* x, Tensor* mean, Tensor* variance, const Ints& shape) {
  std::vector<Tensor*> operands{x, mean, variance};
  Attributes attributes{{"epsilon", l.layer->normalization.epsilon}};
  for (std::string_view name : {"gamma", "beta"}) {
    Tensor* parameter = l.parameter(name);
    attributes.set(cat("has_", name), parameter != nullptr);
    if (parameter) operands.push_back(l.b.reshape(parameter, shape));
  }
  return l.add("normalization", std::move(operands), std::move(attributes));
}

Tensor* lower_batch(Lowering& l) {
  require_feature_channels(l);
  Tensor* x = l.sources[0];
  const Ints shape{1, 1, 1, l.channels()};
  const std::string& flags = l.attributes().string("flags");
  const bool of_batch = flags == "calculate_statistics_always" || (l.training && flags == "default");
  if (of_batch) {
    l.state["mean"] = l.add("mean", {x}, {{"axes", Ints{0, 1, 2}}});
    l.state["variance"] = l.add("variance", {x, l.state["mean"]}, {{"axes", Ints{0, 1, 2}}});
  } else {
    for (std::string_view name : {"mean", "variance"}) {
      Tensor* parameter = l.parameter(name);
      if (!parameter) l.graph_error(cat("needs the ", std::string(name), " of its data source, which provides none"));
      l.state[std::string(name)] = l.b.reshape(parameter, shape);
    }
  }
  return normalized(l, x, l.state["mean"], l.state["variance"], shape);
}

Tensor* lower_instance(Lowering& l) {
  require_feature_channels(l);
  Tensor* x = l.sources[0];
  Tensor* mean = l.add("mean", {x}, {{"axes", Ints{1, 2}}});
  Tensor* variance = l.add("variance", {x, mean}, {{"axes", Ints{1, 2}}});
  return normalized(l, x, mean, variance, Ints{1, 1, 1, l.channels()});
}

Tensor* lower_group(Lowering& l) {
  require_feature_channels(l);
  const int64_t groups = l.layer->normalization.number_of_groups, channels = l.channels();
  if (groups < 1 || channels % groups != 0)
    l.shape_error(cat("the number of groups must divide the number of channels (", channels, "), got ", groups));
  Tensor* x = l.b.reshape(l.sources[0], Ints{l.batch(), l.height(), l.width(), groups, channels / groups});
  const Ints axes{1, 2, 4};
  Tensor* mean = l.add("mean", {x}, {{"axes", axes}});
  Tensor* variance = l.add("variance", {x, mean}, {{"axes", axes}});
  Tensor* result = normalized(l, x, mean, variance, Ints{1, 1, 1, groups, channels / groups});
  return l.b.reshape_like(result, l.sources[0]);
}

NodeDefinition of_normalization(std::string_view name, std::string_view apple, std::string_view apple_gradient,
                                std::string_view first, DataSource::Kind kind,
                                std::function<Tensor*(Lowering&)> lower) {
  NodeDefinition d;
  d.name = name;
  d.apple = apple;
  d.first_macos = first;
  d.apple_gradient = apple_gradient;
  d.parameters = kind;
  d.lower = std::move(lower);
  return d;
}

}  // namespace

const NodeFamily normalization_family("normalization", [] {
  NodeDefinition batch =
      of_normalization("batch_normalization", "MPSCNNBatchNormalizationNode", "MPSCNNBatchNormalizationGradientNode",
                       "10.13.4", DataSource::Kind::batch_normalization, lower_batch);
  batch.attributes = {optional("flags", std::string("default"))};
  batch.check = [](const FilterNode& node) {
    const std::string& flags = node.attributes().string("flags");
    if (flags != "default" && flags != "calculate_statistics_always" && flags != "calculate_statistics_never")
      throw GraphError(cat("[", node.title(),
                           "] flags must be one of default, calculate_statistics_always, "
                           "calculate_statistics_never, got ",
                           flags, node.where()));
  };
  define_node(std::move(batch));
  define_node(of_normalization("instance_normalization", "MPSCNNInstanceNormalizationNode",
                               "MPSCNNInstanceNormalizationGradientNode", "10.13.4",
                               DataSource::Kind::instance_normalization, lower_instance));
  define_node(of_normalization("group_normalization", "MPSCNNGroupNormalizationNode",
                               "MPSCNNGroupNormalizationGradientNode", "10.15", DataSource::Kind::group_normalization,
                               lower_group));
});

}  // namespace mpsgraph::nngraph
