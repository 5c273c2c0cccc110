// MPSNNGraph nodes of family softmax.
#include "backends/metal/nngraph/make_node.h"

namespace mpsgraph::metal {

const NodeMakers softmax_makers("softmax", [] {
  define_maker("softmax", [](Making& m) { m.made.node = [MPSCNNSoftMaxNode nodeWithSource:m.source()]; });
  define_maker("log_softmax", [](Making& m) { m.made.node = [MPSCNNLogSoftMaxNode nodeWithSource:m.source()]; });
});

}  // namespace mpsgraph::metal
