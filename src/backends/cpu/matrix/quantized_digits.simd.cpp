// Products with packed weights by dot products of bytes. neon_bf16 stands for processors with I8MM, which can multiply
// unsigned by signed bytes. Other Arm processors multiply signed bytes, so 128 is subtracted from elements of 8 bits.
// Instruction sets: avx2, avx512, neon_dotprod, neon_bf16.
#include "backends/cpu/matrix/quantized_digits.h"

#include <algorithm>

#include "backends/cpu/matrix/quantized_scales.h"
#include "backends/cpu/simd.h"

#if !defined(__aarch64__) || defined(__ARM_FEATURE_DOTPROD)  // the build compiles this file for plain NEON, too

// Compilers may emit the dot products anywhere in code that is compiled for them, so only these functions are.
#if defined(__aarch64__)
#define MPSGRAPH_DOT_PRODUCTS
#elif MPSGRAPH_VECTOR_BYTES == 64
#define MPSGRAPH_DOT_PRODUCTS __attribute__((target("avx512vnni")))
#else
#define MPSGRAPH_DOT_PRODUCTS __attribute__((target("avxvnni")))
#endif

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

constexpr int64_t width = lanes<float>, vector_bytes = MPSGRAPH_VECTOR_BYTES;
constexpr int digits = DigitRow::digits, digit_bits = DigitRow::digit_bits;
constexpr float largest = 1 << 22;  // of the integers, which have three digits

#if defined(__aarch64__) && !defined(__ARM_FEATURE_MATMUL_INT8)
constexpr bool only_signed = true;
#else
constexpr bool only_signed = false;
#endif

// Add four products of bytes to each lane of the sums.
MPSGRAPH_DOT_PRODUCTS inline Ints add_products(Ints sums, Words q, Ints digit) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  return (Ints)vusdotq_s32((int32x4_t)sums, (uint8x16_t)q, (int8x16_t)digit);
#elif defined(__aarch64__)
  return (Ints)vdotq_s32((int32x4_t)sums, (int8x16_t)q, (int8x16_t)digit);
#elif MPSGRAPH_VECTOR_BYTES == 64
  return (Ints)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)q, (__m512i)digit);
#else
  return (Ints)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)q, (__m256i)digit);
#endif
}

// Multiply `count` rows of weights. If `one_group`, all words of a vector belong to one group, and there are no other
// words; vectors that share factors and a scale are summed as integers.
template <int bits, int count, bool one_group>
MPSGRAPH_DOT_PRODUCTS void multiply_block(const PackedWeights& weights, int64_t first, const DigitRow& row,
                                          const PreparedRows& x, float* result) {
  constexpr int parts = 8 / bits;
  constexpr uint32_t mask = 0x01010101u * ((1u << bits) - 1);
  constexpr bool minus_128 = only_signed && bits == 8;
  const int64_t per_row = weights.words_per_row, groups = weights.groups_per_row;
  const int64_t together = one_group ? row.shared * bits / 32 / width : 1;
  const ScaleType type = weights.scale_type;
  const uint32_t* words = weights.words + first * per_row;
  const int8_t* bytes = row.bytes;
  Floats totals[count] = {};
  for (int64_t v = 0; v < row.vectors; v += together) {
    Ints sums[digits][count] = {};
    [[maybe_unused]] const int64_t left = per_row - v * width;
    for (int64_t i = 0; i < together; ++i, words += width, bytes += digits * parts * vector_bytes) {
      Ints digit[digits][parts];
#pragma GCC unroll 3
      for (int d = 0; d < digits; ++d)
#pragma GCC unroll 4
        for (int p = 0; p < parts; ++p) digit[d][p] = load_as<Ints>(bytes + (d * parts + p) * vector_bytes);
#pragma GCC unroll 4
      for (int r = 0; r < count; ++r) {
        Words w = one_group || left >= width ? load(words + r * per_row) : load(words + r * per_row, left);
        if constexpr (minus_128) w ^= 0x80808080u;
#pragma GCC unroll 4
        for (int p = 0; p < parts; ++p) {
          const Words q = bits == 8 ? w : (w >> static_cast<uint32_t>(p * bits)) & mask;
#pragma GCC unroll 3
          for (int d = 0; d < digits; ++d) sums[d][r] = add_products(sums[d][r], q, digit[d][p]);
        }
      }
    }
    const Floats factor = load(row.factors + v * width);
#pragma GCC unroll 4
    for (int r = 0; r < count; ++r) {
      const int64_t i = (first + r) * groups + x.first_groups[v];
      Floats scale;
      if constexpr (one_group)
        scale = splat(scale_at(type, weights.scale, i));
      else
        scale = permuted(load_some(type, weights.scale, i, weights.rows * groups - i), load(x.lane_groups + v * width));
      static_assert(digits == 3);
      const Floats high = to_float((sums[0][r] << digit_bits) + sums[1][r]);
      const Floats sum = multiply_add(high, splat(static_cast<float>(1 << digit_bits)), to_float(sums[2][r]));
      totals[r] = multiply_add(sum, scale * factor, totals[r]);
    }
  }
  for (int64_t group = 0; group < groups; group += width) {
    const Floats sums = load(x.sums + group);
    for (int r = 0; r < count; ++r) {
      const int64_t i = (first + r) * groups + group;
      Floats bias = load_some(type, weights.bias, i, groups - group);
      if constexpr (minus_128)
        bias = multiply_add(load_some(type, weights.scale, i, groups - group), splat(128.f), bias);
      totals[r] = multiply_add(bias, sums, totals[r]);
    }
  }
  for (int r = 0; r < count; ++r) result[r] = sum_of(totals[r]);
}

