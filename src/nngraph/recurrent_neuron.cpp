// Builds the neurons of recurrent gates: the same neurons as those of the nodes, but with Apple's derivatives at 0.
#include "nngraph/recurrent.h"
#include "nngraph/windows.h"

namespace mpsgraph::nngraph {

Tensor* apply_neuron(Builder& b, const Neuron& n, Tensor* x) {
  return neuron(b, n.type, n.a, n.b, n.c, nullptr, x, true);
}

}  // namespace mpsgraph::nngraph
