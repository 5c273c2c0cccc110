// The gradient of a dense layer's weights together with the update that alone reads it.
//
// The product goes block by block of rows into memory of a thread, and the update's region takes each block from there:
// the gradient, as large as the weights, is neither written to memory nor read again.
#pragma once

#include <memory>

#include "backends/cpu/elementwise/fused_kernel.h"
#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

// Is this a product that could be computed so: of float32 matrices, the first one transposed, over few rows?
bool computes_in_blocks(const Operation& product);

// The kernel of both, where `gradient` is the slot of the product's result, which stays empty, and `source` and
// `incoming` those of its operands; null, and `update` unchanged, if the region does not take its operands in blocks.
std::unique_ptr<Kernel> gradient_update(Lowering& lowering, const Operation& product, Slot source, Slot incoming,
                                        Slot gradient, std::unique_ptr<Kernel>& update);

}  // namespace mpsgraph::cpu
