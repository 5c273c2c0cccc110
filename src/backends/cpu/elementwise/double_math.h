// Vectorized float64 functions, shared by the compiled tile functions and the code that jit/ generates (vector_math.h
// is the float32 counterpart).
//
// The template parameter P provides the elementary operations of an instruction set with fused multiply-add. The
// polynomials interpolate at Chebyshev nodes and were computed for this file. The errors stated with each function are
// in ulp, measured against the C library's long double. The result for an element is bitwise the same at every position
// in a vector.
#pragma once

#include <cstdint>
#include <limits>

#include "backends/cpu/elementwise/double_tables.h"

namespace mpsgraph::cpu {

template <class P>
struct DoubleMath {
  using V = typename P::V;
  using I = typename P::I;

  // e^x, 2^x, and 10^x with errors of at most 2 ulp. The argument is reduced by x = n ln 2 + r with |r| <= ln 2 / 2.
  // With tables, e^x uses x = (n / 16) ln 2 + r with |r| <= ln 2 / 32.
  static V exp(V x) {
    const V c = P::clamped(-746., x, 710.);
    if (P::has_tables()) return exp_by_table(c);
    const Exponential e = exponential(c);
    return P::times_power_of_two(e.rest + 1., e.n);
  }
  static V exp2(V x) {
    const V c = P::clamped(-1076., x, 1025.), n = nearest(c);
    return P::times_power_of_two(rest_of_exp((c - n) * 0x1.62e42fefa39efp-1) + 1., n);
  }
  static V exp10(V x) {
    const V c = P::clamped(-325., x, 310.), n = nearest(c * 0x1.a934f0979a371p+1);
    const V r = P::minus_product(P::minus_product(c, n, P::splat(log10_of_2)), n, P::splat(log10_of_2_rest));
    return P::times_power_of_two(rest_of_exp(r * 0x1.26bb1bbb55516p+1) + 1., n);
  }

  // ln x with an error of at most 1 ulp; log2 x and log10 x with errors of at most 2 ulp.
  static V log(V x) {
    const Reduced y = reduced(x);
    const V low = y.n * ln_2_rest;
    return P::logarithm(x, y.n * ln_2 - ((y.half_square - (y.s * (y.half_square + y.r) + low)) - y.f));
  }
  static V log2(V x) {
    const Reduced y = reduced(x);
    return P::logarithm(x, small_log(y) * 0x1.71547652b82fep+0 + y.n);
  }
  static V log10(V x) {
    const Reduced y = reduced(x);
    return P::logarithm(x, (small_log(y) * 0x1.bcb7b1526e50ep-2 + y.n * log10_of_2_rest) + y.n * log10_of_2);
  }

  // tanh x with an error of at most 3 ulp: t / (2 - t) with t = 1 - e^(-2|x|), where t is computed without cancellation
  // near 0.
  static V tanh(V x) {
    const V c = P::clamped(0., P::absolute(x), 20.);  // tanh rounds to 1 for larger |x|
    const Exponential e = exponential(c * -2.);
    const V scale = power_of_two(e.n), t = (P::splat(1.) - scale) - scale * e.rest;
    return P::with_sign_of(t / (P::splat(2.) - t), x);
  }

  // 1 / (1 + e^-x) with an error of at most 3 ulp.
  static V sigmoid(V x) { return P::splat(1.) / (exp(-x) + 1.); }
  static V sigmoid_gradient(V incoming, V x) {
    const V s = sigmoid(x);
    return incoming * s * (P::splat(1.) - s);
  }

