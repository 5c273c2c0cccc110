// A float32 product whose first factor is transposed, as the gradient of a dense layer's weights is, in tiles of ours.
//
// For sizes that oneDNN does not pack, where it reads the factors in place: rows whose distance is a multiple of 2 KB
// share a few sets of each cache, and a column of the first factor evicts itself.
#pragma once

#include <memory>

#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

// left^T · right of [steps, rows] and [steps, columns], plus a residual of the result's shape, where there is one (a
// slot, or -1). Null where vectors are too short, or the product too narrow for tiles.
std::unique_ptr<Kernel> transposed_product(Lowering& lowering, const Operand& left, const Operand& right,
                                           Slot residual);

}  // namespace mpsgraph::cpu
