// Matrix multiplication with AMX, which has eight tile registers of sixteen 64-byte rows each.
//
// A block of 32 x 32 sums occupies registers 0 to 3. The inner dimension advances sixteen four-byte words at a time:
// registers 4 and 5 each hold these words of 16 rows of the left operand, and registers 6 and 7 each hold these words
// of 16 columns of the packed right operand. Panels of the right operand are packed so that they load into the
// registers without a copy.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backends/cpu/amx_registers.h"
#include "backends/cpu/convolution/convolution_tiles.h"

namespace mpsgraph::cpu::amx {

constexpr int most_rows = 2 * side;
constexpr int64_t step_bytes = 2 * line;

// Return the stride of evenly spaced rows in bytes, or zero if the rows are not evenly spaced.
inline ptrdiff_t distance_of(const std::byte* const* rows, int count) {
  const ptrdiff_t distance = rows[1] - rows[0];
  const __m512i all = _mm512_set1_epi64(distance);
  for (int r = 0; r + 1 < count; r += 8) {
    const auto mask = static_cast<__mmask8>(count - 1 - r >= 8 ? 0xff : (1 << (count - 1 - r)) - 1);
    const __m512i apart = _mm512_sub_epi64(_mm512_maskz_loadu_epi64(mask, rows + r + 1), _mm512_loadu_si512(rows + r));
    if (_mm512_mask_cmpneq_epi64_mask(mask, apart, all)) return 0;
  }
  return distance;
}

// Copy `words` words of each row, starting at byte `delta`, to contiguous memory. Whole cache lines are written, and
// the last one is padded with zeros.
inline void copy_rows(int count, const std::byte* const* rows, ptrdiff_t delta, int64_t words, std::byte* to,
                      int64_t to_row) {
  for (int r = 0; r < count; ++r, to += to_row)
    for (int64_t i = 0; i < words; i += side) {
      const int64_t left = words - i;
      const auto mask = static_cast<__mmask16>(left >= side ? 0xffff : (1 << left) - 1);
      _mm512_store_si512(to + i * word, _mm512_maskz_loadu_epi32(mask, rows[r] + delta + i * word));
    }
}

// Compute sums[r][c] for 32 rows r and 32 columns c: the sum, over all runs and over all steps s of each run, of
// rows[r][delta + s] * panel[s][c]. A step is one four-byte word; a run is a range of contiguous steps, which starts
// `delta` after the beginning of a row. Rows of `sums` from `count` on are undefined. `Products` issues the
// instructions that multiply register 4 or 5 by registers 6 and 7.
template <class Products>
void multiply_runs(int count, const std::byte* const* rows, const TileRun* runs, int64_t run_count, int64_t element,
                   const std::byte* panel, std::byte* sums) {
  constexpr int64_t block = 4 * side;  // four-byte words of each row that are copied together
  alignas(64) std::byte copied[most_rows * block * word], last_steps[side * step_bytes];
  const bool both = count > side;
  const ptrdiff_t distance = count % side == 0 ? distance_of(rows, count) : 0;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t i = 0; i < run_count; ++i) {
    const TileRun run = runs[i];
    const std::byte* b = panel + run.panel * step_bytes;
    for (int64_t begin = 0; begin < run.steps; begin += block) {
      const int64_t steps = std::min(block, run.steps - begin);
      const ptrdiff_t delta = run.delta * element + begin * word;
      const bool as_they_lie = distance != 0 && steps % side == 0;
      if (!as_they_lie) copy_rows(count, rows, delta, steps, copied, block * word);
      const std::byte* a = as_they_lie ? rows[0] + delta : copied;
      const ptrdiff_t apart = as_they_lie ? distance : block * word;
      for (int64_t s = 0; s < steps; s += side, a += line, b += side * step_bytes) {
        const std::byte* columns = b;
        if (steps - s < side) {
          std::memset(last_steps, 0, sizeof last_steps);
          std::memcpy(last_steps, b, static_cast<size_t>((steps - s) * step_bytes));
          columns = last_steps;
        }
        memory_is_read();
        _tile_loadd(6, columns, step_bytes);
        _tile_loadd(7, columns + line, step_bytes);
        _tile_loadd(4, a, apart);
        Products::of_upper_rows();
        if (!both) {  // Products with up to 16 rows are bound by how fast the cache delivers weights, so prefetch them.
          for (int64_t ahead = 0; ahead < side * step_bytes; ahead += line)
            __builtin_prefetch(b + 2 * side * step_bytes + ahead);
          continue;
        }
        _tile_loadd(5, a + side * apart, apart);
        Products::of_lower_rows();
      }
    }
  }
  _tile_stored(0, sums, step_bytes);
  _tile_stored(1, sums + line, step_bytes);
  if (both) {
    _tile_stored(2, sums + side * step_bytes, step_bytes);
    _tile_stored(3, sums + side * step_bytes + line, step_bytes);
  }
  memory_is_read();
}

}  // namespace mpsgraph::cpu::amx