template <int bits>
void multiply_rows(const PackedWeights& weights, int64_t first, int64_t count, const DigitRow& row,
                   const PreparedRows& x, float* result) {
  const bool one_group = weights.words_per_row / weights.groups_per_row % width == 0;
  const auto four = one_group ? multiply_block<bits, 4, true> : multiply_block<bits, 4, false>;
  const auto one = one_group ? multiply_block<bits, 1, true> : multiply_block<bits, 1, false>;
  int64_t r = 0;
  for (; r + 4 <= count; r += 4) four(weights, first + r, row, x, result + r);
  for (; r < count; ++r) one(weights, first + r, row, x, result + r);
}

// Arrange the digits of consecutive elements like the parts of the words' bytes.
template <int bits>
void arrange(const DigitRow& row) {
  constexpr int64_t parts = 8 / bits, elements = vector_bytes * parts;
  const int64_t all = row.vectors * elements;
  for (int64_t v = 0; v < row.vectors; ++v)
    for (int64_t d = 0; d < digits; ++d)
      for (int64_t p = 0; p < parts; ++p) {
        const int8_t* const from = row.scratch + d * all + v * elements + p;
        int8_t* const to = row.bytes + ((v * digits + d) * parts + p) * vector_bytes;
        for (int64_t i = 0; i < vector_bytes; ++i) to[i] = from[i * parts];
      }
}

bool split(int bits, const float* x, int64_t count, const DigitRow& row) {
  constexpr float round = 0x1.8p23f;  // the lowest bit of a float of this size is 1
  const int64_t all = row.vectors * width * 32 / bits;
  for (int64_t begin = 0; begin < all; begin += row.shared) {
    const int64_t end = std::min(begin + row.shared, all), there = std::min(end, count);
    Floats magnitude = {};
    LaneMask<Floats> finite = magnitude == magnitude;
    for (int64_t i = begin; i < there; i += width) {
      const Floats part = load(x + i);
      finite &= part - part == Floats{};  // x - x is NaN if x is not finite
      magnitude = greatest(magnitude, absolute(part));
    }
    if (!every(finite)) return false;
    const float most = fold_lanes(magnitude, [](Floats a, Floats b) { return greatest(a, b); });
    // The reciprocal of a tiny number would overflow, and the products would be subnormal, which programs flush to 0.
    const bool counts = most > 0;
    if (counts && most < 1e-30f) return false;
    const Floats inverse = splat(counts ? largest / most : 0);
    for (int64_t word = begin * bits / 32; word < end * bits / 32; ++word)
      row.factors[word] = counts ? most / largest : 0;
    for (int64_t i = begin; i < end; i += width) {
      const Floats part = i < count ? load(x + i) : Floats{};
      Ints rest = as_int(multiply_add(part, inverse, splat(round))) - std::bit_cast<int32_t>(round);
      for (int d = digits - 1; d >= 0; --d) {
        Ints digit = rest;
        if (d > 0) {
          digit = ((rest + (1 << (digit_bits - 1))) & ((1 << digit_bits) - 1)) - (1 << (digit_bits - 1));
          rest = (rest - digit) >> digit_bits;
        }
        store(row.scratch + d * all + i, __builtin_convertvector(digit, Vector<int8_t, width>));
      }
    }
  }
  if (bits == 2) arrange<2>(row);
  if (bits == 4) arrange<4>(row);
  if (bits == 8) arrange<8>(row);
  return true;
}

void multiply(const PackedWeights& weights, int64_t first, int64_t count, const DigitRow& row, const PreparedRows& x,
              float* result) {
  if (weights.bits == 2) return multiply_rows<2>(weights, first, count, row, x, result);
  if (weights.bits == 4) return multiply_rows<4>(weights, first, count, row, x, result);
  return multiply_rows<8>(weights, first, count, row, x, result);
}

}  // namespace

constinit const QuantizedDigits quantized_digits{split, multiply};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA

#undef MPSGRAPH_DOT_PRODUCTS
#endif
