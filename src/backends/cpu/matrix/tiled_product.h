// Tiled matmul for sizes for which packing both operands does not pay off: a tile sums over the whole inner dimension
// in registers, and only the right operand is packed, once if it is constant.
#pragma once

#include <memory>

#include "backends/cpu/kernel.h"
#include "backends/cpu/product_epilogue.h"

namespace mpsgraph::cpu {

// Build the kernel for a batched float32 matmul a x b, with b optionally transposed. Return null if the right operand
// is too large.
std::unique_ptr<Kernel> tiled_product(Lowering& lowering, bool transpose_b, const ProductEpilogue& extras);

}  // namespace mpsgraph::cpu
