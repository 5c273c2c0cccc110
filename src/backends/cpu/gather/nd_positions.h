// Where slices lie that vectors of indices pick, several picks at a time, once per vector set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mpsgraph::cpu {

// positions[i] = where pick i lies, counted along `lengths`, one for each index of a pick; -1 outside. Are all inside?
// The product of the lengths is an int32.
using FindPositions = bool (*)(const std::byte* indices, const int32_t* lengths, int64_t picks, int32_t* positions);

struct NdPositions {
  static constexpr int64_t deepest = 3;
  FindPositions of_int32[deepest], of_int64[deepest];  // indices of that type, of a pick 1, 2, 3
};

namespace baseline {
extern const NdPositions nd_positions;
}
namespace avx2 {
extern const NdPositions nd_positions;
}
namespace avx512 {
extern const NdPositions nd_positions;
}

}  // namespace mpsgraph::cpu
