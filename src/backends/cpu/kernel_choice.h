// Registration of kernels for composite operations. If a kernel does not support the operands, the composite is
// expanded.
#pragma once

#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

// Register a kernel for a composite operation, like define_kernel. The composite operation is expanded into simpler
// operations if suits(operation) returns false, and always if tests request plain loops.
void define_composite(std::string_view kind, Lower lower, bool (*suits)(const Operation&));

// Return whether the CPU has a kernel for this operation and its operands.
bool has_kernel(const Operation& operation);
// Return whether the CPU has a plain-loop kernel for this operation, which is used if tests request plain loops.
bool has_plain_kernel(const Operation& operation);

}  // namespace mpsgraph::cpu
