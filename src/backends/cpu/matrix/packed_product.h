// Matmul in float32 or float64 with our blocked GEMM (gemm.h), divided among the threads. Operands may be batched,
// broadcast, and transposed.
#pragma once

#include <memory>

#include "backends/cpu/kernel.h"
#include "backends/cpu/product_epilogue.h"

namespace mpsgraph::cpu {

// Return whether the matmul has so many rows and columns that packing its operands pays off.
bool packing_pays(const Lowering& lowering);

// Build the kernel of a float32 or float64 matmul.
std::unique_ptr<Kernel> packed_product(Lowering& lowering, const ProductEpilogue& extras = {});

}  // namespace mpsgraph::cpu
