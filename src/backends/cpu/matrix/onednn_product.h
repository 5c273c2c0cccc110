// Matmul with oneDNN: transposes become strides; bias, residual, and activation become post-operations.
#pragma once

#include <memory>

#include "backends/cpu/onednn_kernel.h"

namespace mpsgraph::cpu {

// Build the kernel, or return null if oneDNN has no implementation. oneDNN's slow reference implementation is used only
// if `take_reference` is true.
std::unique_ptr<Kernel> onednn_product(Lowering& lowering, const Epilogue& epilogue, bool take_reference);

}  // namespace mpsgraph::cpu
