// 8-bit integer micro-kernels with AVX2. AVX2's multiply instruction adds two adjacent products in 16 bits and
// saturates, but the results of these micro-kernels are exact int32 sums.
//
// A step multiplies four bytes of a row by four weights of each column. If, in each column, the magnitudes of the first
// two weights sum to at most 128, and so do those of the last two, nothing saturates, because 255 * 128 fits in 16
// bits. Such steps are called narrow, and runs of narrow steps are marked. Long runs of wide steps are computed with
// both operands widened to 16 bits: the rows are widened once for all columns, and the weights as they are read. A
// vector then holds four columns with two sums each, one for the first two products of a step and one for the last two.
// These sums are combined at the end, so wide steps take as many multiplications as narrow ones. In short runs of wide
// steps, where widening would not pay off, each byte of a row is split into its highest bit and the remaining seven
// bits. The products of both parts with the weights never saturate.
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backends/cpu/convolution/convolution_integers.h"

namespace mpsgraph::cpu::avx2 {
namespace {

constexpr int columns = IntegerTiles::columns, group = IntegerTiles::group, rows_of_tile = 6, lanes = 8;

template <bool Turn>
__m256i four_of_row(const uint8_t* from) {
  int32_t four;
  std::memcpy(&four, from, sizeof four);
  const __m256i all = _mm256_set1_epi32(four);
  return Turn ? _mm256_xor_si256(all, _mm256_set1_epi8(static_cast<char>(0x80))) : all;
}

__m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }

// Return `sums` plus four products per lane. To avoid saturation, the row's bytes must be at most 128, or the weights
// must be narrow.
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

// ---- wide steps

constexpr int64_t least_steps = 16;  // minimum steps of a run for which widening pays off

bool is_widened(const TileRun& run) { return !run.narrow && run.steps >= least_steps; }

constexpr int64_t steps_of_chunk = 256;  // steps whose widened rows fit in L1
// Elements of a widened row. The size is not a multiple of a page, so that rows do not share cache sets.
constexpr int64_t wide_row = steps_of_chunk * group + 32;

// A batch of wide steps, collected from several runs of steps. The row elements of all these steps are widened and
// stored consecutively.
struct Chunk {
  static constexpr int most_parts = 32;
  struct Part {
    int64_t panel, steps;
  };
  Part parts[most_parts];
  int count = 0;
  int64_t steps = 0;
  bool is_full() const { return count == most_parts || steps == steps_of_chunk; }
};

template <bool Turn>
void widen(const uint8_t* from, int64_t bytes, int16_t* to) {
  int64_t i = 0;
  for (; i + 16 <= bytes; i += 16) {
    __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    if (Turn) some = _mm_xor_si128(some, _mm_set1_epi8(static_cast<char>(0x80)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_cvtepu8_epi16(some));
  }
  for (; i < bytes; ++i) to[i] = static_cast<int16_t>(Turn ? from[i] ^ 0x80 : from[i]);
}

// Add the products of a chunk of wide steps to sums[r][at + c], for each of R rows r and each column c of V vectors.
template <int R, int V>
[[gnu::always_inline]] inline void add_chunk(const int16_t (&rows)[R][wide_row], const Chunk& chunk,
                                             const int8_t* panel, int at, int32_t (&sums)[R][columns]) {
  __m256i halves[R][2 * V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < 2 * V; ++v) halves[r][v] = _mm256_setzero_si256();
  int64_t k = 0;
  for (int i = 0; i < chunk.count; ++i) {
    const int8_t* b = panel + (chunk.parts[i].panel * columns + at) * group;
    for (const int64_t end = k + chunk.parts[i].steps * group; k < end; k += group, b += columns * group) {
      __m256i weights[2 * V];
#pragma GCC unroll 8
      for (int v = 0; v < 2 * V; ++v)
        weights[v] = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + v * 16)));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        int64_t four;
        std::memcpy(&four, &rows[r][k], sizeof four);
        const __m256i row = _mm256_set1_epi64x(four);
#pragma GCC unroll 8
        for (int v = 0; v < 2 * V; ++v)
          halves[r][v] = _mm256_add_epi32(halves[r][v], _mm256_madd_epi16(row, weights[v]));
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      constexpr int in_order = 0b11'01'10'00;  // hadd interleaves the two halves in units of two columns
      const __m256i both =
          _mm256_permute4x64_epi64(_mm256_hadd_epi32(halves[r][2 * v], halves[r][2 * v + 1]), in_order);
      int32_t* to = sums[r] + at + v * lanes;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_add_epi32(load(to), both));
    }
}