  // erf x with an error of at most 2 ulp. With tables, erf is a polynomial in the distance to the nearest of sixteen
  // nodes. Without tables, it is a polynomial for |x| < 1; for larger |x|, it is 1 - e^(-x^2) times a polynomial in
  // (|x| - 3) / (|x| + 3).
  static V erf(V x) {
    const V a = P::absolute(x);
    if (P::has_tables()) return P::with_sign_of(erf_by_table(P::clamped(0., a, 15.25 * erf_spacing)), x);
    const V c = P::clamped(0., a, 6.), z = c * c;
    const V p =
        polynomial(z, -7.795898827002142e-10, 1.3720064546777686e-08, -1.6208483801871705e-07, 1.6447424703317362e-06,
                   -1.492473690741966e-05, 0.00012055294904839707, -0.0008548325975389692, 0.0052239776071164225,
                   -0.02686617064323777, 0.11283791670945006, -0.37612638903183543, 0.1283791670955126);
    const V t = (c - 3.) / (c + 3.);
    const V g = polynomial(t, 1.2801900862962662e-06, 2.023603179641757e-06, -8.008021319412685e-06,
                           -1.284889451252353e-05, 6.406182073530546e-05, 4.525472635483354e-05, -0.0005970623517093284,
                           0.0007077464443901538, 0.004269136347508256, -0.024392499318273194, 0.07166583719774874,
                           -0.15011593650078744, 0.24560380171233195, -0.32623356004303716, 0.17900115118138996);
    const V far = P::splat(1.) - exp(-z) * g;
    return P::with_sign_of(P::choose(P::less(a, P::splat(1.)), a + a * p, far), x);
  }

  // sinh x and cosh x with errors of at most 4 ulp. Both are computed from e^|x| / 2, which overflows only if the
  // result does; near 0, sinh is a polynomial.
  static V sinh(V x) {
    const V a = P::absolute(x), z = x * x, e = half_exp(a);
    const V p = polynomial(z, 7.746178593018827e-13, 1.6057679623801638e-10, 2.5052117695907823e-08,
                           2.7557319191381816e-06, 0.00019841269841324198, 0.008333333333333299, 0.16666666666666666);
    return P::choose(P::less(a, P::splat(1.)), p * z * x + x, P::with_sign_of(e - P::splat(0.25) / e, x));
  }
  static V cosh(V x) {
    const V e = half_exp(P::absolute(x));
    return e + P::splat(0.25) / e;
  }

  // arctan x with an error of at most 2 ulp. The argument is reduced to |t| <= tan(pi / 8).
  static V atan(V x) {
    const V a = P::absolute(x);
    const auto large = P::less(P::splat(tan_of_3_eighths), a), middle = P::less(P::splat(tan_of_eighth), a);
    const V upper = P::choose(large, P::splat(-1.), P::choose(middle, a - 1., a));
    const V lower = P::choose(large, a, P::choose(middle, a + 1., P::splat(1.)));
    const V base = P::choose(large, P::splat(half_pi), P::choose(middle, P::splat(half_pi / 2), P::splat(0.)));
    const V rest =
        P::choose(large, P::splat(half_pi_rest), P::choose(middle, P::splat(half_pi_rest / 2), P::splat(0.)));
    return P::with_sign_of(base + (small_atan(upper / lower) + rest), x);
  }

  // arcsin x and arccos x with errors of at most 3 ulp. For |x| > 1, the square root gives NaN.
  static V asin(V x) {
    const ReducedAsin y = reduced_asin(P::absolute(x));
    return P::with_sign_of(P::choose(y.large, P::splat(half_pi) - ((y.p + y.p) - half_pi_rest), y.p), x);
  }
  static V acos(V x) {
    const ReducedAsin y = reduced_asin(P::absolute(x));
    const auto negative = P::less(x, P::splat(0.));
    const V far = P::choose(negative, P::splat(2 * half_pi) - ((y.p + y.p) - 2 * half_pi_rest), y.p + y.p);
    const V near = P::splat(half_pi) - (P::choose(negative, -y.p, y.p) - half_pi_rest);
    return P::choose(y.large, far, near);
  }

