// Tiles of convolutions of 8-bit integers with AVX-512's instructions for them (VNNI).
//
// As in convolution_tiles.inc, two vectors make a tile's columns, and every row and column has a register of its own.
#include <immintrin.h>

#include <array>
#include <cstring>
#include <utility>

#include "backends/cpu/convolution/convolution_integers.h"

namespace mpsgraph::cpu::avx512_vnni {
namespace {

constexpr int lanes = 16, columns = IntegerTiles::columns, group = IntegerTiles::group;
static_assert(columns == 2 * lanes);

template <bool Turn>
__m512i four_of_row(const uint8_t* from) {
  int32_t four;
  std::memcpy(&four, from, sizeof four);
  const __m512i all = _mm512_set1_epi32(four);
  return Turn ? _mm512_xor_si512(all, _mm512_set1_epi8(static_cast<char>(0x80))) : all;
}

__m512 bytes_as_floats(const std::byte* from, __mmask16 mask, bool is_signed) {
  const __m128i bytes = _mm_maskz_loadu_epi8(mask, from);
  return _mm512_cvtepi32_ps(is_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes));
}

// Sixteen sums, of which those in the mask are stored.
void finish(__m512i sum, int at, __mmask16 mask, std::byte* out, const IntegerEpilogue& e) {
  __m512 v = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_maskz_loadu_ps(mask, e.scale + at),
                             _mm512_maskz_loadu_ps(mask, e.bias + at));
  if (e.has_residual)
    v = _mm512_fmadd_ps(bytes_as_floats(out + at + e.residual, mask, e.residual_is_signed),
                        _mm512_set1_ps(e.residual_scale), v);
  if (e.relu) v = _mm512_max_ps(v, _mm512_setzero_ps());
  if (e.result == IntegerResult::float32) return _mm512_mask_storeu_ps(reinterpret_cast<float*>(out) + at, mask, v);
  constexpr float far = 1 << 20;  // beyond any of 8 bits, and exact
  v = _mm512_max_ps(_mm512_min_ps(v, _mm512_set1_ps(far)), _mm512_set1_ps(-far));
  const __m512i steps = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(e.zero_point));
  if (e.result == IntegerResult::int8) return _mm512_mask_cvtsepi32_storeu_epi8(out + at, mask, steps);
  _mm512_mask_cvtusepi32_storeu_epi8(out + at, mask, _mm512_max_epi32(steps, _mm512_setzero_si512()));
}

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
  const auto all = (uint64_t{1} << width) - 1;
  for (int r = 0; r < R; ++r) {
    finish(low[r], 0, static_cast<__mmask16>(all), out[r], epilogue);
    if (width > lanes) finish(high[r], lanes, static_cast<__mmask16>(all >> lanes), out[r], epilogue);
  }
}

template <bool Turn, int... I>
constexpr auto all_counts(std::integer_sequence<int, I...>) {
  return std::array{&multiply_rows<I + 1, Turn>...};
}
using Counts = std::make_integer_sequence<int, IntegerTiles::most_rows>;
constexpr auto as_they_are = all_counts<false>(Counts{});
constexpr auto turned = all_counts<true>(Counts{});

void multiply(int count, const uint8_t* const* rows, bool turn, const TileRun* runs, int64_t run_count,
              const int8_t* panel, std::byte* const* out, int width, const IntegerEpilogue& epilogue) {
  (turn ? turned : as_they_are)[static_cast<size_t>(count - 1)](rows, runs, run_count, panel, out, width, epilogue);
}

}  // namespace

const IntegerTiles& integer_tiles() {
  static const IntegerTiles tiles{multiply};
  return tiles;
}

}  // namespace mpsgraph::cpu::avx512_vnni
