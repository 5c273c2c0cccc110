// The epilogue that our own GEMM and convolution kernels apply before they store their result.
#pragma once

#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

struct ProductEpilogue {  // slots of the operands; -1 if absent
  Slot bias = -1, residual = -1;
  bool relu = false;
};

// Return the epilogue of a fused convolution or matmul; empty for other operations.
inline ProductEpilogue epilogue_of(const Lowering& lowering) {
  const Attributes& a = lowering.attributes();
  if (!a.has("has_bias")) return {};
  const bool bias = a.boolean("has_bias"), residual = a.boolean("has_residual");
  return {bias ? lowering.input(2).slot : -1, residual ? lowering.input(bias ? 3 : 2).slot : -1,
          a.string("activation") == "relu"};
}

// Return a kernel that runs `kernel` and then applies the epilogue to its float32 result in place. The elements of
// neighboring channels are `inner` elements apart. Return `kernel` itself if the epilogue is empty.
std::unique_ptr<Kernel> with_epilogue(std::unique_ptr<Kernel> kernel, const ProductEpilogue& epilogue,
                                      const Operand& result, int64_t channels, int64_t inner);

}  // namespace mpsgraph::cpu
