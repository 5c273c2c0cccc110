// Node family arithmetic: element-wise operations on two images. MPSNNAdditionNode, …SubtractionNode,
// …MultiplicationNode, …DivisionNode, MPSNNComparisonNode.
//
//   result = clamp((primary_scale * x op secondary_scale * y) + bias, minimum_value, maximum_value)
//
// A stride of 0 repeats an image's first pixel, row, or channel. As in Apple's implementation, the gradient ignores the
// clamp.
#include <algorithm>
#include <limits>

#include "mpsgraph/core/gradients.h"
#include "nngraph/definition.h"

namespace mpsgraph::nngraph {
namespace {

// Broadcast a source image along the axes with stride 0. Strides are ordered x, y, channels.
Tensor* repeated(const Lowering& l, size_t i, std::string_view key) {
  const Ints& strides = l.attributes().integers(key);
  Dims dims = l.sources[i]->shape().dims();
  const int64_t axes[] = {2, 1, 3};
  for (size_t s = 0; s < 3; ++s)
    if (strides[s] == 0) dims[static_cast<size_t>(axes[s])] = 1;
  if (dims == l.sources[i]->shape().dims()) return l.sources[i];
  return l.add("slice", {l.sources[i]},
               {{"starts", Ints{0, 0, 0, 0}}, {"ends", Ints(dims.begin(), dims.end())}, {"strides", Ints{1, 1, 1, 1}}});
}

std::pair<Tensor*, Tensor*> operands(const Lowering& l) {
  Tensor *x = repeated(l, 0, "primary_stride"), *y = repeated(l, 1, "secondary_stride");
  const Ints &of_x = l.attributes().integers("primary_stride"), &of_y = l.attributes().integers("secondary_stride");
  constexpr int strided[] = {-1, 1, 0, 2};  // index of each NHWC axis in the strides (x, y, channels)
  for (int axis = 0; axis < 4; ++axis) {
    const auto repeats = [&](const Ints& strides) {
      return strided[axis] >= 0 && strides[static_cast<size_t>(strided[axis])] == 0;
    };
    if (x->shape()[axis] != y->shape()[axis] && !repeats(of_x) && !repeats(of_y))
      l.shape_error(cat("source images must have the same shape, got ", x->shape(), " and ", y->shape(),
                        "; a stride of 0 repeats an axis"));
  }
  return {x, y};
}

Tensor* lower_arithmetic(Lowering& l, Kind operation) {
  const Attributes& a = l.attributes();
  auto [x, y] = operands(l);
  if (const double scale = a.real("primary_scale"); scale != 1) x = l.b.mul(x, scale);
  if (const double scale = a.real("secondary_scale"); scale != 1) y = l.b.mul(y, scale);
  Tensor* result = l.b.binary(operation, x, y);
  if (const double bias = a.real("bias"); bias != 0) result = l.b.add(result, bias);
  l.state["unclamped"] = result;
  const double low = a.real("minimum_value"), high = a.real("maximum_value");
  const double most = std::numeric_limits<float>::max();
  if (low <= -most && high >= most) return result;
  return l.add("clamp", {result, l.b.scalar_like(result, low), l.b.scalar_like(result, high)});
}

Tensor* d_arithmetic(Lowering& l, Tensor* incoming, size_t i) {
  if (l.sources[0] != l.sources[1]) return gradients(l.state["unclamped"], {l.sources[i]}, incoming)[0];
  // If both sources are the same image, the gradient with respect to each source treats the other source as a constant.
  Lowering side(l.b, l.node);
  side.sources = {l.b.unary("identity", l.sources[0]), l.b.unary("identity", l.sources[1])};
  lower_arithmetic(side, kind_named(l.node.kind()));
  return gradients(side.state["unclamped"], {side.sources[i]}, incoming)[0];
}

Tensor* lower_comparison(Lowering& l) {
  const auto [x, y] = operands(l);
  const std::string& type = l.attributes().string("comparison_type");
  const Kind operation = type == "less"               ? Kind("less_than")
                         : type == "less_or_equal"    ? "less_than_or_equal_to"
                         : type == "greater"          ? "greater_than"
                         : type == "greater_or_equal" ? "greater_than_or_equal_to"
                                                      : kind_named(type);
  return l.b.cast(l.b.binary(operation, x, y), DType::float32);
}

void check_strides(const FilterNode& node) {
  for (std::string_view key : {"primary_stride", "secondary_stride"}) {
    const Ints& strides = node.attributes().integers(key);
    const bool fits =
        strides.size() == 3 && std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s == 0 || s == 1; });
    if (!fits)
      throw GraphError(cat("[", node.title(), "] ", key, " must be three numbers (x, y, channels), each 0 or 1, got ",
                           to_string(strides), node.where()));
  }
}

NodeDefinition of_two(std::string_view name, std::string_view apple, std::string_view apple_gradient) {
  NodeDefinition d;
  d.name = name;
  d.apple = apple;
  d.first_macos = "10.13";
  d.apple_gradient = apple_gradient;
  d.min_sources = d.max_sources = 2;
  d.attributes = {optional("primary_stride", Ints{1, 1, 1}), optional("secondary_stride", Ints{1, 1, 1})};
  d.check = check_strides;
  return d;
}

}  // namespace

const NodeFamily arithmetic_family("arithmetic", [] {
  constexpr double most = std::numeric_limits<float>::max();
  constexpr std::pair<Kind, std::pair<std::string_view, std::string_view>> kinds[] = {
      {"addition", {"MPSNNAdditionNode", "MPSNNAdditionGradientNode"}},
      {"subtraction", {"MPSNNSubtractionNode", "MPSNNSubtractionGradientNode"}},
      {"multiplication", {"MPSNNMultiplicationNode", "MPSNNMultiplicationGradientNode"}},
      {"division", {"MPSNNDivisionNode", ""}}};
  for (const auto& [name, apple] : kinds) {
    NodeDefinition d = of_two(name, apple.first, apple.second);
    if (apple.second.empty())
      d.without = "the legacy MPSNNGraph API has no gradient of a division; multiply by a power of -1 instead";
    for (std::string_view key : {"primary_scale", "secondary_scale"}) d.attributes.push_back(optional(key, 1.0));
    d.attributes.push_back(optional("bias", 0.0));
    d.attributes.push_back(optional("minimum_value", -most));
    d.attributes.push_back(optional("maximum_value", most));
    d.lower = [operation = name](Lowering& l) { return lower_arithmetic(l, operation); };
    d.gradient = d_arithmetic;
    define_node(std::move(d));
  }
  NodeDefinition comparison = of_two("comparison", "MPSNNComparisonNode", "");
  comparison.first_macos = "10.14";
  comparison.without = "a comparison is constant wherever it is differentiable";
  comparison.attributes.push_back(optional("comparison_type", std::string("equal")));
  comparison.lower = lower_comparison;
  comparison.check = [](const FilterNode& node) {
    check_strides(node);
    const std::string& type = node.attributes().string("comparison_type");
    for (std::string_view known : {"equal", "not_equal", "less", "less_or_equal", "greater", "greater_or_equal"})
      if (type == known) return;
    throw GraphError(cat("[", node.title(),
                         "] comparison_type must be one of equal, not_equal, less, less_or_equal, greater, "
                         "greater_or_equal, got ",
                         type, node.where()));
  };
  define_node(std::move(comparison));
});

}  // namespace mpsgraph::nngraph