  // x^y with an error of at most 2 ulp, for positive normal x with a normal result. ln x is computed as a sum of two
  // parts, the second of which holds the rounding error of the first. With s = f / (2 + f) as in Reduced, ln(1 + f) = 2
  // s + 2/3 s^3 + s^5 q(s^2). s and s^3 are also sums of two parts, so no error remains that a large exponent could
  // amplify.
  struct Power {
    V value, exponent;  // e^exponent, with the exponent rounded
  };
  static Power power(V x, V y) {
    constexpr double two_thirds = 0x1.5555555555555p-1, two_thirds_rest = 0x1.5555555555555p-55;
    const Reduced l = reduced(x);
    const V u = l.f + 2., s = l.f / u;
    const V s_low = (P::minus_product(l.f, s, u) - s * (l.f - (u - 2.))) / u;
    const V z = s * s, cube = s * z;
    const V z_low = s * s_low * 2. - P::minus_product(z, s, s);
    const V cube_low = s * z_low + s_low * z - P::minus_product(cube, s, z);
    const V q = polynomial(z, 0.11723063787600672, 0.11706247320841309, 0.13334804283783175, 0.15384594970057874,
                           0.18181818335322242, 0.22222222221656196, 0.28571428571429364, 0.4);
    const V third = cube * two_thirds;
    const V third_low =
        cube_low * two_thirds + cube * two_thirds_rest - P::minus_product(third, cube, P::splat(two_thirds));
    const V twice = s + s, whole_part = l.n * ln_2;  // both values are exact
    const V sum = whole_part + twice, log = sum + third;  // each operand is smaller than the preceding one
    const V low = ((whole_part - sum) + twice) + ((sum - log) + third) +
                  (third_low + s_low * 2. + l.n * ln_2_rest + cube * z * q);
    const V p = log * y, p_low = low * y - P::minus_product(p, log, y);
    const V exponent = p + p_low, n = nearest(exponent * 0x1.71547652b82fep+0);
    const V most = P::minus_product(P::minus_product(p, n, P::splat(ln_2)), n, P::splat(ln_2_rest)), r = most + p_low;
    return {P::times_power_of_two((rest_of_exp(r) + ((most - r) + p_low)) + 1., n), exponent};
  }

  // Evaluate a polynomial; coefficients are listed from the highest power down.
  template <class... Lower>
  static V polynomial(V x, double highest, Lower... lower) {
    V sum = P::splat(highest);
    ((sum = sum * x + lower), ...);
    return sum;
  }
  static V nearest(V x) { return (x + whole) - whole; }  // valid for |x| < 2^51

  // Default implementations of P::times_power_of_two and P::logarithm for processors without such instructions. The
  // exponent n may exceed the range of a single power-of-two factor. The logarithm of 0 is -inf and that of inf is inf;
  // negative numbers and NaN give NaN.
  static V times_power_of_two(V p, V n) {
    const V half = nearest(n * 0.5);
    return p * power_of_two(half) * power_of_two(n - half);
  }
  static V logarithm(V x, V r) {
    r = P::choose(P::equal(x, P::splat(0.)), P::splat(-infinity), r);
    r = P::choose(P::equal(x, P::splat(infinity)), x, r);
    return P::choose(P::less_or_equal(P::splat(0.), x), r, P::splat(std::numeric_limits<double>::quiet_NaN()));
  }

  // 2^52 + 2^51. Adding this constant to a number rounds it to an integer, which is then in the low bits of the sum.
  static constexpr double whole = 6755399441055744.;

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  static constexpr double ln_2 = 0x1.62e42fefap-1, ln_2_rest = 0x1.cf79abc9e3b3ap-40;
  static constexpr double half_pi = 0x1.921fb54442d18p+0, half_pi_rest = 0x1.1a62633145c07p-54;
  // Tangents of pi / 8 and 3 pi / 8, and the two parts of log10 2.
  static constexpr double tan_of_eighth = 0x1.a827999fcef32p-2, tan_of_3_eighths = 0x1.3504f333f9de6p+1;
  static constexpr double log10_of_2 = 0x1.34413509f79ffp-2, log10_of_2_rest = -0x1.9dc1da994fd21p-59;

