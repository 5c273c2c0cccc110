// Peak arithmetic of the bfloat16 and 8-bit extensions of AVX-512.
#include <immintrin.h>

#include "backends/cpu/machine_limits.h"

namespace mpsgraph::cpu::avx512 {
namespace {

constexpr int chains = 24;  // independent chains, as in machine_limits.simd.cpp

}  // namespace

// All loops over chains are unrolled, including the initialization, because the compiler would keep an array that is
// indexed by a variable in memory instead of registers.

__attribute__((target("avx512bf16"))) double bfloat16_loop(int64_t rounds) {
  const __m512bh ones = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1), _mm512_set1_ps(1));
  __m512 sums[chains];
#pragma GCC unroll 32
  for (int i = 0; i < chains; ++i) sums[i] = _mm512_setzero_ps();
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 32
    for (int i = 0; i < chains; ++i) {
      sums[i] = _mm512_dpbf16_ps(sums[i], ones, ones);
      asm volatile("" : "+v"(sums[i]));
    }
  }
  return 2.0 * chains * 32 * static_cast<double>(rounds);
}

__attribute__((target("avx512vnni"))) double integer_loop(int64_t rounds) {
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i sums[chains];
#pragma GCC unroll 32
  for (int i = 0; i < chains; ++i) sums[i] = _mm512_setzero_si512();
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 32
    for (int i = 0; i < chains; ++i) {
      sums[i] = _mm512_dpbusd_epi32(sums[i], ones, ones);
      asm volatile("" : "+v"(sums[i]));
    }
  }
  return 2.0 * chains * 64 * static_cast<double>(rounds);
}

}  // namespace mpsgraph::cpu::avx512
