// Exact integer matmul; overflow wraps in two's complement.
#pragma once

#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

// Build matrix_multiplication for integers of all sizes and for bools.
std::unique_ptr<Kernel> integer_product(Lowering& lowering);

}  // namespace mpsgraph::cpu
