// Kernels of composites that suit some operands only: whether the CPU keeps an operation or expands it.
#pragma once

#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

// As define_kernel, of a composite: for other operands it is expanded, and always where loops shall be plain.
void define_composite(std::string_view kind, Lower lower, bool (*suits)(const Operation&));

// Is there a kernel, and for these operands?
bool has_kernel(const Operation& operation);
bool has_plain_kernel(const Operation& operation);  // likewise, where loops shall be plain

}  // namespace mpsgraph::cpu
