// Vector kernels for weights packed at a few bits per element (core/ops/quantization_packed.cpp): products of a few
// rows of floats with rows of packed weights, and conversion to float. Compiled for each instruction set.
#pragma once

#include <cstdint>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

enum class ScaleType : uint8_t { float32, float16, bfloat16 };

// Rows of packed weights. This header is compiled for each instruction set, so the type has no functions.
struct PackedWeights {
  int bits = 4;
  ScaleType scale_type = ScaleType::float32;  // also the type of the bias
  int64_t rows = 0, words_per_row = 0, groups_per_row = 0;
  const uint32_t* words = nullptr;
  const void *scale = nullptr, *bias = nullptr;
};

// How elements are divided among words. A word holds pieces: whole elements, or the bits of an element that lie in this
// word. A product with an element is the sum of the products with its pieces, with the factor 2^n for a piece that
// lacks the n lowest bits.
struct WordPieces {
  static constexpr int most_period = 5, most_pieces = 16;
  int period = 1;  // after this number of words, the pieces repeat
  int elements = 0;  // in `period` words
  int count = 0;  // pieces per word; a word that has fewer is completed by empty ones
  struct Piece {
    int element = 0, shift = 0;
    uint32_t mask = 0;
    float factor = 0;
  } pieces[most_period][most_pieces];
};
constexpr WordPieces word_pieces(int bits) {
  WordPieces result;
  while (32 * result.period % bits != 0) ++result.period;
  result.elements = 32 * result.period / bits;
  for (int word = 0; word < result.period; ++word) {
    int count = 0;
    for (int element = 32 * word / bits; element < result.elements && element * bits < 32 * (word + 1); ++element) {
      const int begin = element * bits - 32 * word, end = begin + bits;  // bits of the word
      const int low = begin < 0 ? -begin : 0, high = end > 32 ? bits - (end - 32) : bits;  // bits of the element
      result.pieces[word][count++] = {element, begin < 0 ? 0 : begin, (uint32_t{1} << (high - low)) - 1,
                                      static_cast<float>(1 << low)};
    }
    if (count > result.count) result.count = count;
  }
  return result;
}

// Whether a product takes elements of 8 bits in their order, because all words of a vector belong to one group. Other
// products take all first pieces of the words of a vector, then all second pieces.
constexpr bool bytes_in_order(int bits, int64_t words_per_group, int lanes) {
  return bits == 8 && words_per_group % lanes == 0;
}

// The left operand of a product, prepared for a row of packed weights. All arrays are shared by all rows of weights.
struct PreparedRows {
  // Elements times factors: for each vector of words and each piece, one per word. Rows are `row_stride` apart.
  const float* pieces = nullptr;
  const float* sums = nullptr;  // of the elements of each group; rows are `sum_stride` apart
  int64_t row_stride = 0, sum_stride = 0;
  const int32_t* first_groups = nullptr;  // for each vector of words, the group of its first word
  const int32_t* lane_groups = nullptr;  // for each word, its group, counted from that of the first word of its vector
};

struct QuantizedRows {
  int lanes;  // words in a vector
  int most_rows;  // maximum rows of the left operand in one call; 1, 2, and its divisors are possible too
  // Compute result[m * stride + r] = sum over i of x[m, i] * weight[first + r, i] for m < rows and r < count.
  void (*multiply)(const PackedWeights& weights, int64_t first, int64_t count, const PreparedRows& x, int rows,
                   float* result, int64_t stride);
  // Convert elements [begin, begin + count) of a row to float. begin and count must be multiples of 32.
  void (*unpack)(const PackedWeights& weights, int64_t row, int64_t begin, int64_t count, float* to);
};

MPSGRAPH_VECTOR_TABLE(QuantizedRows, quantized_rows);

}  // namespace mpsgraph::cpu
