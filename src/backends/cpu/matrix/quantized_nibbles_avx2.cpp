// Products with packed weights of 2 or 4 bits by sums of products of bytes (quantized_digits.h), for processors with
// AVX2 and no dot products of bytes.
//
// vpmaddubsw adds two products of an unsigned and a signed byte in 16 bits. With elements below 16, the sums of all
// elements that share a factor, at most 128, fit in 16 bits.
#include "backends/cpu/matrix/quantized_digits.h"
#include "backends/cpu/matrix/quantized_scales.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::avx2 {
namespace {

constexpr int64_t width = lanes<float>, vector_bytes = MPSGRAPH_VECTOR_BYTES;
constexpr int digits = DigitRow::digits, digit_bits = DigitRow::digit_bits;

// Multiply the rows first, first + step, ..., `count` in all. If `one_group`, all words of a vector belong to one
// group, and there are no other words; vectors that share factors and a scale are summed as integers.
template <int bits, int count, bool one_group>
void multiply_nibbles(const PackedWeights& weights, int64_t first, int64_t step, const DigitRow& row,
                      const PreparedRows& x, float* result) {
  constexpr int parts = 8 / bits;
  constexpr uint32_t mask = 0x01010101u * ((1u << bits) - 1);
  const int64_t per_row = weights.words_per_row, groups = weights.groups_per_row;
  const int64_t together = one_group ? row.shared * bits / 32 / width : 1;
  const ScaleType type = weights.scale_type;
  const uint32_t* words = weights.words + first * per_row;
  const int8_t* bytes = row.bytes;
  const __m256i ones = _mm256_set1_epi16(1);
  Floats totals[count] = {};
  for (int64_t v = 0; v < row.vectors; v += together) {
    [[maybe_unused]] const int64_t left = per_row - v * width;
    __m256i sums[digits][count];
    for (int d = 0; d < digits; ++d)
      for (int r = 0; r < count; ++r) sums[d][r] = _mm256_setzero_si256();
    for (int64_t i = 0; i < together; ++i, words += width, bytes += digits * parts * vector_bytes) {
#pragma GCC unroll 4
      for (int r = 0; r < count; ++r) {
        const uint32_t* const at = words + r * step * per_row;
        const Words w = one_group || left >= width ? load(at) : load(at, left);
#pragma GCC unroll 4
        for (int p = 0; p < parts; ++p) {
          const auto q = (__m256i)((w >> static_cast<uint32_t>(p * bits)) & mask);
#pragma GCC unroll 3
          for (int d = 0; d < digits; ++d) {
            const auto digit = load_as<__m256i>(bytes + (d * parts + p) * vector_bytes);
            sums[d][r] = _mm256_add_epi16(sums[d][r], _mm256_maddubs_epi16(q, digit));
          }
        }
      }
    }
    const Floats factor = load(row.factors + v * width);
#pragma GCC unroll 4
    for (int r = 0; r < count; ++r) {
      const int64_t i = (first + r * step) * groups + x.first_groups[v];
      Floats scale;
      if constexpr (one_group)
        scale = splat(scale_at(type, weights.scale, i));
      else
        scale = permuted(load_some(type, weights.scale, i, weights.rows * groups - i), load(x.lane_groups + v * width));
      Ints wide[digits];
#pragma GCC unroll 3
      for (int d = 0; d < digits; ++d) wide[d] = (Ints)_mm256_madd_epi16(sums[d][r], ones);
      static_assert(digits == 3);
      const Floats high = to_float((wide[0] << digit_bits) + wide[1]);
      const Floats sum = multiply_add(high, splat(static_cast<float>(1 << digit_bits)), to_float(wide[2]));
      totals[r] = multiply_add(sum, scale * factor, totals[r]);
    }
  }
  for (int64_t group = 0; group < groups; group += width) {
    const Floats sums = load(x.sums + group);
    for (int r = 0; r < count; ++r) {
      const int64_t i = (first + r * step) * groups + group;
      totals[r] = multiply_add(load_some(type, weights.bias, i, groups - group), sums, totals[r]);
    }
  }
  for (int r = 0; r < count; ++r) result[r * step] = sum_of(totals[r]);
}

template <int bits>
void multiply_rows(const PackedWeights& weights, int64_t first, int64_t count, const DigitRow& row,
                   const PreparedRows& x, float* result) {
  const bool one_group = weights.words_per_row / weights.groups_per_row % width == 0;
  const auto four = one_group ? multiply_nibbles<bits, 4, true> : multiply_nibbles<bits, 4, false>;
  const auto one = one_group ? multiply_nibbles<bits, 1, true> : multiply_nibbles<bits, 1, false>;
  const int64_t step = count / 4;  // four streams through memory
  for (int64_t r = 0; r < step; ++r) four(weights, first + r, step, row, x, result + r);
  for (int64_t r = 4 * step; r < count; ++r) one(weights, first + r, 1, row, x, result + r);
}

}  // namespace

void multiply_nibbles(const PackedWeights& weights, int64_t first, int64_t count, const DigitRow& row,
                      const PreparedRows& x, float* result) {
  if (weights.bits == 2) return multiply_rows<2>(weights, first, count, row, x, result);
  return multiply_rows<4>(weights, first, count, row, x, result);
}

}  // namespace mpsgraph::cpu::avx2
