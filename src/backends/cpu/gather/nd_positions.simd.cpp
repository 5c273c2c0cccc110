// Loops of nd_positions.h, vectorized by the compiler.
#include "backends/cpu/gather/nd_positions.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

template <class Index, class Unsigned, int depth>
bool find(const std::byte* indices, const int32_t* lengths, int64_t picks, int32_t* positions) {
  const Index* index = reinterpret_cast<const Index*>(indices);
  uint32_t length[depth], any = 0;
  for (int d = 0; d < depth; ++d) length[d] = static_cast<uint32_t>(lengths[d]);
  for (int64_t i = 0; i < picks; ++i) {
    uint32_t position = 0, outside = 0;
    for (int d = 0; d < depth; ++d) {
      const auto at = static_cast<Unsigned>(index[i * depth + d]);  // negative indices become large unsigned values
      outside |= at >= length[d] ? ~uint32_t{0} : 0;
      position = position * length[d] + static_cast<uint32_t>(at);
    }
    any |= outside;
    positions[i] = static_cast<int32_t>(position | outside);
  }
  return any == 0;
}

}  // namespace

constinit const NdPositions nd_positions{
    {find<int32_t, uint32_t, 1>, find<int32_t, uint32_t, 2>, find<int32_t, uint32_t, 3>},
    {find<int64_t, uint64_t, 1>, find<int64_t, uint64_t, 2>, find<int64_t, uint64_t, 3>}};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
