// Matmul with oneDNN: transposes become strides; bias, residual, and activation become post-operations.
#pragma once

#include "backends/cpu/kernel_table.h"

namespace mpsgraph::cpu {

// A candidate for matmuls of float32 and, where oneDNN supports it, bfloat16. It takes oneDNN's slow reference
// implementation only for fused operations, which have no other kernel for every case.
Offer onednn_product(Lowering& lowering);

}  // namespace mpsgraph::cpu
