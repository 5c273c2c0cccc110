// What the loops of tile functions share whatever they compute: results that are all one, operands written out.
#include "backends/cpu/stitched/tile_loops.h"

#include <algorithm>
#include <cstddef>

namespace mpsgraph::cpu {

void fill_up(void* out, size_t bytes, int64_t n) {
  auto* to = static_cast<std::byte*>(out);
  const size_t all = bytes * static_cast<size_t>(n);
  for (size_t done = bytes; done < all; done *= 2) std::memcpy(to + done, to, std::min(done, all - done));
}

void spread_out(TileFunction loop, const Operands& sizes, ScalarMask scalars, void* out, const void* const* in,
                int64_t n) {
  constexpr int64_t piece = 256;
  alignas(64) std::byte written[3][piece * 16];
  for (int k : {0, 1, 2}) {
    if (!(scalars >> k & 1)) continue;
    std::memcpy(written[k], in[k], sizes.bytes[k]);
    fill_up(written[k], sizes.bytes[k], std::min(n, piece));
  }
  const auto at = [](const void* data, int64_t i, size_t bytes) {
    return static_cast<const std::byte*>(data) + static_cast<size_t>(i) * bytes;
  };
  for (int64_t i = 0; i < n; i += piece) {
    const void* from[3];
    for (int k : {0, 1, 2}) from[k] = scalars >> k & 1 ? written[k] : at(in[k], i, sizes.bytes[k]);
    loop(static_cast<std::byte*>(out) + static_cast<size_t>(i) * sizes.result, from, std::min(piece, n - i));
  }
}

}  // namespace mpsgraph::cpu