  struct Exponential {
    V n, rest;  // e^x = 2^n (1 + rest)
  };
  static Exponential exponential(V x) {
    const V n = nearest(x * 0x1.71547652b82fep+0);
    return {n, rest_of_exp(P::minus_product(P::minus_product(x, n, P::splat(ln_2)), n, P::splat(ln_2_rest)))};
  }
  static V exp_by_table(V x) {
    const V near = x * 0x1.71547652b82fep+4 + whole, n = near - whole;  // the last four bits are the table index
    const V r = P::minus_product(P::minus_product(x, n, P::splat(ln_2 / 16)), n, P::splat(ln_2_rest / 16));
    const V q = polynomial(r, 0.00019841463826261545, 0.001388906347556763, 0.008333333332991954, 0.04166666666359425,
                           0.16666666666666669, 0.5000000000000001);
    const V power = P::look_up(power_table, near);
    // times_power_of_two uses only the integer part of n / 16.
    return P::times_power_of_two(power * (r + r * r * q) + power, n * (1. / 16));
  }
  static V rest_of_exp(V r) {  // e^r - 1
    const V q = polynomial(r, 2.5100424157005067e-08, 2.7620138719733994e-07, 2.7557268378684192e-06,
                           2.480152119021773e-05, 0.00019841269863105968, 0.0013888888917281794, 0.008333333333330051,
                           0.04166666666662399, 0.16666666666666669, 0.5);
    return r + r * r * q;
  }
  static V erf_by_table(V a) {
    const V near = a * (1 / erf_spacing) + whole;  // the last bits are the table index
    const V d = P::minus_product(a, near - whole, P::splat(erf_spacing));
    V sum = P::look_up(erf_table[erf_powers - 1], near);
    for (int power = erf_powers - 1; power-- > 0;) sum = sum * d + P::look_up(erf_table[power], near);
    return sum;
  }
  static V half_exp(V a) {
    const Exponential e = exponential(P::clamped(0., a, 711.));
    return P::times_power_of_two(e.rest + 1., e.n - 1.);
  }
  static V small_atan(V t) {
    const V z = t * t;
    const V p = polynomial(z, -0.019176872294336067, 0.039231646190551486, -0.05085449318930035, 0.05858148832731273,
                           -0.06664511438164644, 0.07692183190171728, -0.09090904578095735, 0.11111111015255669,
                           -0.14285714284666534, 0.1999999999999552, -0.3333333333333333);
    return p * z * t + t;
  }
  // Reduced argument for a >= 0: `large` is whether a > 1/2, and p is arcsin a or, if `large`, arcsin sqrt((1 - a) /
  // 2).
  struct ReducedAsin {
    typename P::M large;
    V p;
  };
  static ReducedAsin reduced_asin(V a) {
    const auto large = P::less(P::splat(0.5), a);
    const V z = P::choose(large, (P::splat(1.) - a) * 0.5, a * a);
    const V s = P::choose(large, P::sqrt(z), a);
    const V p = polynomial(z, 0.02875805719743414, -0.014852182118030889, 0.017401064081047784, 0.005457440499079528,
                           0.010322829371691055, 0.011479175171049853, 0.013971213196475301, 0.017352392706346254,
                           0.02237217294274726, 0.030381944138516817, 0.04464285714635561, 0.07499999999998433,
                           0.16666666666666669);
    return {large, p * z * s + s};
  }
  static V power_of_two(V n) {  // -1022 <= n <= 1023
    return P::from_bits(P::shift_left(P::bits(n + (whole + 1023)), 52));
  }

  // Reduction x = 2^n (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), and the terms of ln(1 + f), computed from s = f / (2 +
  // f).
  struct Reduced {
    V n, f, s, half_square, r;
  };
  static Reduced reduced(V x) {
    constexpr int64_t root = 0x3fe6a09e667f3bcd;  // bit pattern of sqrt(1/2)
    const auto tiny = P::less(x, P::splat(0x1p-1022));
    const I from_root = P::add(P::bits(P::choose(tiny, x * 0x1p54, x)), -root);
    const I above = P::shift_right(P::add(from_root, int64_t{1023} << 52), 52);  // n + 1023
    const V whole_n = P::from_bits(P::bitwise_or(above, int64_t{1075} << 52)) - (0x1p52 + 1023);
    const V f = P::from_bits(P::add(P::bitwise_and(from_root, 0xfffffffffffff), root)) - 1.;
    const V s = f / (f + 2.), z = s * s;
    const V r = z * polynomial(z, 0.14617807492803847, 0.15331611694570085, 0.18182892433364564, 0.22222211089368124,
                               0.2857142862625391, 0.3999999999989889, 0.666666666666667);
    return {P::choose(tiny, whole_n - 54., whole_n), f, s, f * f * 0.5, r};
  }
  static V small_log(const Reduced& y) { return y.f - (y.half_square - y.s * (y.half_square + y.r)); }
};

}  // namespace mpsgraph::cpu
