// MPSNNGraph nodes of family gram_matrix.
#include "backends/metal/nngraph/make_node.h"

namespace mpsgraph::metal {

const NodeMakers gram_matrix_makers("gram_matrix", [] {
  define_maker("gram_matrix_calculation", [](Making& m) {
    m.made.node = [MPSNNGramMatrixCalculationNode nodeWithSource:m.source() alpha:m.number("alpha")];
  });
});

}  // namespace mpsgraph::metal
