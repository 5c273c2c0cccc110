// What is done to a Program before it is lowered to MPSGraph.
#pragma once

#include "compiler/program.h"

namespace mpsgraph::metal {

// The compiler's passes but those for our own kernels; composites that MPSGraph has stay. Then tensors without elements
// go, because MPSGraph has none: what is computed from nothing becomes a constant.
void prepare(compiler::Program& program, const compiler::Options& options);

}  // namespace mpsgraph::metal
