// float64 functions in vectors.
// Instruction sets: avx2, avx512.
//
// These are loops around the functions of double_math.h, as well as sine, cosine, and power. The C library computes
// sines and cosines of arguments far from 0, and powers whose operands or results are outside the range of the
// vectorized function.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "backends/cpu/elementwise/double_functions.h"
#include "backends/cpu/elementwise/double_math.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

constexpr int W = lanes<double>;
using V = Doubles;
using I = Vector<int64_t>;
using U = Vector<uint64_t>;

struct Steps {
  using V = MPSGRAPH_ISA::V;
  using I = MPSGRAPH_ISA::I;
  using M = MPSGRAPH_ISA::I;
  static V splat(double x) { return MPSGRAPH_ISA::splat<V>(x); }
  static I bits(V x) { return reinterpret_cast<I>(x); }
  static V from_bits(I x) { return reinterpret_cast<V>(x); }
  static V absolute(V x) { return from_bits(bits(x) & INT64_MAX); }
  static V with_sign_of(V x, V sign) { return from_bits(bits(x) | (bits(sign) & INT64_MIN)); }
  static I less(V a, V b) { return a < b; }
  static I less_or_equal(V a, V b) { return a <= b; }
  static I equal(V a, V b) { return a == b; }
  static V choose(I mask, V a, V b) { return mask ? a : b; }
  static I add(I x, int64_t y) { return x + y; }
  static I bitwise_and(I x, int64_t y) { return x & y; }
  static I bitwise_or(I x, int64_t y) { return x | y; }
  static I shift_left(I x, int count) { return x << count; }
  static I shift_right(I x, int count) { return reinterpret_cast<I>(reinterpret_cast<U>(x) >> count); }
  static V minus_product(V x, V a, V b) { return less_product(x, a, b); }
  // Clamp x to [low, high]; preserve NaN.
  static V clamped(double low, V x, double high) { return greatest(splat(low), least(splat(high), x)); }
  static V logarithm(V x, V r) { return DoubleMath<Steps>::logarithm(x, r); }
#if MPSGRAPH_VECTOR_BYTES == 64
  static V times_power_of_two(V p, V n) { return _mm512_scalef_pd(p, n); }
  static constexpr bool has_tables() { return true; }
  // Look up one entry of a 16-entry table per lane, indexed by the low bits of the lane.
  static V look_up(const double* table, V place) {
    return _mm512_permutex2var_pd(_mm512_load_pd(table), reinterpret_cast<__m512i>(place), _mm512_load_pd(table + 8));
  }
#else
  static V times_power_of_two(V p, V n) { return DoubleMath<Steps>::times_power_of_two(p, n); }
  static constexpr bool has_tables() { return false; }
  static V look_up(const double*, V place) { return place; }  // never called, because has_tables() is false
#endif
};
using Math = DoubleMath<Steps>;
constexpr double whole = Math::whole;

struct Exponent {
  static V apply(V x) { return Math::exp(x); }
};
struct Logarithm {
  static V apply(V x) { return Math::log(x); }
};
struct Tanh {
  static V apply(V x) { return Math::tanh(x); }
};
struct Sigmoid {
  static V apply(V x) { return Math::sigmoid(x); }
};
struct Erf {
  static V apply(V x) { return Math::erf(x); }
};

