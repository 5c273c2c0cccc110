// Tiles of products of 8-bit integers with AVX2, which has no instruction for four of them that does not saturate:
// bytes are widened to sixteen bits, pairs of which are multiplied and added exactly. Sums are int32 results.
//
// Eight columns at a time: a step of them is 32 bytes, which become two vectors of sixteen numbers, four columns each;
// each column's sum stays in two halves until the end.
#include <immintrin.h>

#include <array>
#include <cstring>
#include <utility>

#include "backends/cpu/convolution/convolution_integers.h"

namespace mpsgraph::cpu::avx2 {
namespace {

constexpr int columns = IntegerTiles::columns, group = IntegerTiles::group, rows_of_tile = 4, at_once = 8;

template <bool Signed>
__m256i four_of_row(const uint8_t* from) {
  int32_t four;
  std::memcpy(&four, from, sizeof four);
  const __m128i all = _mm_set1_epi32(four);
  return Signed ? _mm256_cvtepi8_epi16(all) : _mm256_cvtepu8_epi16(all);
}

__m256i widened(const int8_t* from) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

void store(__m256i sums, int32_t* to, int width) {
  if (width >= at_once) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), sums);
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  _mm256_maskstore_epi32(to, _mm256_cmpgt_epi32(_mm256_set1_epi32(width), lanes), sums);
}

template <int R, bool Signed>
void multiply_rows(const uint8_t* const* rows, const TileRun* runs, int64_t run_count, const int8_t* panel,
                   std::byte* const* out, int width, const IntegerEpilogue& e) {
  for (int at = 0; at < width; at += at_once) {
    __m256i low[R], high[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) low[r] = high[r] = _mm256_setzero_si256();
    for (int64_t i = 0; i < run_count; ++i) {
      const TileRun run = runs[i];
      const int8_t* b = panel + run.panel * columns * group + at * group;
      for (int64_t s = 0; s < run.steps * group; s += group, b += columns * group) {
        const __m256i first = widened(b), second = widened(b + at_once * group / 2);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
          const __m256i four = four_of_row<Signed>(rows[r] + run.delta + s);
          low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(four, first));
          high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(four, second));
        }
      }
    }
    for (int r = 0; r < R; ++r) {
      // The halves of columns 0 1 4 5 and 2 3 6 7, brought into order.
      __m256i sums = _mm256_permute4x64_epi64(_mm256_hadd_epi32(low[r], high[r]), 0b11011000);
      if (e.start) sums = _mm256_add_epi32(sums, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(e.start + at)));
      if (e.row_terms)
        sums = _mm256_add_epi32(
            sums, _mm256_mullo_epi32(_mm256_set1_epi32(e.row_terms[r]),
                                     _mm256_loadu_si256(reinterpret_cast<const __m256i*>(e.column_terms + at))));
      store(sums, reinterpret_cast<int32_t*>(out[r]) + at, width - at);
    }
  }
}

template <bool Signed, int... I>
constexpr auto all_counts(std::integer_sequence<int, I...>) {
  return std::array{&multiply_rows<I + 1, Signed>...};
}
using Counts = std::make_integer_sequence<int, rows_of_tile>;
constexpr auto of_unsigned = all_counts<false>(Counts{});
constexpr auto of_signed = all_counts<true>(Counts{});

void multiply(int count, const uint8_t* const* rows, bool are_signed, const TileRun* runs, int64_t run_count,
              const int8_t* panel, std::byte* const* out, int width, const IntegerEpilogue& epilogue) {
  (are_signed ? of_signed : of_unsigned)[static_cast<size_t>(count - 1)](rows, runs, run_count, panel, out, width,
                                                                         epilogue);
}

}  // namespace

const IntegerTiles& integer_tiles() {
  static const IntegerTiles tiles{{rows_of_tile}, multiply, 0};
  return tiles;
}

}  // namespace mpsgraph::cpu::avx2
