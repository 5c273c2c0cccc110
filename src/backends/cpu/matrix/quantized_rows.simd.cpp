// Products with packed weights. Each lane of a vector of words belongs to one group, so the sum over a vector's pieces
// is scaled lane by lane, and lanes are only added at the end of a row. Biases are multiplied by the sums of the
// groups.
#include "backends/cpu/matrix/quantized_rows.h"

#include <array>
#include <bit>
#include <cstring>

#include "backends/cpu/matrix/quantized_scales.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

constexpr int width = lanes<float>;

// ---- pieces of words

// The shifts and masks of each piece for vectors whose first word is the `phase`-th of a period.
template <int bits>
struct LanePieces {
  static constexpr WordPieces words = word_pieces(bits);
  static constexpr bool uniform = words.period == 1;  // whether all words have the same pieces
  struct Table {
    alignas(64) uint32_t shifts[words.period][words.count][width];
    alignas(64) uint32_t masks[words.period][words.count][width];
  };
  static constexpr Table made() {
    Table t{};
    for (int phase = 0; phase < words.period; ++phase)
      for (int piece = 0; piece < words.count; ++piece)
        for (int lane = 0; lane < width; ++lane) {
          const WordPieces::Piece& p = words.pieces[(phase + lane) % words.period][piece];
          t.shifts[phase][piece][lane] = static_cast<uint32_t>(p.shift);
          t.masks[phase][piece][lane] = p.mask;
        }
    return t;
  }
  static constexpr Table table = made();
};

// Return the elements of a vector, whose bits begin at `from`.
template <int bits>
[[gnu::always_inline]] inline Words elements_at(const uint8_t* from) {
#if MPSGRAPH_VECTOR_BYTES == 64  // g++ 12 converts vectors of bytes in many instructions
  if constexpr (bits == 8) return (Words)_mm512_cvtepu8_epi32(load_as<__m128i>(from));
#elif MPSGRAPH_VECTOR_BYTES == 32
  if constexpr (bits == 8) return (Words)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#endif
  constexpr int bytes = width * bits / 8;
  uint32_t words[2] = {};
  std::memcpy(words, from, bytes);
  Words all = splat<Words>(words[0]), lane;
  for (int i = 0; i < width; ++i) lane[i] = static_cast<uint32_t>(i);
  constexpr uint32_t per_word = 32 / bits;
  if constexpr (bytes > 4) all = select(lane < per_word, all, splat<Words>(words[1]));
  return (all >> (lane % per_word * bits)) & ((1u << bits) - 1);
}

// Multiply the rows first, first + step, ..., `count` in all. `in_order`: see bytes_in_order().
template <int bits, int rows, int count, bool in_order = false>
void multiply_block(const PackedWeights& weights, int64_t first, int64_t step, const PreparedRows& x, float* result,
                    int64_t stride) {
  using Lanes = LanePieces<bits>;
  constexpr int pieces = Lanes::words.count, period = Lanes::words.period;
  const int64_t per_row = weights.words_per_row, groups = weights.groups_per_row, per_group = per_row / groups;
  const bool one_group = per_group % width == 0;  // per vector of words
  const ScaleType type = weights.scale_type;
  const uint32_t* words[count];
  for (int r = 0; r < count; ++r) words[r] = weights.words + (first + r * step) * per_row;
  Floats totals[count][rows] = {};
  const float* at = x.pieces;
  int phase = 0;
  for (int64_t word = 0, v = 0; word < per_row; word += width, ++v) {
    Words w[count];
    for (int r = 0; r < count && !in_order; ++r)
      w[r] = word + width <= per_row ? load(words[r] + word) : load(words[r] + word, per_row - word);
    Floats sums[count][rows] = {};
#pragma GCC unroll 16
    for (int piece = 0; piece < pieces; ++piece, at += width) {
      Floats left[rows];
#pragma GCC unroll 8
      for (int m = 0; m < rows; ++m) left[m] = load(at + m * x.row_stride);
#pragma GCC unroll 4
      for (int r = 0; r < count; ++r) {
        Words q;
        if constexpr (in_order) {
          q = elements_at<bits>(reinterpret_cast<const uint8_t*>(words[r] + word) + piece * width);
        } else if constexpr (Lanes::uniform) {
          q = w[r] >> static_cast<uint32_t>(piece * bits);
          if (piece + 1 < pieces) q &= (1u << bits) - 1;
        } else {
          q = (w[r] >> load(Lanes::table.shifts[phase][piece])) & load(Lanes::table.masks[phase][piece]);
        }
        const Floats element = to_float((Ints)q);
#pragma GCC unroll 8
        for (int m = 0; m < rows; ++m) sums[r][m] = multiply_add(element, left[m], sums[r][m]);
      }
    }
    if constexpr (!Lanes::uniform) phase = (phase + width) % period;
    const int64_t group = x.first_groups[v];
#pragma GCC unroll 4
    for (int r = 0; r < count; ++r) {
      const int64_t i = (first + r * step) * groups + group;
      Floats scale;
      if (one_group)
        scale = splat(scale_at(type, weights.scale, i));
      else
        scale = permuted(load_some(type, weights.scale, i, weights.rows * groups - i), load(x.lane_groups + word));
#pragma GCC unroll 8
      for (int m = 0; m < rows; ++m) totals[r][m] = multiply_add(scale, sums[r][m], totals[r][m]);
    }
  }
  for (int64_t group = 0; group < groups; group += width)
    for (int r = 0; r < count; ++r) {
      const Floats bias = load_some(type, weights.bias, (first + r * step) * groups + group, groups - group);
      for (int m = 0; m < rows; ++m)
        totals[r][m] = multiply_add(bias, load(x.sums + m * x.sum_stride + group), totals[r][m]);
    }
  for (int r = 0; r < count; ++r)
    for (int m = 0; m < rows; ++m) result[m * stride + r * step] = sum_of(totals[r][m]);
}

