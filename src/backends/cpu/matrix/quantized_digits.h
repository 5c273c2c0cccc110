// Products of one row of floats with rows of packed weights, by dot products of bytes (AVX-512 VNNI).
//
// Each float of the row becomes an integer of 21 bits times a factor that 32 elements share, and the integer becomes
// three digits of 7 bits, with signs. Dot products of the digits with the packed elements are exact, so the result has
// about the precision of float32, in a quarter of the instructions that conversions of the elements to float need.
#pragma once

#include <cstdint>

#include "backends/cpu/matrix/quantized_rows.h"

namespace mpsgraph::cpu {

// A row of floats as digits, arranged like the words of the weights.
struct DigitRow {
  static constexpr int digits = 3, words = 16;  // words in a vector

  int8_t* bytes = nullptr;  // [vector][digit][part][64]; the bytes of a vector of words have 8 / bits parts
  float* factors = nullptr;  // one for each word
  int8_t* scratch = nullptr;  // as large as bytes
  int64_t vectors = 0;  // of words; the last one may be incomplete
};

namespace avx512_vnni {

// Whether there are kernels for elements of this many bits on this processor.
bool multiplies_digits(int bits);
// Convert `count` floats. Return false if one of them is not finite, or if 32 elements that share a factor are all
// below 1e-30 and not all zero; the digits are then undefined.
bool split_into_digits(int bits, const float* x, int64_t count, const DigitRow& row);
// Compute result[r] = sum over i of x[i] * weight[first + r, i] for r < count. `x` has the sums and groups of the row.
void multiply_digits(const PackedWeights& weights, int64_t first, int64_t count, const DigitRow& row,
                     const PreparedRows& x, float* result);

}  // namespace avx512_vnni
}  // namespace mpsgraph::cpu
