// Products of a row of floats with rows of packed weights, by dot products of bytes: AVX-512 VNNI, AVX-VNNI, and Arm's
// extensions DotProd and I8MM. With AVX2 alone, sums of products of bytes compute those of at most 4 bits.
//
// Each float of the row becomes an integer of 23 bits times a factor that 32 to 128 elements share, and the integer
// becomes three digits of 8 bits, with signs. Dot products of the digits with the packed elements are exact, so the
// result has about the precision of float32, in less than half of the instructions that conversions of the elements to
// float need.
#pragma once

#include <cstdint>

#include "backends/cpu/matrix/quantized_rows.h"

namespace mpsgraph::cpu {

// This header is compiled for each instruction set, so it defines no functions.

// A row of floats as digits, arranged like the words of the weights. A vector has as many words as in QuantizedRows.
struct DigitRow {
  static constexpr int digits = 3, digit_bits = 8;  // the first digit is the highest

  int8_t* bytes = nullptr;  // [vector][digit][part][byte]; the bytes of a vector of words have 8 / bits parts
  float* factors = nullptr;  // one for each word
  int8_t* scratch = nullptr;  // as large as bytes
  int64_t vectors = 0;  // of words; the last one may be incomplete
  int64_t shared = 32;  // elements that share a factor: 32, or more if they also share the scales of the weights
};

// Return how many elements should share a factor: as many of 128 as possible, but only elements of one group, and of
// whole vectors with this number of words.
int64_t shared_elements(int bits, int64_t group, int64_t words);

struct QuantizedDigits {
  // Convert `count` floats, a multiple of 32. Return false if one of them is not finite, or if all that share a factor
  // are below 1e-30 and not all zero; the digits are then undefined.
  bool (*split)(int bits, const float* x, int64_t count, const DigitRow& row);
  // Compute result[r] = sum over i of x[i] * weight[first + r, i] for r < count. `x` has the sums and groups of the
  // row.
  void (*multiply)(const PackedWeights& weights, int64_t first, int64_t count, const DigitRow& row,
                   const PreparedRows& x, float* result);
};

// Return the kernels for elements of this many bits, or null if this processor has none.
const QuantizedDigits* quantized_digits(int bits);

#if defined(__x86_64__)
namespace avx2 {
// QuantizedDigits::multiply for elements of 2 or 4 bits, without dot products of bytes.
void multiply_nibbles(const PackedWeights& weights, int64_t first, int64_t count, const DigitRow& row,
                      const PreparedRows& x, float* result);
}  // namespace avx2
#endif

MPSGRAPH_DECLARE_TABLE(avx2, QuantizedDigits, quantized_digits)
MPSGRAPH_DECLARE_TABLE(avx512, QuantizedDigits, quantized_digits)
MPSGRAPH_DECLARE_TABLE(neon, QuantizedDigits, quantized_digits)  // defined, but not used, where NEON implies DotProd
MPSGRAPH_DECLARE_TABLE(neon_dotprod, QuantizedDigits, quantized_digits)
MPSGRAPH_DECLARE_TABLE(neon_bf16, QuantizedDigits, quantized_digits)

}  // namespace mpsgraph::cpu
