// GEMV kernels: a matrix times a vector, and a row times a matrix, in float32, float16, or bfloat16.
#pragma once

#include <memory>

#include "backends/cpu/kernel_table.h"

namespace mpsgraph::cpu {

// Multiplies the rows of a matrix, in place, by a vector. The bias may be -1.
std::unique_ptr<Kernel> rows_times_vector(Lowering& lowering, const Operand& matrix, const Operand& vector,
                                          const Operand& result, Slot bias = -1, bool relu = false);
// Multiplies a row vector by a matrix.
std::unique_ptr<Kernel> row_times_matrix(Lowering& lowering, const Operand& row, const Operand& matrix,
                                         const Operand& result, Slot bias, bool relu);

}  // namespace mpsgraph::cpu
