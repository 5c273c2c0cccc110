// Node family softmax: over the channels of each pixel. MPSCNNSoftMaxNode, MPSCNNLogSoftMaxNode.
#include "nngraph/definition.h"

namespace mpsgraph::nngraph {
namespace {

NodeDefinition of_softmax(std::string_view name, std::string_view apple, std::string_view apple_gradient,
                          mpsgraph::Kind operation) {
  NodeDefinition d;
  d.name = name;
  d.apple = apple;
  d.first_macos = "10.13";
  d.apple_gradient = apple_gradient;
  d.lower = [operation](Lowering& l) { return l.add(operation, {l.sources[0]}, {{"axis", int64_t{-1}}}); };
  return d;
}

}  // namespace

const NodeFamily softmax_family("softmax", [] {
  define_node(of_softmax("softmax", "MPSCNNSoftMaxNode", "MPSCNNSoftMaxGradientNode", "softmax"));
  define_node(of_softmax("log_softmax", "MPSCNNLogSoftMaxNode", "MPSCNNLogSoftMaxGradientNode", "log_softmax"));
});

}  // namespace mpsgraph::nngraph
