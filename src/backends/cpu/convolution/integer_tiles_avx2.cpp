// Tiles of products of 8-bit integers with AVX2, whose instruction for them keeps the sum of two products in sixteen
// bits and saturates. Sums are int32 results, and exact.
//
// Where the magnitudes of the two weights are 128 together at most, nothing saturates: 255 times that fits. Those steps
// are marked in their runs. Elsewhere a byte of a row is taken in two parts, its highest bit and the rest, whose
// products fit, whatever the weights are.
#include <immintrin.h>

#include <array>
#include <cstring>
#include <utility>

#include "backends/cpu/convolution/convolution_integers.h"

namespace mpsgraph::cpu::avx2 {
namespace {

constexpr int columns = IntegerTiles::columns, group = IntegerTiles::group, rows_of_tile = 4, lanes = 8;

template <bool Turn>
__m256i four_of_row(const uint8_t* from) {
  int32_t four;
  std::memcpy(&four, from, sizeof four);
  const __m256i all = _mm256_set1_epi32(four);
  return Turn ? _mm256_xor_si256(all, _mm256_set1_epi8(static_cast<char>(0x80))) : all;
}

__m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }

// sums + four products for each lane, of bytes of a row that are below 128 or weights that are narrow.
__m256i add_products(__m256i sums, __m256i row, __m256i weights) {
  return _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_maddubs_epi16(row, weights), _mm256_set1_epi16(1)));
}

void store(__m256i sums, int32_t* to, int width) {
  if (width >= lanes) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), sums);
  const __m256i numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  _mm256_maskstore_epi32(to, _mm256_cmpgt_epi32(_mm256_set1_epi32(width), numbers), sums);
}

template <int R, int V, bool Turn, bool Narrow>
[[gnu::always_inline]] inline void add_run(const uint8_t* const* rows, const TileRun& run, const int8_t* b,
                                           __m256i (&sums)[R][V]) {
  for (int64_t s = 0; s < run.steps * group; s += group, b += columns * group) {
    __m256i weights[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) weights[v] = load(b + v * lanes * group);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m256i four = four_of_row<Turn>(rows[r] + run.delta + s);
      const __m256i most = Narrow ? four : _mm256_and_si256(four, _mm256_set1_epi8(0x7f));
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        sums[r][v] = add_products(sums[r][v], most, weights[v]);
        if (!Narrow) sums[r][v] = add_products(sums[r][v], _mm256_xor_si256(four, most), weights[v]);
      }
    }
  }
}

template <int R, bool Turn>
void multiply_rows(const uint8_t* const* rows, const TileRun* runs, int64_t run_count, const int8_t* panel,
                   std::byte* const* out, int width, const IntegerEpilogue& e) {
  constexpr int V = R <= 2 ? columns / lanes : 2;  // vectors at once, as registers hold them
  for (int at = 0; at < width; at += V * lanes) {
    __m256i sums[R][V];
    for (int v = 0; v < V; ++v) {
      const __m256i start = e.start ? load(e.start + at + v * lanes) : _mm256_setzero_si256();
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) sums[r][v] = start;
    }
    for (int64_t i = 0; i < run_count; ++i) {
      const int8_t* b = panel + (runs[i].panel * columns + at) * group;
      if (runs[i].narrow)
        add_run<R, V, Turn, true>(rows, runs[i], b, sums);
      else
        add_run<R, V, Turn, false>(rows, runs[i], b, sums);
    }
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        const int first = at + v * lanes;
        if (first >= width) break;
        __m256i sum = sums[r][v];
        if (e.row_terms)
          sum = _mm256_add_epi32(sum,
                                 _mm256_mullo_epi32(_mm256_set1_epi32(e.row_terms[r]), load(e.column_terms + first)));
        store(sum, reinterpret_cast<int32_t*>(out[r]) + first, width - first);
      }
  }
}

template <bool Turn, int... I>
constexpr auto all_counts(std::integer_sequence<int, I...>) {
  return std::array{&multiply_rows<I + 1, Turn>...};
}
using Counts = std::make_integer_sequence<int, rows_of_tile>;
constexpr auto as_they_are = all_counts<false>(Counts{});
constexpr auto turned = all_counts<true>(Counts{});

void multiply(int count, const uint8_t* const* rows, bool turn, const TileRun* runs, int64_t run_count,
              const int8_t* panel, std::byte* const* out, int width, const IntegerEpilogue& epilogue) {
  (turn ? turned : as_they_are)[static_cast<size_t>(count - 1)](rows, runs, run_count, panel, out, width, epilogue);
}

}  // namespace

const IntegerTiles& integer_tiles() {
  static const IntegerTiles tiles{{rows_of_tile}, multiply, 128, true};
  return tiles;
}

}  // namespace mpsgraph::cpu::avx2
