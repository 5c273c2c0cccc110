// Products that are too small for oneDNN to pack, in tiles of our own.
//
// Without AVX-512 oneDNN reads the factors of such a product in place, in kernels that it writes at the first one: that
// takes 20 ms for each way in which factors may lie, as long as all the rest of many a model's first run.
#pragma once

#include <memory>

#include "backends/cpu/kernel.h"
#include "backends/cpu/product_epilogue.h"

namespace mpsgraph::cpu {

// Result = a x b, float32, or a x the transposed matrices b, batched; null where oneDNN packs its factors.
std::unique_ptr<Kernel> tiled_product(Lowering& lowering, bool transpose_b, const ProductEpilogue& extras);

}  // namespace mpsgraph::cpu
