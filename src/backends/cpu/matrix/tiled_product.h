// Tiled matmul with our own micro-kernels, for sizes too small for oneDNN to pack.
//
// Without AVX-512, oneDNN reads the operands of such a matmul in place, with kernels that it generates on first use.
// That takes 20 ms for each combination of operand layouts, as long as the rest of many a model's first run.
#pragma once

#include <memory>

#include "backends/cpu/kernel.h"
#include "backends/cpu/product_epilogue.h"

namespace mpsgraph::cpu {

// Build the kernel for a x b in float32, batched, with b optionally transposed. Return null if oneDNN would pack its
// operands.
std::unique_ptr<Kernel> tiled_product(Lowering& lowering, bool transpose_b, const ProductEpilogue& extras);

}  // namespace mpsgraph::cpu
