// The rewrite rules of simplify, which replace an operation, together with those that compute its operands, by
// something cheaper. prune also uses the rule for `if`.
#pragma once

#include "compiler/rewrite.h"

namespace mpsgraph::compiler {

// The operation's replacement if a rule applies to it now.
Rewriter::Replacement simplified(Rewriter& rewriter, const Operation& source);

// If the predicate of an `if` is now known, the chosen block, copied in place of the operation.
Rewriter::Replacement taken_branch(Rewriter& rewriter, const Operation& source);

}  // namespace mpsgraph::compiler
