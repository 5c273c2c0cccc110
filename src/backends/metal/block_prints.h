// Prints inside control-flow blocks. The host cannot observe values inside a block, so the printed values are passed
// out of branches and around loops.
#pragma once

#include <vector>

#include "compiler/program.h"

namespace mpsgraph::metal {

// Number of most recent values kept for each print in a loop.
constexpr int64_t kept_prints = 32;

// Return the print operations inside an operation's blocks, in order.
std::vector<const Operation*> prints_within(const Operation& operation);

// Insert a report_prints after each operation of the root block whose blocks contain prints. For each of these prints,
// the operands are the printed values, latest first, followed by their int32 sequence numbers. If the values have no
// elements, only their sequence numbers are passed. The last operand is the total number of prints.
void carry_prints(compiler::Program& program);

}  // namespace mpsgraph::metal
