// Matmuls of a few rows by a much larger matrix, such as those of a dense layer with a small batch.
//
// Such a matmul is bound by reading the matrix. Each thread reads the rows of the matrix that it also updates in
// training (gradient_update.h), because these are in its own L2 cache, and multiplies them in place, without packing.
// Each thread therefore handles only a range of the inner dimension, and the partial sums of all threads are added at
// the end. If the matrix is transposed, its rows correspond to columns of the result, and no sums need to be added.
#pragma once

#include <memory>

#include "backends/cpu/kernel.h"
#include "backends/cpu/product_epilogue.h"

namespace mpsgraph::cpu {

// Build the kernel for rows x matrix in float32, or return null if another kernel is faster.
std::unique_ptr<Kernel> skinny_product(Lowering& lowering, const Operand& rows, const Operand& matrix,
                                       const ProductEpilogue& extras);
// Build the kernel for rows x the transposed matrix, or return null if another kernel is faster.
std::unique_ptr<Kernel> skinny_product_transposed(Lowering& lowering, const Operand& rows, const Operand& matrix);

}  // namespace mpsgraph::cpu
