// The epilogue of the 8-bit integer micro-kernels with AVX-512 (convolution_tiles_*int8_avx512.cpp).
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "backends/cpu/convolution/convolution_integers.h"

namespace mpsgraph::cpu::avx512 {

inline __m512 bytes_as_floats(const std::byte* from, __mmask16 mask, bool is_signed) {
  const __m128i bytes = _mm_maskz_loadu_epi8(mask, from);
  return _mm512_cvtepi32_ps(is_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes));
}

// Apply the epilogue to sixteen sums and store the results selected by the mask.
inline void finish(__m512i sum, int at, __mmask16 mask, std::byte* out, const IntegerEpilogue& e, int row) {
  if (e.result == IntegerResult::int32) {
    if (e.row_terms)
      sum = _mm512_add_epi32(sum, _mm512_mullo_epi32(_mm512_set1_epi32(e.row_terms[row]),
                                                     _mm512_maskz_loadu_epi32(mask, e.column_terms + at)));
    return _mm512_mask_storeu_epi32(reinterpret_cast<int32_t*>(out) + at, mask, sum);
  }
  __m512 v = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_maskz_loadu_ps(mask, e.scale + at),
                             _mm512_maskz_loadu_ps(mask, e.bias + at));
  if (e.has_residual)
    v = _mm512_fmadd_ps(bytes_as_floats(out + at + e.residual, mask, e.residual_is_signed),
                        _mm512_set1_ps(e.residual_scale), v);
  // _mm512_max_ps returns its second operand if either is NaN, so NaN is preserved
  if (e.relu) v = _mm512_max_ps(_mm512_setzero_ps(), v);
  if (e.result == IntegerResult::float32) return _mm512_mask_storeu_ps(reinterpret_cast<float*>(out) + at, mask, v);
  constexpr float far = 1 << 20;  // exact in float, and beyond the range of all 8-bit types
  v = _mm512_max_ps(_mm512_min_ps(v, _mm512_set1_ps(far)), _mm512_set1_ps(-far));
  const __m512i steps = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(e.zero_point));
  if (e.result == IntegerResult::int8) return _mm512_mask_cvtsepi32_storeu_epi8(out + at, mask, steps);
  _mm512_mask_cvtusepi32_storeu_epi8(out + at, mask, _mm512_max_epi32(steps, _mm512_setzero_si512()));
}

// Apply the epilogue to the sums of a row and store the first `width` results.
[[gnu::always_inline]] inline void finish_row(__m512i low, __m512i high, int width, std::byte* out,
                                              const IntegerEpilogue& epilogue, int row) {
  constexpr int half = 16;
  const auto all = (uint64_t{1} << width) - 1;
  finish(low, 0, static_cast<__mmask16>(all), out, epilogue, row);
  if (width > half) finish(high, half, static_cast<__mmask16>(all >> half), out, epilogue, row);
}

}  // namespace mpsgraph::cpu::avx512
