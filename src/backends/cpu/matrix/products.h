// Geometry of a batched matmul: the number and sizes of its products, and where their operands begin.
#pragma once

#include <vector>

#include "mpsgraph/core/types.h"

namespace mpsgraph::cpu {

// Products of [m, k]·[k, n], and the operand offsets of each in elements.
struct Products {
  int64_t m, n, k;
  std::vector<int64_t> a, b;
  Products(const Dims& x, const Dims& y, const Dims& result);
  int64_t count() const { return static_cast<int64_t>(a.size()); }
};

}  // namespace mpsgraph::cpu
