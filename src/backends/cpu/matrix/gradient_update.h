// The weight gradient of a dense layer, fused with the update that is its only user.
//
// Each thread computes a block of rows of the gradient into its own buffer, and the fused element-wise kernel of the
// update reads the block from there. The gradient, which is as large as the weights, is never written to memory.
#pragma once

#include <memory>

#include "backends/cpu/elementwise/fused_kernel.h"
#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

// Return whether this matmul can be computed in blocks: float32 matrices, the left one transposed, with few rows.
bool computes_in_blocks(const Operation& product);

// Build the fused kernel of gradient and update. `gradient` is the slot of the matmul's result, which stays empty;
// `source` and `incoming` are the slots of its operands. If the update cannot read its operands in blocks, return null
// and leave `update` unchanged.
std::unique_ptr<Kernel> gradient_update(Lowering& lowering, const Operation& product, Slot source, Slot incoming,
                                        Slot gradient, std::unique_ptr<Kernel>& update);

}  // namespace mpsgraph::cpu
