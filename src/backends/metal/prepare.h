// Prepares a Program before it is lowered to MPSGraph.
#pragma once

#include "compiler/program.h"

namespace mpsgraph::metal {

// Run the compiler's passes except those for CPU kernels; composites that MPSGraph supports are kept. Then remove
// tensors without elements, because MPSGraph does not support them. Results computed only from such tensors become
// constants.
void prepare(compiler::Program& program, const compiler::Options& options);

}  // namespace mpsgraph::metal