// Compute sine or cosine with an error of at most 1 ulp, from x = n pi / 2 + r + low with |r| <= pi / 4.
template <int quarter>
V turned(V x) {
  const V n = (x * 0x1.45f306dc9c883p-1 + whole) - whole;
  // pi / 2 is split into three parts, because x may be so close to a multiple of pi / 2 that two parts would leave no
  // correct digits. The second part has 33 bits, so its products with n are exact and the rounding error of r can be
  // recovered.
  const V near = Steps::minus_product(x, n, splat<V>(0x1.921fb54442d18p+0)), second = n * 0x1.1a62633100000p-54,
          r = near - second;
  const V low = Steps::minus_product((near - r) - second, n, splat<V>(0x1.1701b839a2520p-88));
  const V z = r * r;
  const V sine = Math::polynomial(z, 1.5917848524808262e-10, -2.5051127944014188e-08, 2.755731608381636e-06,
                                  -0.00019841269836722418, 0.008333333333330925, -0.16666666666666666);
  const V cosine = Math::polynomial(z, -1.1382456778061306e-11, 2.0876143827993133e-09, -2.7557317260008837e-07,
                                    2.480158729874307e-05, -0.0013888888888887382, 0.041666666666666664);
  const V s = r + (z * r * sine + low * (1. - z * 0.5));
  const V one = 1. - z * 0.5;
  const V c = one + (((1. - one) - z * 0.5) + (z * z * cosine - r * low));
  const I turn = Steps::bits(n + whole) + quarter;
  const V y = (turn & 1) == 0 ? s : c;
  return Steps::from_bits(Steps::bits(y) ^ ((turn & 2) << 62));
}
template <int quarter, double (*exact)(double)>
V sine_or_cosine(V x) {
  constexpr double far = 0x1p19;  // for larger |x|, n pi / 2 would need more parts
  V y = turned<quarter>(x);
  const I beyond = Steps::absolute(x) > far;
  if (any(beyond))
    for (int i = 0; i < W; ++i)
      if (beyond[i]) y[i] = exact(x[i]);
  return y;
}
struct Sine {
  static V apply(V x) { return x == 0. ? x : sine_or_cosine<0, std::sin>(x); }  // returns -0 for -0
};
struct Cosine {
  static V apply(V x) { return sine_or_cosine<1, std::cos>(x); }
};

template <class F>
void loop(void* out, const void* const* in, int64_t n) {
  const double* x = static_cast<const double*>(in[0]);
  double* y = static_cast<double*>(out);
  int64_t i = 0;
  for (; i + 2 * W <= n; i += 2 * W) {  // two vectors at a time hide the latency of long polynomials
    const V a = F::apply(load(x + i)), b = F::apply(load(x + i + W));
    store(y + i, a);
    store(y + i + W, b);
  }
  for (; i + W <= n; i += W) store(y + i, F::apply(load(x + i)));
  if (i < n) store(y + i, F::apply(load(x + i, n - i)), n - i);
}

double flushed(double x) { return x == 0 ? std::copysign(0., x) : x; }  // replaces subnormals with 0
V power(V x, V y) {
  const auto [value, exponent] = Math::power(x, y);
  V result = value;
  constexpr double largest = std::numeric_limits<double>::max();
  const I known =
      (x >= 0x1p-1022) & (x <= largest) & (Steps::absolute(y) <= largest) & (Steps::absolute(exponent) < 708.);
  if (any(~known))
    for (int i = 0; i < W; ++i)
      if (!known[i]) result[i] = std::pow(flushed(x[i]), flushed(y[i]));
  return result;
}
template <ScalarMask single>
void powers(void* out, const void* const* in, int64_t n) {
  const double *x = static_cast<const double*>(in[0]), *y = static_cast<const double*>(in[1]);
  double* z = static_cast<double*>(out);
  const auto step = [&](int64_t i, auto... rest) {
    V a = splat<V>(single & 1 ? *x : 1.), b = splat<V>(single & 2 ? *y : 1.);
    if constexpr (!(single & 1)) a = load(x + i, rest...);
    if constexpr (!(single & 2)) b = load(y + i, rest...);
    store(z + i, power(a, b), rest...);
  };
  for_lanes<double>(n, step);
}

}  // namespace

constinit const DoubleFunctions double_functions{
    loop<Exponent>, loop<Logarithm>, loop<Tanh>, loop<Sigmoid>,
    loop<Sine>,     loop<Cosine>,    loop<Erf>,  {powers<0>, powers<1>, powers<2>, powers<3>}};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
