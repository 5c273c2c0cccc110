// Moves index checks out of control-flow blocks, because nothing inside a block can end a run. The blocks return the
// out-of-range indices that they find as an additional result.
#pragma once

#include "compiler/program.h"

namespace mpsgraph::metal {

void carry_checks(compiler::Program& program);

}  // namespace mpsgraph::metal
