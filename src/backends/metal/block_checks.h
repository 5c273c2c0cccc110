// Checks of indices leave blocks of control flow, where nothing can end a run, as one of their results.
#pragma once

#include "compiler/program.h"

namespace mpsgraph::metal {

void carry_checks(compiler::Program& program);

}  // namespace mpsgraph::metal
