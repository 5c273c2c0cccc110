// The rewrite rules of simplify: one operation, with what makes its operands, to something cheaper.
#pragma once

#include "compiler/rewrite.h"

namespace mpsgraph::compiler {

// What stands for the operation, when a rule applies to it now.
Rewriter::Replacement simplified(Rewriter& rewriter, const Operation& source);

}  // namespace mpsgraph::compiler
