// GEMV kernels: a matrix times a vector, and a row times a matrix. The vector and the result are float32, float16, or
// bfloat16. The matrix has one of these dtypes, or int8 or uint8, and is read in place.
#pragma once

#include <memory>
#include <optional>

#include "backends/cpu/kernel_table.h"

namespace mpsgraph::cpu {

// What the elements q of a matrix stand for, if they are not just converted: (q - zero) * scale. Each operand has one
// element, or one per element of the result.
struct QuantizedMatrix {
  std::optional<Operand> zero, scale;
};

bool reads_rows_of(DType dtype);  // whether the kernels support matrices of this dtype

// Multiplies the rows of a matrix, in place, by a vector. The bias may be -1.
std::unique_ptr<Kernel> rows_times_vector(Lowering& lowering, const Operand& matrix, const Operand& vector,
                                          const Operand& result, Slot bias = -1, bool relu = false,
                                          const QuantizedMatrix& quantized = {});
// Multiplies a row vector by a matrix.
std::unique_ptr<Kernel> row_times_matrix(Lowering& lowering, const Operand& row, const Operand& matrix,
                                         const Operand& result, Slot bias, bool relu, const QuantizedMatrix& quantized);

}  // namespace mpsgraph::cpu
