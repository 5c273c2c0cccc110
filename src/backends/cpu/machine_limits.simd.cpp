// Multiply-add loops that measure peak arithmetic.
#include "backends/cpu/machine_limits.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

// Number of independent chains of multiply-adds: enough to hide the latency of two FMA units, and few enough to fit in
// registers.
constexpr int chains = MPSGRAPH_VECTOR_BYTES == 64 ? 24 : MPSGRAPH_VECTOR_BYTES == 32 ? 12 : 10;

template <class Element>
double multiply_add(int64_t rounds) {
  using V = Vector<Element>;
  V sums[chains], factor = splat<V>(Element(0.999)), summand = splat<V>(Element(0.001));
#pragma GCC unroll 32
  for (int i = 0; i < chains; ++i) sums[i] = summand * Element(i);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 32
    for (int i = 0; i < chains; ++i) {
      sums[i] = sums[i] * factor + summand;
      // Pretend to modify the sum, so that the compiler cannot optimize the loop away.
#if defined(__x86_64__)
      asm volatile("" : "+v"(sums[i]));
#elif defined(__aarch64__)
      asm volatile("" : "+w"(sums[i]));
#endif
    }
  }
  V all = sums[0];
#pragma GCC unroll 32
  for (int i = 1; i < chains; ++i) all += sums[i];
  volatile Element used = all[0];
  (void)used;
  return 2.0 * chains * lanes<Element> * static_cast<double>(rounds);
}

}  // namespace

constinit const ArithmeticLoops arithmetic_loops{multiply_add<float>, multiply_add<double>};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
