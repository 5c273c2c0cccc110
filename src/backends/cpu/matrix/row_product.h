// GEMV kernels: a matrix times a vector, and a row times a matrix. The vector and the result are float32, float16, or
// bfloat16. The matrix has one of these dtypes, or int8 or uint8, and is read in place.
#pragma once

#include <memory>

#include "backends/cpu/kernel_table.h"

namespace mpsgraph::cpu {

bool reads_rows_of(DType dtype);  // whether the kernels support matrices of this dtype

// Multiplies the rows of a matrix, in place, by a vector. The bias may be -1.
std::unique_ptr<Kernel> rows_times_vector(Lowering& lowering, const Operand& matrix, const Operand& vector,
                                          const Operand& result, Slot bias = -1, bool relu = false);
// Multiplies a row vector by a matrix.
std::unique_ptr<Kernel> row_times_matrix(Lowering& lowering, const Operand& row, const Operand& matrix,
                                         const Operand& result, Slot bias, bool relu);

}  // namespace mpsgraph::cpu
