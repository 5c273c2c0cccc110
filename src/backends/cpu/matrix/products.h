// Geometry of a batched matmul: the number and sizes of the matmuls, and the offsets of their operands.
#pragma once

#include <vector>

#include "mpsgraph/core/types.h"

namespace mpsgraph::cpu {

// Sizes of a batch of matmuls [m, k]·[k, n], and the offsets of the operands of each matmul, in elements. A transposed
// operand x has the dimensions [k, m], a transposed operand y [n, k].
struct Products {
  int64_t m, n, k;
  std::vector<int64_t> a, b;
  Products(const Dims& x, const Dims& y, const Dims& result, bool transpose_x = false, bool transpose_y = false);
  int64_t count() const { return static_cast<int64_t>(a.size()); }
};

}  // namespace mpsgraph::cpu
