// Preparation of a Program before it is lowered to MPSGraph.
#pragma once

#include "compiler/program.h"

namespace mpsgraph::metal {

// Run the compiler's passes except those for CPU kernels; composites that MPSGraph supports are kept. Then remove
// tensors without elements, which MPSGraph does not support: results computed from them become constants.
void prepare(compiler::Program& program, const compiler::Options& options);

}  // namespace mpsgraph::metal
