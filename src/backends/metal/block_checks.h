// Moves index checks out of control-flow blocks, inside which nothing can end a run: the blocks return what they find
// as an additional result.
#pragma once

#include "compiler/program.h"

namespace mpsgraph::metal {

void carry_checks(compiler::Program& program);

}  // namespace mpsgraph::metal
