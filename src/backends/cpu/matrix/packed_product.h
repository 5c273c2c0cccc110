// float32 GEMM that packs its operands, for sizes at which packing pays off but oneDNN does not pack. Such sizes occur
// in the weight gradient of a dense layer, whose left operand is transposed, and in the layer itself.
//
// Reading these operands in place is slow. Rows that are a multiple of 2 KB apart share a few cache sets, so the
// elements of a column evict each other.
#pragma once

#include <memory>

#include "backends/cpu/kernel.h"
#include "backends/cpu/product_epilogue.h"

namespace mpsgraph::cpu {

// Build the kernel for left · right, or left^T · right if `transposed`, with the epilogue `extras`. Return null if
// there are no micro-kernels for this processor.
std::unique_ptr<Kernel> packed_product(Lowering& lowering, const Operand& left, const Operand& right, bool transposed,
                                       const ProductEpilogue& extras);

}  // namespace mpsgraph::cpu
