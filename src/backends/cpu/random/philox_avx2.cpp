// Philox with AVX2: computes eight blocks at a time, each 32-bit word in a 64-bit lane, as the multiply instruction
// expects.
#include <immintrin.h>

#include <cstdint>

namespace mpsgraph::cpu::avx2 {

void philox_eight_blocks(uint32_t* words, uint64_t key, uint64_t counter_low, uint64_t counter_high, uint64_t step) {
  const auto s = static_cast<int64_t>(step);
  const __m256i multiplier0 = _mm256_set1_epi64x(0xD2511F53), multiplier1 = _mm256_set1_epi64x(0xCD9E8D57);
  for (int half = 0; half < 2; ++half, words += 16, counter_low += 4 * step) {
    // The upper 32 bits of a lane need not be cleared, because they never affect its low 32 bits.
    __m256i c0 =
        _mm256_add_epi64(_mm256_set1_epi64x(static_cast<int64_t>(counter_low)), _mm256_set_epi64x(3 * s, 2 * s, s, 0));
    __m256i c1 = _mm256_srli_epi64(c0, 32);
    __m256i c2 = _mm256_set1_epi64x(static_cast<int64_t>(counter_high)), c3 = _mm256_srli_epi64(c2, 32);
    auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      const __m256i p0 = _mm256_mul_epu32(c0, multiplier0), p1 = _mm256_mul_epu32(c2, multiplier1);
      c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c1), _mm256_set1_epi64x(k0));
      c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c3), _mm256_set1_epi64x(k1));
      c1 = p1, c3 = p0;
    }
    // Lane b of each vector holds one word of block b. Combine pairs of words into 64 bits, and then pairs of lanes
    // into blocks.
    const __m256i low = _mm256_blend_epi32(c0, _mm256_slli_epi64(c1, 32), 0xAA);
    const __m256i high = _mm256_blend_epi32(c2, _mm256_slli_epi64(c3, 32), 0xAA);
    // even: blocks 0 and 2; odd: blocks 1 and 3
    const __m256i even = _mm256_unpacklo_epi64(low, high), odd = _mm256_unpackhi_epi64(low, high);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words) + 1, _mm256_permute2x128_si256(even, odd, 0x31));
  }
}

}  // namespace mpsgraph::cpu::avx2
