// Products of few rows with a matrix that is larger than they are, such as those of a dense layer at a small batch.
//
// Such a product is bound by the memory of the matrix. Each thread takes the rows of it that it also updates in
// training (gradient_update.h), so that they are in its own second-level cache, and multiplies them in place, not
// packed. They are steps of the sums, whose parts are added up at the end; of a transposed matrix they are columns of
// the result.
#pragma once

#include <memory>

#include "backends/cpu/kernel.h"
#include "backends/cpu/product_epilogue.h"

namespace mpsgraph::cpu {

// Result = rows x matrix, both plain, float32; null where another way is faster.
std::unique_ptr<Kernel> skinny_product(Lowering& lowering, const Operand& rows, const Operand& matrix,
                                       const ProductEpilogue& extras);
// Result = rows x the transposed matrix.
std::unique_ptr<Kernel> skinny_product_transposed(Lowering& lowering, const Operand& rows, const Operand& matrix);

}  // namespace mpsgraph::cpu
