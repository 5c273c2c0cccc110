// The products of a batched matrix multiplication: how many there are, of what sizes, and where their operands begin.
#pragma once

#include <vector>

#include "mpsgraph/core/types.h"

namespace mpsgraph::cpu {

// products of [m, k]·[k, n]; offsets of the operands of each, in elements.
struct Products {
  int64_t m, n, k;
  std::vector<int64_t> a, b;
  Products(const Dims& x, const Dims& y, const Dims& result);
  int64_t count() const { return static_cast<int64_t>(a.size()); }
};

}  // namespace mpsgraph::cpu
