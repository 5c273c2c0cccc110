// The elementary operations of VectorMath on float32 vectors, for vector kernels that compute transcendental functions.
#pragma once

#include "backends/cpu/elementwise/vector_math.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

constexpr int W = lanes<float>;
using V = Floats;
using I = Ints;

struct Steps {
  using V = MPSGRAPH_ISA::V;
  using I = MPSGRAPH_ISA::I;
  using M = MPSGRAPH_ISA::I;
  static V splat(float x) { return MPSGRAPH_ISA::splat<V>(x); }
  static V least(V a, V b) { return MPSGRAPH_ISA::least(a, b); }
  static V greatest(V a, V b) { return MPSGRAPH_ISA::greatest(a, b); }
  static V absolute(V x) { return MPSGRAPH_ISA::absolute(x); }
  static V with_sign_of(V magnitude, V sign) { return MPSGRAPH_ISA::with_sign_of(magnitude, sign); }
  static V nearest(V x) { return (x + 12582912.f) - 12582912.f; }  // valid for |x| < 2^22
#if MPSGRAPH_VECTOR_BYTES == 64
  static V times_power_of_two(V p, V n) { return (V)_mm512_scalef_ps((__m512)p, (__m512)n); }
#else
  static V times_power_of_two(V p, V n) {  // multiplies by two factors, so that denormal results are correct
    const I k = to_int(n), half = k >> 1;
    return p * as_float((half + 127) << 23) * as_float((k - half + 127) << 23);
  }
#endif
  static bool has_reciprocals() { return MPSGRAPH_VECTOR_BYTES == 64; }
  static V near_quotient(V x, V y) {
#if MPSGRAPH_VECTOR_BYTES == 64
    const V r = _mm512_rcp14_ps(y);
    return x * (r + r * (splat(1.f) - y * r));  // a Newton iteration improves the estimate from 14 to 28 bits
#else
    return x / y;
#endif
  }
  static auto parts(V x) { return VectorMath<Steps>::parts(x); }
  static V logarithm(V x, V r) { return VectorMath<Steps>::logarithm(x, r); }
  static I less(V a, V b) { return a < b; }
  static I less_or_equal(V a, V b) { return a <= b; }
  static I equal(V a, V b) { return a == b; }
  static M ordered(V a, V b) { return (a == a) & (b == b); }
  static M negative(V x) { return as_int(x) < 0; }  // also true for -0
  static V sqrt(V x) { return MPSGRAPH_ISA::sqrt(x); }
  static V choose(I mask, V a, V b) { return mask ? a : b; }
  static I bits(V x) { return as_int(x); }
  static V from_bits(I x) { return as_float(x); }
  static I add(I x, int32_t y) { return x + y; }
  static I bitwise_and(I x, int32_t y) { return x & y; }
  static I shift_left(I x, int count) { return x << count; }
  static I shift_right(I x, int count) { return x >> count; }
  static V to_float(I x) { return MPSGRAPH_ISA::to_float(x); }
};
using Math = VectorMath<Steps>;

}  // namespace
}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