// Weights are multiplied `at_once` rows at a time, so that sums stay in registers and loads of x are shared. These rows
// are far apart, so that each is part of a long walk through memory, which the hardware prefetcher follows.
template <int bits, int rows, bool in_order>
void multiply_rows(const PackedWeights& weights, int64_t first, int64_t count, const PreparedRows& x, float* result,
                   int64_t stride) {
  constexpr int at_once = rows == 1 ? 4 : rows == 2 ? 2 : 1;
  const int64_t step = count / at_once;
  for (int64_t r = 0; r < step; ++r)
    multiply_block<bits, rows, at_once, in_order>(weights, first + r, step, x, result + r, stride);
  for (int64_t r = step * at_once; r < count; ++r)
    multiply_block<bits, rows, 1, in_order>(weights, first + r, 1, x, result + r, stride);
}

constexpr int most_rows = vector_registers == 32 ? 8 : 4;

template <int bits, bool in_order = false>
void multiply_bits(const PackedWeights& weights, int64_t first, int64_t count, const PreparedRows& x, int rows,
                   float* result, int64_t stride) {
  if (rows == 1) return multiply_rows<bits, 1, in_order>(weights, first, count, x, result, stride);
  if (rows == 2) return multiply_rows<bits, 2, in_order>(weights, first, count, x, result, stride);
  if (rows == 4) return multiply_rows<bits, 4, in_order>(weights, first, count, x, result, stride);
  if constexpr (most_rows == 8) return multiply_rows<bits, 8, in_order>(weights, first, count, x, result, stride);
}

void multiply(const PackedWeights& weights, int64_t first, int64_t count, const PreparedRows& x, int rows,
              float* result, int64_t stride) {
  if (bytes_in_order(weights.bits, weights.words_per_row / weights.groups_per_row, width))
    return multiply_bits<8, true>(weights, first, count, x, rows, result, stride);
  switch (weights.bits) {
    case 2: return multiply_bits<2>(weights, first, count, x, rows, result, stride);
    case 3: return multiply_bits<3>(weights, first, count, x, rows, result, stride);
    case 4: return multiply_bits<4>(weights, first, count, x, rows, result, stride);
    case 5: return multiply_bits<5>(weights, first, count, x, rows, result, stride);
    case 6: return multiply_bits<6>(weights, first, count, x, rows, result, stride);
    default: return multiply_bits<8>(weights, first, count, x, rows, result, stride);
  }
}

// ---- conversion to float

template <int bits>
void unpack_elements(const uint8_t* from, int64_t count, float scale, float bias, float* to) {
  if constexpr (32 % bits == 0) {
    for (int64_t i = 0; i < count; i += width) {
      const Floats q = to_float((Ints)elements_at<bits>(from + i * bits / 8));
      store(to + i, multiply_add(q, splat(scale), splat(bias)));
    }
    return;
  }
  // Eight elements fill `bits` bytes.
  typedef uint64_t Wide __attribute__((vector_size(64)));
  typedef uint32_t Narrow __attribute__((vector_size(32)));
  typedef int32_t Signed __attribute__((vector_size(32)));
  typedef float Eight __attribute__((vector_size(32)));
  constexpr Wide shifts{0, bits, 2 * bits, 3 * bits, 4 * bits, 5 * bits, 6 * bits, 7 * bits};
  for (int64_t i = 0; i < count; i += 8, from += bits) {
    uint64_t all = 0;
    std::memcpy(&all, from, bits);
    const Wide wide = ((all - Wide{}) >> shifts) & ((uint64_t{1} << bits) - 1);
    const auto narrow = __builtin_convertvector(wide, Narrow);
    const auto q = __builtin_convertvector((Signed)narrow, Eight);
    const Eight value = q * scale + bias;
    std::memcpy(to + i, &value, sizeof value);
  }
}

template <int bits>
void unpack_groups(const PackedWeights& weights, int64_t row, int64_t begin, int64_t count, float* to) {
  const int64_t per_group = weights.words_per_row / weights.groups_per_row * 32 / bits;
  const auto* bytes = reinterpret_cast<const uint8_t*>(weights.words + row * weights.words_per_row);
  for (int64_t i = begin, end = begin + count; i < end;) {
    const int64_t group = i / per_group, next = (group + 1) * per_group < end ? (group + 1) * per_group : end;
    const int64_t at = row * weights.groups_per_row + group;
    unpack_elements<bits>(bytes + i * bits / 8, next - i, scale_at(weights.scale_type, weights.scale, at),
                          scale_at(weights.scale_type, weights.bias, at), to + i - begin);
    i = next;
  }
}

void unpack(const PackedWeights& weights, int64_t row, int64_t begin, int64_t count, float* to) {
  switch (weights.bits) {
    case 2: return unpack_groups<2>(weights, row, begin, count, to);
    case 3: return unpack_groups<3>(weights, row, begin, count, to);
    case 4: return unpack_groups<4>(weights, row, begin, count, to);
    case 5: return unpack_groups<5>(weights, row, begin, count, to);
    case 6: return unpack_groups<6>(weights, row, begin, count, to);
    default: return unpack_groups<8>(weights, row, begin, count, to);
  }
}

}  // namespace

constinit const QuantizedRows quantized_rows{width, most_rows, multiply, unpack};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
