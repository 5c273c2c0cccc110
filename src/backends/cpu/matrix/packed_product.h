// Matmul in float32 or float64 with our blocked GEMM (gemm.h), divided among the threads. Operands may be batched,
// broadcast, and transposed.
#pragma once

#include <memory>

#include "backends/cpu/kernel.h"
#include "backends/cpu/product_epilogue.h"

namespace mpsgraph::cpu {

// The size of the pieces into which the result of a matmul is divided. The last pieces along an axis may be smaller.
struct GemmPiece {
  int64_t rows, columns;
};
// Return the pieces of a float32 matmul [rows, steps]·[steps, columns]. Each piece computes its part of the right
// operand, which takes as long as `right_time` multiply-adds for each element.
GemmPiece gemm_division(int64_t rows, int64_t columns, int64_t steps, double right_time);

// Return whether the matmul has so many rows and columns that packing its operands pays off.
bool packing_pays(const Lowering& lowering);

// Build the kernel of a float32 or float64 matmul.
std::unique_ptr<Kernel> packed_product(Lowering& lowering, const ProductEpilogue& extras = {});

}  // namespace mpsgraph::cpu
