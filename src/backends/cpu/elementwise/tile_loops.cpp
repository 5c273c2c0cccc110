// Parts of the tile function loops that do not depend on the element type: filling a result with one element, and
// expanding scalar operands.
#include "backends/cpu/elementwise/tile_loops.h"

#include <algorithm>
#include <cstddef>

namespace mpsgraph::cpu {

void fill_up(void* out, size_t bytes, int64_t n) {
  auto* to = static_cast<std::byte*>(out);
  const size_t all = bytes * static_cast<size_t>(n);
  for (size_t done = bytes; done < all; done *= 2) std::memcpy(to + done, to, std::min(done, all - done));
}

void spread_out(TileFunction loop, const Steps& step, void* out, const void* const* in, int64_t n) {
  constexpr int64_t piece = 256;
  alignas(64) std::byte written[piece * 16];
  std::memcpy(written, in[0], step.first);
  fill_up(written, step.first, std::min(n, piece));
  const auto *second = static_cast<const std::byte*>(in[1]), *third = static_cast<const std::byte*>(in[2]);
  auto* to = static_cast<std::byte*>(out);
  for (int64_t i = 0; i < n; i += piece) {
    const auto at = static_cast<size_t>(i);
    const void* from[3] = {written, second + at * step.second, third + at * step.third};
    loop(to + at * step.result, from, std::min(piece, n - i));
  }
}

}  // namespace mpsgraph::cpu
