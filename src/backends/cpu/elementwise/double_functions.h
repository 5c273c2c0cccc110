// Vectorized float64 functions for instruction sets with fused multiply-add. Other instruction sets use the C library.
#pragma once

#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

struct DoubleFunctions {  // a member is null if its function is not vectorized
  TileFunction exponent = nullptr, logarithm = nullptr, tanh = nullptr, sigmoid = nullptr;
  TileFunction sin = nullptr, cos = nullptr, erf = nullptr;
  TileFunction power[4] = {};  // indexed by a ScalarMask of the operands
};

MPSGRAPH_OPTIONAL_TABLE(DoubleFunctions, double_functions);

}  // namespace mpsgraph::cpu
