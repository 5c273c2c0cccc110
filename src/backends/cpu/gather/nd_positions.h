// Computes the positions that index vectors select, with vector instructions; compiled for each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

// For each pick i (an index vector), set positions[i] to its flat position in axes of the given `lengths`, or to -1 if
// an index is out of range. Return whether all indices are in range. The product of the lengths must fit in int32.
using FindPositions = bool (*)(const std::byte* indices, const int32_t* lengths, int64_t picks, int32_t* positions);

struct NdPositions {
  static constexpr int64_t deepest = 3;
  FindPositions of_int32[deepest], of_int64[deepest];  // functions by index type, for 1, 2, or 3 indices per pick
};

MPSGRAPH_VECTOR_TABLE(NdPositions, nd_positions);

}  // namespace mpsgraph::cpu
