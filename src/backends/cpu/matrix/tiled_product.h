// Tiled matmul with our own micro-kernels, for sizes too small for oneDNN to pack.
//
// Without AVX-512, oneDNN reads the operands of such a matmul in place, using kernels that it generates on first use.
// Generating them takes 20 ms for each combination of operand layouts. For many models, this takes as long as the rest
// of the first run.
#pragma once

#include <memory>

#include "backends/cpu/kernel.h"
#include "backends/cpu/product_epilogue.h"

namespace mpsgraph::cpu {

// Build the kernel for a batched float32 matmul a x b, with b optionally transposed. Return null if oneDNN would pack
// its operands or is expected to be faster.
std::unique_ptr<Kernel> tiled_product(Lowering& lowering, bool transpose_b, const ProductEpilogue& extras);

}  // namespace mpsgraph::cpu
