// The weight gradient of a dense layer, fused with the update that is its only user.
//
// Each thread computes a block of rows of the gradient in its own buffer, and the fused element-wise kernel of the
// update reads the block from this buffer. The gradient, which is as large as the weights, is never written to memory.
#pragma once

#include <memory>

#include "backends/cpu/elementwise/fused_kernel.h"
#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

// Return whether this matmul can be computed in blocks. Its operands must be float32 matrices with few rows, and its
// left operand must be transposed.
bool computes_in_blocks(const Operation& product);

// Build the fused kernel of a gradient and its update. `gradient` is the slot of the matmul's result, to which nothing
// is written; `source` and `incoming` are the slots of the matmul's operands. If the update cannot read the gradient in
// blocks, return null and leave `update` unchanged.
std::unique_ptr<Kernel> gradient_update(Lowering& lowering, const Operation& product, Slot source, Slot incoming,
                                        Slot gradient, std::unique_ptr<Kernel>& update);

}  // namespace mpsgraph::cpu
