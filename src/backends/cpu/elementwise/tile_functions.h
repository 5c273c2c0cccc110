// Tile functions: the vectorized inner loops of fused element-wise kernels.
//
// Each function applies one operation to n consecutive elements. The float32 functions are compiled for each
// instruction set (tile_functions_float.simd.cpp); other types use plain loops. Half precision is computed in float32
// between a load and a store.
#pragma once

#include <cstdint>
#include <string_view>

#include "backends/cpu/instruction_set.h"
#include "mpsgraph/core/types.h"

namespace mpsgraph::cpu {

// `out` may be identical to one of the inputs; otherwise, it must not overlap with any input.
using TileFunction = void (*)(void* out, const void* const* in, int64_t n);

// If bit i is set, input i is a single element used for all n results.
using ScalarMask = unsigned;

// Return the function for an operation on operands of `dtype`, or null if `dtype` or the operation is not supported.
TileFunction tile_function(std::string_view kind, DType dtype, ScalarMask scalars);
// Return the function for an operation on complex operands, or for complex_tensor, whose operands are real
// (tile_functions_complex.cpp).
TileFunction complex_tile(std::string_view kind, DType dtype, ScalarMask scalars);
// Return a cast between any two dtypes, including half precision, with C++ rounding. A cast to bool tests x != 0; a
// cast from complex to real takes the real part.
TileFunction cast_function(DType from, DType to);
// Return a function that rounds float32 values to the given half-precision type but stores the results as float32.
TileFunction round_function(DType half);

enum class Reduction { sum, product, maximum, minimum, maximum_propagate_nan, minimum_propagate_nan };
// Reduces n elements and combines the result with *accumulator.
using ReduceFunction = void (*)(float* accumulator, const float* in, int64_t n);
// Reduces rows that are `stride` elements apart: combines element i of each row with accumulator[i], for i < n.
using CombineFunction = void (*)(float* accumulator, const float* in, int64_t stride, int64_t rows, int64_t n);

struct FloatFunctions {  // functions of one instruction set
  TileFunction (*tile)(std::string_view kind, ScalarMask scalars);
  ReduceFunction (*reduce)(Reduction);
  void (*sum_halves)(float* accumulator, const void* in, DType half, int64_t n);
  CombineFunction (*combine)(Reduction);
  TileFunction (*cast)(DType from, DType to);  // fast casts: float32 <-> half precision, small integers, bool, int32
  float (*dot)(const float* a, const float* b, int64_t n);  // dot product of a and b
  // Computes sums[j] = sum over i < count of factors[i] * rows[i * stride + j], for j < n.
  void (*weighted_sum)(float* sums, const float* factors, const float* rows, int64_t stride, int64_t count, int64_t n);
  // Copies with streaming stores, which avoid reading the destination, for results too large to stay in cache.
  void (*stream)(void* to, const void* from, size_t bytes);
  TileFunction complex_product, complex_conjugate;  // functions for complex64
  // Fills memory with a repeated 16-byte pattern; `bytes` need not be a multiple of 16.
  void (*repeat)(void* to, const void* pattern, size_t bytes);
};
MPSGRAPH_VECTOR_TABLE(FloatFunctions, float_functions);

}  // namespace mpsgraph::cpu