// Add the products of all widened runs to `sums`.
template <int R, bool Turn>
[[gnu::noinline]] void add_wide(const uint8_t* const* rows, const TileRun* runs, int64_t run_count, const int8_t* panel,
                                int width, int32_t (&sums)[R][columns]) {
  constexpr int V = R == 1 ? columns / lanes : R == 2 ? 2 : 1;  // vectors of columns whose sums fit in registers
  alignas(32) int16_t wide[R][wide_row];
  Chunk chunk;
  const auto multiply = [&] {
    for (int at = 0; at < width; at += V * lanes) add_chunk<R, V>(wide, chunk, panel, at, sums);
    chunk.count = 0, chunk.steps = 0;
  };
  for (int64_t i = 0; i < run_count; ++i)
    for (int64_t s = 0, steps = 0; is_widened(runs[i]) && s < runs[i].steps; s += steps) {
      steps = std::min(runs[i].steps - s, steps_of_chunk - chunk.steps);
      for (int r = 0; r < R; ++r)
        widen<Turn>(rows[r] + runs[i].delta + s * group, steps * group, wide[r] + chunk.steps * group);
      chunk.parts[chunk.count++] = {runs[i].panel + s, steps};
      chunk.steps += steps;
      if (chunk.is_full()) multiply();
    }
  if (chunk.count) multiply();
}

template <int R, bool Turn>
void multiply_rows(const uint8_t* const* rows, const TileRun* runs, int64_t run_count, const int8_t* panel,
                   std::byte* const* out, int width, const IntegerEpilogue& e) {
  constexpr int V = R <= 2 ? columns / lanes : R <= 4 ? 2 : 1;  // vectors of columns whose sums fit in registers
  alignas(32) int32_t begin[R][columns];
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < columns; c += lanes)
      _mm256_store_si256(reinterpret_cast<__m256i*>(begin[r] + c),
                         e.start ? load(e.start + c) : _mm256_setzero_si256());
  bool others = false;
  for (int64_t i = 0; i < run_count; ++i) others |= !is_widened(runs[i]);
  add_wide<R, Turn>(rows, runs, run_count, panel, width, begin);
  for (int at = 0; at < width; at += V * lanes) {
    __m256i sums[R][V];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sums[r][v] = load(begin[r] + at + v * lanes);
    for (int64_t i = 0; others && i < run_count; ++i) {
      const int8_t* b = panel + (runs[i].panel * columns + at) * group;
      if (runs[i].narrow)
        add_run<R, V, Turn, true>(rows, runs[i], b, sums);
      else if (!is_widened(runs[i]))
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

void multiply(int count, const uint8_t* const* rows, bool is_signed, const TileRun* runs, int64_t run_count,
              const int8_t* panel, std::byte* const* out, int width, const IntegerEpilogue& epilogue) {
  (is_signed ? turned : as_they_are)[static_cast<size_t>(count - 1)](rows, runs, run_count, panel, out, width,
                                                                     epilogue);
}

}  // namespace

const IntegerTiles& integer_tiles() {
  static const IntegerTiles tiles{{rows_of_tile}, multiply, pack_byte_panel, 128, 0, true};
  return tiles;
}

}  // namespace mpsgraph::cpu::avx2
