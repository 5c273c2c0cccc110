// MPSNNGraph nodes of family arithmetic. On a Mac, MPSNNGraph does not pass primaryScale to the kernel, and the effect
// of secondaryScale, bias, and limits has not been measured. Neuron nodes before and after the arithmetic node
// implement these attributes instead.
#include <limits>

#include "backends/metal/nngraph/make_node.h"
#include "backends/metal/nngraph/neurons.h"

namespace mpsgraph::metal {
namespace {

template <class Node>
Node* of_two(Making& m) {
  const auto side = [&](NSUInteger i, std::string_view key) {
    const bool scales = m.attributes().has(key) && m.attributes().real(key) != 1;
    return scales ? m.scaled(i, m.number(key), 0) : m.sources[i];
  };
  Node* node = [Node nodeWithLeftSource:side(0, "primary_scale") rightSource:side(1, "secondary_scale")];
  const auto strides = [&](std::string_view key, size_t i) {
    return static_cast<NSUInteger>(m.attributes().integers(key)[i]);
  };
  node.primaryStrideInPixelsX = strides("primary_stride", 0);
  node.primaryStrideInPixelsY = strides("primary_stride", 1);
  node.primaryStrideInFeatureChannels = strides("primary_stride", 2);
  node.secondaryStrideInPixelsX = strides("secondary_stride", 0);
  node.secondaryStrideInPixelsY = strides("secondary_stride", 1);
  node.secondaryStrideInFeatureChannels = strides("secondary_stride", 2);
  m.made.node = node;
  return node;
}

// Clamp y from below (side 1) or from above (side -1) as limit + side * relu(side * (y - limit)). The gradient ignores
// the clamp.
void add_limit(Making& m, double side, double limit) {
  m.add_behind(neuron_descriptor("linear", side, -side * limit, 0, nullptr), false);
  m.add_behind(neuron_descriptor("relu", 0, 0, 0, nullptr), false);
  m.add_behind(neuron_descriptor("linear", side, limit, 0, nullptr), false);
}

template <class Node>
void make_arithmetic(Making& m) {
  of_two<Node>(m);
  if (const double bias = m.attributes().real("bias"); bias != 0)
    m.add_behind(neuron_descriptor("linear", 1, bias, 0, nullptr), true);
  constexpr double most = std::numeric_limits<float>::max();
  if (const double low = m.attributes().real("minimum_value"); low > -most) add_limit(m, 1, low);
  if (const double high = m.attributes().real("maximum_value"); high < most) add_limit(m, -1, high);
}

void make_comparison(Making& m) {
  const std::string& type = m.attributes().string("comparison_type");
  constexpr std::pair<std::string_view, MPSNNComparisonType> types[] = {
      {"equal", MPSNNComparisonTypeEqual},     {"not_equal", MPSNNComparisonTypeNotEqual},
      {"less", MPSNNComparisonTypeLess},       {"less_or_equal", MPSNNComparisonTypeLessOrEqual},
      {"greater", MPSNNComparisonTypeGreater}, {"greater_or_equal", MPSNNComparisonTypeGreaterOrEqual}};
  MPSNNComparisonNode* node = of_two<MPSNNComparisonNode>(m);
  for (const auto& [name, value] : types)
    if (name == type) node.comparisonType = value;
}

}  // namespace

const NodeMakers arithmetic_makers("arithmetic", [] {
  define_maker("addition", make_arithmetic<MPSNNAdditionNode>);
  define_maker("subtraction", make_arithmetic<MPSNNSubtractionNode>);
  define_maker("multiplication", make_arithmetic<MPSNNMultiplicationNode>);
  define_maker("division", make_arithmetic<MPSNNDivisionNode>);
  define_maker("comparison", make_comparison);
});

}  // namespace mpsgraph::metal
