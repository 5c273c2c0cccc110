// MPSNNGraph nodes of family dropout. Apple generates the masks, so the same seed gives different masks on Metal and on
// the CPU.
#include "backends/metal/nngraph/make_node.h"

namespace mpsgraph::metal {

const NodeMakers dropout_makers("dropout", [] {
  define_maker("dropout", [](Making& m) {
    const Ints& stride = m.attributes().integers("mask_stride_in_pixels");
    const auto at = [&](size_t i) { return static_cast<NSUInteger>(stride[i]); };
    m.made.node = [MPSCNNDropoutNode nodeWithSource:m.source()
                                    keepProbability:m.number("keep_probability")
                                               seed:m.size("seed")
                                 maskStrideInPixels:MTLSize{at(0), at(1), at(2)}];
  });
});

}  // namespace mpsgraph::metal
