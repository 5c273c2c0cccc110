// Matrix products of integers, exact, wrapping as two's complement does.
#pragma once

#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

// matrix_multiplication of integers of all sizes, and of bools.
std::unique_ptr<Kernel> integer_product(Lowering& lowering);

}  // namespace mpsgraph::cpu
