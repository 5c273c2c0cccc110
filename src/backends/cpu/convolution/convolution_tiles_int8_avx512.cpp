// 8-bit integer convolution micro-kernels with AVX-512 VNNI.
//
// As in convolution_micro_kernels.h, a tile is two vectors wide, and each of its vectors of sums has its own register.
#include <immintrin.h>

#include <array>
#include <cstring>
#include <utility>

#include "backends/cpu/convolution/convolution_integers.h"
#include "backends/cpu/convolution/integer_epilogue.h"

namespace mpsgraph::cpu::avx512_vnni {
namespace {

constexpr int lanes = 16, columns = IntegerTiles::columns, group = IntegerTiles::group, rows_of_tile = 12;
static_assert(columns == 2 * lanes);

template <bool Turn>
__m512i four_of_row(const uint8_t* from) {
  int32_t four;
  std::memcpy(&four, from, sizeof four);
  const __m512i all = _mm512_set1_epi32(four);
  return Turn ? _mm512_xor_si512(all, _mm512_set1_epi8(static_cast<char>(0x80))) : all;
}

using avx512::finish_row;

template <int R, bool Turn>
void multiply_rows(const uint8_t* const* rows, const TileRun* runs, int64_t run_count, const int8_t* panel,
                   std::byte* const* out, int width, const IntegerEpilogue& epilogue) {
  const __m512i start_low = epilogue.start ? _mm512_loadu_si512(epilogue.start) : _mm512_setzero_si512();
  const __m512i start_high = epilogue.start ? _mm512_loadu_si512(epilogue.start + lanes) : _mm512_setzero_si512();
  __m512i low[R], high[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) low[r] = start_low, high[r] = start_high;
  for (int64_t i = 0; i < run_count; ++i) {
    const TileRun run = runs[i];
    const uint8_t* a[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) a[r] = rows[r] + run.delta;
    const int8_t* b = panel + run.panel * columns * group;
    for (int64_t s = 0; s < run.steps * group; s += group, b += columns * group) {
      const __m512i first = _mm512_loadu_si512(b), second = _mm512_loadu_si512(b + lanes * group);
      ask_for_step<R, columns * group>(b);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const __m512i four = four_of_row<Turn>(a[r] + s);
        low[r] = _mm512_dpbusd_epi32(low[r], four, first);
        high[r] = _mm512_dpbusd_epi32(high[r], four, second);
      }
    }
  }
  for (int r = 0; r < R; ++r) finish_row(low[r], high[r], width, out[r], epilogue, r);
}

template <bool Turn, int... I>
constexpr auto all_counts(std::integer_sequence<int, I...>) {
  return std::array{&multiply_rows<I + 1, Turn>...};
}
using Counts = std::make_integer_sequence<int, rows_of_tile>;
constexpr auto as_they_are = all_counts<false>(Counts{});
constexpr auto turned = all_counts<true>(Counts{});

void multiply(int count, const uint8_t* const* rows, bool is_signed, const TileRun* runs, int64_t run_count,
              const int8_t* panel, std::byte* const* out, int width, const IntegerEpilogue& epilogue) {
  (is_signed ? turned : as_they_are)[static_cast<size_t>(count - 1)](rows, runs, run_count, panel, out, width,
                                                                     epilogue);
}

}  // namespace

const IntegerTiles& integer_tiles() {
  static const IntegerTiles tiles{{rows_of_tile}, multiply, avx2::pack_byte_panel, 128, 0};
  return tiles;
}

}  // namespace mpsgraph::cpu::avx512_vnni
