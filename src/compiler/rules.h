// The rewrite rules of simplify. A rule replaces an operation, together with the operations that compute its operands,
// with something cheaper. prune also uses the rule for `if`.
#pragma once

#include "compiler/rewrite.h"

namespace mpsgraph::compiler {

// The replacement of the operation; nullopt if no rule applies.
Rewriter::Replacement simplified(Rewriter& rewriter, const Operation& source);

// If the predicate of an `if` is known, copies the chosen block in place of the operation and returns its results.
Rewriter::Replacement taken_branch(Rewriter& rewriter, const Operation& source);

}  // namespace mpsgraph::compiler
