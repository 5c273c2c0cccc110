// Functions of tile_functions_float.simd.cpp whose fast path is valid only for ordinary arguments. For a vector that
// contains any other argument, they call the standard library, element by element. The baseline instruction set always
// uses the standard library, because it lacks the fused multiply-add that keeps the remainders exact.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "backends/cpu/elementwise/vector_steps.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

template <float (*f)(float)>
inline V each(V x) {
  V r;
  for (int i = 0; i < W; i++) r[i] = f(x[i]);
  return r;
}
template <float (*f)(float, float)>
inline V each(V x, V y) {
  V r;
  for (int i = 0; i < W; i++) r[i] = f(x[i], y[i]);
  return r;
}

// Replace subnormals with 0. The processor treats subnormals as zeros, but C libraries that compute remainders from the
// bits do not. Flushing subnormals first makes the results of all libraries agree.
inline V flushed(V x) { return select(x == 0.f, with_sign_of(V{}, x), x); }
inline V library_modulo(V a, V b) { return each<::fmodf>(flushed(a), flushed(b)); }

#if !MPSGRAPH_IS_BASELINE

// Reduction x = n pi / 2 + r. For n < 2^20, the error of r is no larger than that of rounding r once.
struct Quadrant {
  I n;
  V sine, cosine;  // sine and cosine of r
};
inline Quadrant quadrant(V x) {
  const V n = Steps::nearest(x * 0.6366197723675814f);
  V r = less_product(x, n, splat(1.5707963705062866f));
  r = less_product(r, n, splat(-4.371138828673793e-08f));
  r = less_product(r, n, splat(-1.7150994166548195e-15f));
  const V z = r * r;
  V s = z * 2.72433931058913e-06f - 0.00019840034656226635f;
  s = s * z + 0.008333331905305386f;
  s = s * z - 0.1666666716337204f;
  V c = z * 2.4538896468584426e-05f - 0.0013888247776776552f;
  c = c * z + 0.0416666641831398f;
  return {to_int(n), s * z * r + r, c * (z * z) - z * 0.5f + 1.f};
}
inline V sine_of(const Quadrant& q, I n) {
  return as_float(as_int(select((n & 1) != 0, q.cosine, q.sine)) ^ ((n & 2) << 30));
}
inline bool turns(V x) { return every(absolute(x) < 1e6f); }
inline V sine(V x) {  // the error is at most 2 ulp
  if (!turns(x)) return each<::sinf>(x);
  const Quadrant q = quadrant(x);
  return select(x == 0.f, x, sine_of(q, q.n));  // returns -0 for -0
}
inline V cosine(V x) {
  if (!turns(x)) return each<::cosf>(x);
  const Quadrant q = quadrant(x);
  return sine_of(q, q.n + 1);
}
inline V tangent(V x) {  // the error is at most 4 ulp
  if (!turns(x)) return each<::tanf>(x);
  const Quadrant q = quadrant(x);
  return select((q.n & 1) != 0, -q.cosine / q.sine, q.sine / q.cosine);
}

// Compute the exact remainder with the sign of the dividend. The rounded quotient is off by at most one, which is
// corrected afterwards. Infinite divisors use the C library, because the product of an infinite divisor and the
// quotient 0 would be NaN.
inline V modulo(V a, V b) {
  const V x = absolute(a), y = absolute(b), quotient = x / y;
  if (!every((quotient < 4194304.f) & (y < splat(std::numeric_limits<float>::infinity())))) return library_modulo(a, b);
  V r = less_product(x, to_float(to_int(quotient)), y);
  r = select(r < 0.f, r + y, r);
  r = select(r >= y, r - y, r);
  return with_sign_of(absolute(r), a);
}

// Compute a^b = 2^(b log2 a) in double precision, with an error of at most 1 ulp.
using HalfVector = Vector<float, MPSGRAPH_VECTOR_BYTES / 2>;
using Longs = Vector<uint64_t>;

inline HalfVector power(HalfVector a, HalfVector b, bool& ordinary) {
  constexpr uint64_t root_half = 0x3fe6a09e667f3bcd, bias = uint64_t{1023} << 52;
  constexpr double whole = 6755399441055744.0;  // adding this constant rounds to an integer in the low bits
  const Doubles x = __builtin_convertvector(a, Doubles), y = __builtin_convertvector(b, Doubles);
  const Longs shifted = (Longs)x - root_half + bias;
  const Doubles mantissa = (Doubles)((shifted & 0xfffffffffffff) + root_half);
  const Doubles exponent = (Doubles)((shifted >> 52) + 0x4338000000000000) - (whole + 1023.0);
  const Doubles s = (mantissa - 1.0) / (mantissa + 1.0), z = s * s;  // ln m = 2 artanh s
  Doubles p = z * (1.0 / 11) + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  p = p * z + 1.0;
  const Doubles t = y * (exponent + p * s * 2.8853900817779268);
  ordinary = true;
  for (int i = 0; i < W / 2; i++) ordinary &= __builtin_fabs(t[i]) < 125.0;
  const Doubles n = t + whole, r = t - (n - whole);
  Doubles q = r * 1.5252733804059841e-05 + 1.5403530393381608e-04;
  q = q * r + 1.3333558146428443e-03;
  q = q * r + 9.6181291076284772e-03;
  q = q * r + 5.5504108664821580e-02;
  q = q * r + 2.4022650695910072e-01;
  q = q * r + 6.9314718055994531e-01;
  q = q * r + 1.0;
  return __builtin_convertvector(q * (Doubles)(((Longs)n + 1023) << 52), HalfVector);
}
inline V power(V a, V b) {
  if (every((a > 1.17549435e-38f) & (a < 3e38f))) {
    HalfVector parts[2][2], result[2];
    std::memcpy(parts[0], &a, sizeof a);
    std::memcpy(parts[1], &b, sizeof b);
    bool ordinary[2];
    for (int i = 0; i < 2; i++) result[i] = power(parts[0][i], parts[1][i], ordinary[i]);
    if (ordinary[0] && ordinary[1]) {
      V both;
      std::memcpy(&both, result, sizeof both);
      return both;
    }
  }
  return each<::powf>(a, b);
}

#else

inline V sine(V x) { return each<::sinf>(x); }
inline V cosine(V x) { return each<::cosf>(x); }
inline V tangent(V x) { return each<::tanf>(x); }
inline V modulo(V a, V b) { return library_modulo(a, b); }
inline V power(V a, V b) { return each<::powf>(a, b); }

#endif

inline V floor_modulo(V a, V b) {  // the result has the sign of the divisor
  const V r = modulo(a, b);
  return select((r != 0.f) & ((r < 0.f) != (b < 0.f)), r + b, r);
}

}  // namespace
}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
