// MPSNNGraph nodes of family shape.
#include "backends/metal/nngraph/make_node.h"

namespace mpsgraph::metal {
namespace {

// Concatenated images must fill their slices of four channels: on Macs, the padding channels contain arbitrary numbers
// instead of zeros.
void fits_concatenation(const nngraph::FilterNode& filter, std::span<const Dims> sources) {
  for (const Dims& dims : sources)
    if (dims[3] % 4 != 0)
      unsupported(filter, cat("the number of channels of concatenated images must be a multiple of 4, because the "
                              "padding channels between two images are not zero on a Mac; got ",
                              dims[3], "; use device=\"cpu\""));
}

void make_reshape(Making& m) {
  m.made.node = [MPSNNReshapeNode nodeWithSource:m.source()
                                     resultWidth:m.size("result_width")
                                    resultHeight:m.size("result_height")
                           resultFeatureChannels:m.size("result_feature_channels")];
}

void make_pad(Making& m) {
  const auto amounts = [&](std::string_view key) -> MPSImageCoordinate {
    const Ints& a = m.attributes().integers(key);
    const auto at = [&](size_t i) { return static_cast<NSUInteger>(a[i]); };
    return {.x = at(0), .y = at(1), .channel = at(2)};
  };
  constexpr std::pair<std::string_view, MPSImageEdgeMode> modes[] = {
      {"zero", MPSImageEdgeModeZero},
      {"constant", MPSImageEdgeModeConstant},
      {"clamp", MPSImageEdgeModeClamp},
      {"mirror", MPSImageEdgeModeMirror},
      {"mirror_with_edge", MPSImageEdgeModeMirrorWithEdge}};
  MPSImageEdgeMode mode = MPSImageEdgeModeZero;
  for (const auto& [name, value] : modes)
    if (name == m.attributes().string("edge_mode")) mode = value;
  MPSNNPadNode* node = [MPSNNPadNode nodeWithSource:m.source()
                                  paddingSizeBefore:amounts("before")
                                   paddingSizeAfter:amounts("after")
                                           edgeMode:mode];
  node.fillValue = m.number("fill_value");
  m.made.node = node;
}

}  // namespace

const NodeMakers shape_makers("shape", [] {
  define_maker(
      "concatenation", [](Making& m) { m.made.node = [MPSNNConcatenationNode nodeWithSources:m.sources]; },
      fits_concatenation);
  define_maker("reshape", make_reshape);
  define_maker("pad", make_pad);
});

}  // namespace mpsgraph::metal
