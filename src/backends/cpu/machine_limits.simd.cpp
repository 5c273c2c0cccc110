// Multiply-add loops that measure peak arithmetic.
#include "backends/cpu/machine_limits.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

// Number of independent chains of multiply-adds: enough to hide the latency of two FMA units, and few enough to fit in
// registers.
constexpr int chains = vector_registers == 32 ? 24 : MPSGRAPH_IS_BASELINE ? 10 : 12;

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
      hide(sums[i]);
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
