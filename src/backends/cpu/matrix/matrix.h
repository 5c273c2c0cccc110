// Matmul kernels for every type and shape, without epilogues.
#pragma once

#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

// Build a complex matmul, computed as a real one.
std::unique_ptr<Kernel> complex_product(Lowering& lowering);
// Build a blocked matmul of float32 or float64 matrices or, if tests request them, plain loops for any type.
std::unique_ptr<Kernel> blocked_product(Lowering& lowering);

}  // namespace mpsgraph::cpu
