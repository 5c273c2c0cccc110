// Node family gram_matrix: MPSNNGramMatrixCalculationNode, the Gram matrix of an image's channels.
//
//   y[n, 0, f, c] = alpha * sum over pixels (i, j) of x[n, i, j, f] * x[n, i, j, c]
#include "nngraph/definition.h"

namespace mpsgraph::nngraph {

const NodeFamily gram_matrix_family("gram_matrix", [] {
  NodeDefinition d;
  d.name = "gram_matrix_calculation";
  d.apple = "MPSNNGramMatrixCalculationNode";
  d.first_macos = "10.15";
  d.apple_gradient = "MPSNNGramMatrixCalculationGradientNode";
  d.attributes = {optional("alpha", 1.0)};
  d.lower = [](Lowering& l) {
    Tensor* x = l.b.reshape(l.sources[0], Ints{l.batch(), l.height() * l.width(), l.channels()});
    Tensor* product = l.b.mul(l.b.matmul(l.b.swap_last_axes(x), x), l.attributes().real("alpha"));
    return l.b.reshape(product, Ints{l.batch(), 1, l.channels(), l.channels()});
  };
  define_node(std::move(d));
});

}  // namespace mpsgraph::nngraph
