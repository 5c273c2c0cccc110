// Loads of scales and biases of packed weights, for vector kernels (quantized_rows.h).
#pragma once

#include "backends/cpu/matrix/quantized_rows.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

template <class... N>
inline Floats load_scales(ScaleType type, const void* from, int64_t i, N... n) {
  switch (type) {
    case ScaleType::float16: return load(static_cast<const Half*>(from) + i, n...);
    case ScaleType::bfloat16: return load(static_cast<const BFloat16*>(from) + i, n...);
    default: return load(static_cast<const float*>(from) + i, n...);
  }
}
inline float scale_at(ScaleType type, const void* from, int64_t i) {
  switch (type) {
    case ScaleType::float16: return static_cast<float>(static_cast<const Half*>(from)[i]);
    case ScaleType::bfloat16: return static_cast<float>(static_cast<const BFloat16*>(from)[i]);
    default: return static_cast<const float*>(from)[i];
  }
}
// Load up to a vector of scales of which `left` exist.
inline Floats load_some(ScaleType type, const void* from, int64_t i, int64_t left) {
  return left >= lanes<float> ? load_scales(type, from, i) : load_scales(type, from, i, left);
}

// Lane i of the result is lane index[i] of v.
inline Floats permuted(Floats v, Ints index) {
#if MPSGRAPH_VECTOR_BYTES == 64
  return _mm512_permutexvar_ps((__m512i)index, v);
#elif MPSGRAPH_VECTOR_BYTES == 32
  return _mm256_permutevar8x32_ps(v, (__m256i)index);
#elif defined(__aarch64__)
  const auto bytes = (uint8x16_t)(index * 0x04040404 + 0x03020100);
  return (Floats)vqtbl1q_u8((uint8x16_t)v, bytes);
#else
  Floats result;
  for (int i = 0; i < lanes<float>; ++i) result[i] = v[index[i]];
  return result;
#endif
}

}  // namespace
}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
