// Functions of float64 in vectors, once per vector set that has fused multiply-adds; elsewhere they are the C
// library's.
#pragma once

#include "backends/cpu/elementwise/tile_functions.h"

namespace mpsgraph::cpu {

struct DoubleFunctions {  // null: none
  TileFunction exponent = nullptr, logarithm = nullptr, tanh = nullptr, sigmoid = nullptr;
  TileFunction sin = nullptr, cos = nullptr, erf = nullptr;
  TileFunction power[4] = {};  // by what operand is a single number, as ScalarMask has it
};

namespace baseline {
inline constexpr DoubleFunctions double_functions;
}
namespace avx2 {
extern const DoubleFunctions double_functions;
}
namespace avx512 {
extern const DoubleFunctions double_functions;
}

}  // namespace mpsgraph::cpu
