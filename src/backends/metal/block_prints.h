// What is printed in blocks of control flow, where no host can look, goes around loops and out of branches.
#pragma once

#include <vector>

#include "compiler/program.h"

namespace mpsgraph::metal {

// Of each print in a loop the last so many values are kept.
constexpr int64_t kept_prints = 32;

// The prints in an operation's blocks, in order.
std::vector<const Operation*> prints_within(const Operation& operation);

// Behind each operation of the root that prints in its blocks stands a report_prints: for each of the prints its
// values, the last one first, where they have elements, and their numbers, int32; at last how many were printed in all.
void carry_prints(compiler::Program& program);

}  // namespace mpsgraph::metal
