// MPSNNGraph nodes of family neuron.
#include "backends/metal/nngraph/neurons.h"

#include "backends/metal/nngraph/make_node.h"

namespace mpsgraph::metal {
namespace {

void make_neuron(Making& m) {
  const std::string_view type = m.filter.kind().substr(std::string_view("neuron_").size());
  const Attributes& a = m.attributes();
  MPSNNNeuronDescriptor* descriptor = type == "prelu"
                                          ? neuron_descriptor(type, 0, 0, 0, a.data("slopes"))
                                          : neuron_descriptor(type, a.real("a"), a.real("b"), a.real("c"), nullptr);
  m.made.node = [MPSCNNNeuronNode nodeWithSource:m.source() descriptor:descriptor];
}

}  // namespace

const NodeMakers neuron_makers("neuron", [] {
  for (const nngraph::NodeDefinition* definition : nngraph::all_node_definitions())
    if (definition->family == "neuron") define_maker(definition->name, make_neuron);
});

}  // namespace mpsgraph::metal
