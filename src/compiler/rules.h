// The rewrite rules of simplify: one operation, with what makes its operands, to something cheaper. Of `if`, for prune
// too.
#pragma once

#include "compiler/rewrite.h"

namespace mpsgraph::compiler {

// The operation's replacement, when a rule applies to it now.
Rewriter::Replacement simplified(Rewriter& rewriter, const Operation& source);

// The block that an `if` takes, copied in place of it, when its predicate is known now.
Rewriter::Replacement taken_branch(Rewriter& rewriter, const Operation& source);

}  // namespace mpsgraph::compiler
