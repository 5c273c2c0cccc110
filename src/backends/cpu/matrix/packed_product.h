// float32 GEMM that packs both operands where it pays off, for sizes that oneDNN does not pack: the weight gradient of
// a dense layer, whose left operand is transposed, or the layer itself.
//
// Reading such operands in place is slow, because rows a multiple of 2 KB apart share a few cache sets and a column of
// the operand evicts itself.
#pragma once

#include <memory>

#include "backends/cpu/kernel.h"
#include "backends/cpu/product_epilogue.h"

namespace mpsgraph::cpu {

// Build the kernel for left · right, or left^T · right if `transposed`, with the epilogue `extras`. Return null if this
// processor has no micro-kernel for it.
std::unique_ptr<Kernel> packed_product(Lowering& lowering, const Operand& left, const Operand& right, bool transposed,
                                       const ProductEpilogue& extras);

}  // namespace mpsgraph::cpu
