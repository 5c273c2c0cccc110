// Node family shape: MPSNNConcatenationNode, MPSNNReshapeNode, MPSNNPadNode.
#include <algorithm>

#include "nngraph/definition.h"

namespace mpsgraph::nngraph {
namespace {

// Images are stored in slices of four channels, and a concatenation copies whole slices, so the channels of each source
// are padded to a multiple of four. Here the padding is zero; on a Mac its contents are undefined.
Tensor* lower_concatenation(Lowering& l) {
  std::vector<Tensor*> parts;
  for (size_t i = 0; i < l.sources.size(); ++i) {
    if (l.height(i) != l.height() || l.width(i) != l.width())
      l.shape_error(cat("concatenated images must have the same height and width, got ", l.sources[0]->shape(), " and ",
                        l.sources[i]->shape()));
    const int64_t missing = (4 - l.channels(i) % 4) % 4;
    parts.push_back(missing
                        ? l.add("pad", {l.sources[i]}, {{"left", Ints{0, 0, 0, 0}}, {"right", Ints{0, 0, 0, missing}}})
                        : l.sources[i]);
  }
  return l.add("concat", std::move(parts), {{"axis", int64_t{3}}});
}

// Reshape the elements of each image, read in the order height, width, channels.
Tensor* lower_reshape(Lowering& l) {
  const Attributes& a = l.attributes();
  const int64_t width = a.integer("result_width"), height = a.integer("result_height"),
                channels = a.integer("result_feature_channels");
  const int64_t came = l.height() * l.width() * l.channels();
  if (height * width * channels != came)
    l.shape_error(cat("cannot reshape images of shape ", l.sources[0]->shape(), " with ", came, " elements each to ",
                      height, "x", width, "x", channels, " with ", height * width * channels, " elements"));
  return l.b.reshape(l.sources[0], Ints{l.batch(), height, width, channels});
}

std::string_view core_mode(std::string_view edge_mode) {
  if (edge_mode == "mirror") return "reflect";
  if (edge_mode == "mirror_with_edge") return "symmetric";  // Both modes repeat the edge pixel.
  if (edge_mode == "clamp") return "clamp_to_edge";
  return "constant";
}

// Pad an image. The amounts are ordered x, y, channels.
Tensor* lower_pad(Lowering& l) {
  const Attributes& a = l.attributes();
  const Ints &before = a.integers("before"), &after = a.integers("after");
  const std::string& edge = a.string("edge_mode");
  return l.add("pad", {l.sources[0]},
               {{"left", Ints{0, before[1], before[0], before[2]}},
                {"right", Ints{0, after[1], after[0], after[2]}},
                {"mode", std::string(core_mode(edge))},
                {"value", edge == "constant" ? a.real("fill_value") : 0.0}});
}

void check_pad(const FilterNode& node) {
  for (std::string_view key : {"before", "after"}) {
    const Ints& amounts = node.attributes().integers(key);
    const bool fits =
        amounts.size() == 3 && std::all_of(amounts.begin(), amounts.end(), [](int64_t n) { return n >= 0; });
    if (!fits)
      throw GraphError(cat("[", node.title(), "] ", key, " must be three non-negative numbers (x, y, channels), got ",
                           to_string(amounts), node.where()));
  }
  const std::string& edge = node.attributes().string("edge_mode");
  for (std::string_view known : {"zero", "constant", "clamp", "mirror", "mirror_with_edge"})
    if (edge == known) return;
  throw GraphError(cat("[", node.title(),
                       "] edge_mode must be one of zero, constant, clamp, mirror, mirror_with_edge, got ", edge,
                       node.where()));
}

}  // namespace

const NodeFamily shape_family("shape", [] {
  NodeDefinition concatenation;
  concatenation.name = "concatenation";
  concatenation.apple = "MPSNNConcatenationNode";
  concatenation.first_macos = "10.13";
  concatenation.apple_gradient = "MPSNNConcatenationGradientNode";
  concatenation.max_sources = -1;
  concatenation.lower = lower_concatenation;
  define_node(std::move(concatenation));

  NodeDefinition reshape;
  reshape.name = "reshape";
  reshape.apple = "MPSNNReshapeNode";
  reshape.first_macos = "10.14";
  reshape.apple_gradient = "MPSNNReshapeGradientNode";
  for (std::string_view key : {"result_width", "result_height", "result_feature_channels"})
    reshape.attributes.push_back(required(key, AttributeKind::integer));
  reshape.lower = lower_reshape;
  define_node(std::move(reshape));

  NodeDefinition pad;
  pad.name = "pad";
  pad.apple = "MPSNNPadNode";
  pad.first_macos = "10.14";
  pad.apple_gradient = "MPSNNPadGradientNode";
  pad.attributes = {required("before", AttributeKind::integers), required("after", AttributeKind::integers),
                    optional("edge_mode", std::string("zero")), optional("fill_value", 0.0)};
  pad.lower = lower_pad;
  pad.check = check_pad;
  define_node(std::move(pad));
});

}  // namespace mpsgraph::nngraph
