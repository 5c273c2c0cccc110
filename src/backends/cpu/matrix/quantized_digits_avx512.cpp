// Products with packed weights by dot products of bytes, with AVX-512 VNNI.
#include <immintrin.h>

#include "backends/cpu/half_types.h"
#include "backends/cpu/matrix/quantized_digits.h"

namespace mpsgraph::cpu::avx512_vnni {
namespace {

constexpr int64_t width = DigitRow::words, elements_of_factor = 32;
constexpr int digits = DigitRow::digits, digit_bits = 7;
constexpr float largest = 1 << 20;  // of the integers, so that sums of a word's products fit in 32 bits

__m512 load_some(ScaleType type, const void* from, int64_t i, int64_t left) {
  const auto mask = static_cast<__mmask16>(left >= width ? 0xffff : (1 << left) - 1);
  if (type == ScaleType::float32) return _mm512_maskz_loadu_ps(mask, static_cast<const float*>(from) + i);
  const __m256i halves = _mm256_maskz_loadu_epi16(mask, static_cast<const uint16_t*>(from) + i);
  if (type == ScaleType::float16) return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

template <int bits, int count>
__attribute__((target("avx512vnni"))) void multiply_block(const PackedWeights& weights, int64_t first,
                                                          const DigitRow& row, const PreparedRows& x, float* result) {
  constexpr int parts = 8 / bits;
  const __m512i mask = _mm512_set1_epi8(static_cast<char>((1 << bits) - 1));
  const int64_t per_row = weights.words_per_row, groups = weights.groups_per_row;
  __m512 totals[count];
  for (int r = 0; r < count; ++r) totals[r] = _mm512_setzero_ps();
  for (int64_t v = 0; v < row.vectors; ++v) {
    const int64_t word = v * width, left = per_row - word;
    const auto there = static_cast<__mmask16>(left >= width ? 0xffff : (1 << left) - 1);
    const int8_t* const bytes = row.bytes + v * digits * parts * 64;
    __m512i digit[digits][parts];
#pragma GCC unroll 3
    for (int d = 0; d < digits; ++d)
#pragma GCC unroll 4
      for (int p = 0; p < parts; ++p) digit[d][p] = _mm512_loadu_si512(bytes + (d * parts + p) * 64);
    const __m512 factor = _mm512_loadu_ps(row.factors + word);
    const __m512i lanes = _mm512_loadu_si512(x.lane_groups + word);
#pragma GCC unroll 4
    for (int r = 0; r < count; ++r) {
      const __m512i w = _mm512_maskz_loadu_epi32(there, weights.words + (first + r) * per_row + word);
      __m512i q[parts];
#pragma GCC unroll 4
      for (int p = 0; p < parts; ++p)
        q[p] = bits == 8 ? w : _mm512_and_si512(p == 0 ? w : _mm512_srli_epi16(w, p * bits), mask);
      __m512i sum = _mm512_setzero_si512();
#pragma GCC unroll 3
      for (int d = 0; d < digits; ++d) {
        if (d > 0) sum = _mm512_slli_epi32(sum, digit_bits);
#pragma GCC unroll 4
        for (int p = 0; p < parts; ++p) sum = _mm512_dpbusd_epi32(sum, q[p], digit[d][p]);
      }
      const int64_t i = (first + r) * groups + x.first_groups[v];
      const __m512 loaded = load_some(weights.scale_type, weights.scale, i, weights.rows * groups - i);
      const __m512 scale = _mm512_mul_ps(_mm512_permutexvar_ps(lanes, loaded), factor);
      totals[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, totals[r]);
    }
  }
  for (int64_t group = 0; group < groups; group += width) {
    const __m512 sums = _mm512_loadu_ps(x.sums + group);
    for (int r = 0; r < count; ++r) {
      const __m512 bias = load_some(weights.scale_type, weights.bias, (first + r) * groups + group, groups - group);
      totals[r] = _mm512_fmadd_ps(bias, sums, totals[r]);
    }
  }
  for (int r = 0; r < count; ++r) result[r] = _mm512_reduce_add_ps(totals[r]);
}

template <int bits>
void multiply_rows(const PackedWeights& weights, int64_t first, int64_t count, const DigitRow& row,
                   const PreparedRows& x, float* result) {
  int64_t r = 0;
  for (; r + 4 <= count; r += 4) multiply_block<bits, 4>(weights, first + r, row, x, result + r);
  for (; r < count; ++r) multiply_block<bits, 1>(weights, first + r, row, x, result + r);
}

// Arrange the digits of consecutive elements like the parts of the words' bytes.
template <int bits>
void arrange(const DigitRow& row) {
  constexpr int64_t parts = 8 / bits, elements = 64 * parts;
  const int64_t all = row.vectors * elements;
  for (int64_t v = 0; v < row.vectors; ++v)
    for (int64_t d = 0; d < digits; ++d)
      for (int64_t p = 0; p < parts; ++p) {
        const int8_t* const from = row.scratch + d * all + v * elements + p;
        int8_t* const to = row.bytes + ((v * digits + d) * parts + p) * 64;
        for (int64_t i = 0; i < 64; ++i) to[i] = from[i * parts];
      }
}

}  // namespace

bool multiplies_digits(int bits) {
  static const bool there = instruction_set() == "AVX-512" && __builtin_cpu_supports("avx512vnni");
  return there && (bits == 2 || bits == 4 || bits == 8);
}

bool split_into_digits(int bits, const float* x, int64_t count, const DigitRow& row) {
  const int64_t words_of_factor = elements_of_factor * bits / 32, all = row.vectors * width * 32 / bits;
  const __m512i half = _mm512_set1_epi32(1 << (digit_bits - 1)), low = _mm512_set1_epi32((1 << digit_bits) - 1);
  for (int64_t i = 0; i < all; i += elements_of_factor) {
    const bool exists = i < count;  // count is a multiple of elements_of_factor
    const __m512 a = exists ? _mm512_loadu_ps(x + i) : _mm512_setzero_ps();
    const __m512 b = exists ? _mm512_loadu_ps(x + i + 16) : _mm512_setzero_ps();
    const __m512 magnitude = _mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b));
    const __mmask16 finite = _mm512_cmp_ps_mask(_mm512_sub_ps(a, a), _mm512_sub_ps(b, b), _CMP_EQ_OQ);
    if (finite != 0xffff) return false;  // x - x is NaN if x is not finite
    const float most = _mm512_reduce_max_ps(magnitude);
    // The reciprocal of a tiny number would overflow, and the products would be subnormal, which programs flush to 0.
    const bool counts = most > 0;
    if (counts && most < 1e-30f) return false;
    const __m512 inverse = _mm512_set1_ps(counts ? largest / most : 0);
    for (int64_t word = i * bits / 32, n = 0; n < words_of_factor; ++n)
      row.factors[word + n] = counts ? most / largest : 0;
    for (int h = 0; h < 2; ++h) {
      __m512i rest = _mm512_cvtps_epi32(_mm512_mul_ps(h == 0 ? a : b, inverse));
      for (int d = digits - 1; d >= 0; --d) {
        __m512i digit = rest;
        if (d > 0) {
          digit = _mm512_sub_epi32(_mm512_and_si512(_mm512_add_epi32(rest, half), low), half);
          rest = _mm512_srai_epi32(_mm512_sub_epi32(rest, digit), digit_bits);
        }
        _mm_storeu_si128(reinterpret_cast<__m128i*>(row.scratch + d * all + i + h * 16), _mm512_cvtepi32_epi8(digit));
      }
    }
  }
  if (bits == 2) arrange<2>(row);
  if (bits == 4) arrange<4>(row);
  if (bits == 8) arrange<8>(row);
  return true;
}

void multiply_digits(const PackedWeights& weights, int64_t first, int64_t count, const DigitRow& row,
                     const PreparedRows& x, float* result) {
  if (weights.bits == 2) return multiply_rows<2>(weights, first, count, row, x, result);
  if (weights.bits == 4) return multiply_rows<4>(weights, first, count, row, x, result);
  return multiply_rows<8>(weights, first, count, row, x, result);
}

}  // namespace mpsgraph::cpu::avx512_vnni
