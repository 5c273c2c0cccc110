// A float32 product in tiles of ours, both of whose factors are packed where that is of use: as the gradient of a dense
// layer's weights, whose first factor is transposed, or the layer itself.
//
// For sizes that oneDNN does not pack, where it reads the factors in place: rows whose distance is a multiple of 2 KB
// share a few sets of each cache, and a column of the factor evicts itself.
#pragma once

#include <memory>

#include "backends/cpu/kernel.h"
#include "backends/cpu/product_epilogue.h"

namespace mpsgraph::cpu {

// left · right, or with `transposed` left^T · right, of matrices, with what `extras` add. Null where vectors are too
// short for tiles.
std::unique_ptr<Kernel> packed_product(Lowering& lowering, const Operand& left, const Operand& right, bool transposed,
                                       const ProductEpilogue& extras);

}  // namespace mpsgraph::cpu
