// Tile functions: the vectorised inner loops of fused element-wise kernels.
//
// One function does one operation on n consecutive elements. float32 is compiled three times
// (baseline, AVX2, AVX-512) from tile_functions_float.inc and chosen at run time; the other types
// are plain loops. Half types are computed in float32 between a load and a store.
#pragma once

#include <cstdint>
#include <string_view>

#include "mpsgraph/core/types.h"

namespace mpsgraph::cpu {

// `out` may be one of the inputs, at the same position; otherwise nothing overlaps.
using TileFunction = void (*)(void* out, const void* const* in, int64_t n);

// Bit i set: input i is one element that stands for all n.
using ScalarMask = unsigned;

// The function for an operation kind on operands of `dtype`; null when there is none.
TileFunction tile_function(std::string_view kind, DType dtype, ScalarMask scalars);
// The same for complex operands, and for complex_tensor, whose operands are floats (tile_functions_complex.cpp).
TileFunction complex_tile(std::string_view kind, DType dtype, ScalarMask scalars);
// From any dtype to any other, rounding as C++ does; to bool is x != 0, from complex to real the real part. Half types
// included.
TileFunction cast_function(DType from, DType to);
// float32 -> float32 rounded to the given half type.
TileFunction round_function(DType half);

enum class Reduction { sum, product, maximum, minimum, maximum_propagate_nan, minimum_propagate_nan };
// Accumulates n elements of float32 into *accumulator.
using ReduceFunction = void (*)(float* accumulator, const float* in, int64_t n);
// accumulator[i] takes in rows of in[i], `stride` apart, i < n.
using CombineFunction = void (*)(float* accumulator, const float* in, int64_t stride, int64_t rows, int64_t n);

struct FloatFunctions {  // what one instruction set brings
  TileFunction (*tile)(std::string_view kind, ScalarMask scalars);
  ReduceFunction (*reduce)(Reduction);
  void (*sum_halves)(float* accumulator, const void* in, DType half, int64_t n);
  CombineFunction (*combine)(Reduction);
  TileFunction (*cast)(DType from, DType to);  // the fast ones: float32 <-> half types, small integers, bool, int32
  float (*dot)(const float* a, const float* b, int64_t n);  // the sum of products
  // sums[j] = sum over i < count of factors[i] * rows[i * stride + j], j < n.
  void (*weighted_sum)(float* sums, const float* factors, const float* rows, int64_t stride, int64_t count, int64_t n);
  // Copies past the caches, for results too large to be found there again: saves reading what is overwritten.
  void (*stream)(void* to, const void* from, size_t bytes);
  TileFunction complex_product, complex_conjugate;  // of complex64
  // Repeats a pattern of 16 bytes; `bytes` may end within one.
  void (*repeat)(void* to, const void* pattern, size_t bytes);
};
const FloatFunctions& float_functions();  // of the best instruction set here

namespace baseline {
const FloatFunctions& functions();
}
namespace avx2 {
const FloatFunctions& functions();
}
namespace avx512 {
const FloatFunctions& functions();
}

}  // namespace mpsgraph::cpu
