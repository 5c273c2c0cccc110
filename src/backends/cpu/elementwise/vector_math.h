// Vectorized float32 functions, shared by the compiled tile functions and the code that jit/ generates.
//
// The template parameter P provides the elementary operations of an instruction set: types V (floats), I (integers),
// and M (masks), arithmetic operators between V and V or float, and the static functions used below. For 2^-126 <= |y|
// < 2^126, the error of near_quotient(x, y) may be 1 ulp larger than that of x / y; near_quotient uses a reciprocal if
// the processor has_reciprocals(). The polynomials are least-squares fits at Chebyshev nodes, computed for this file.
// The errors stated with each function are in ulp, measured against double over the whole range.
#pragma once

#include <cmath>
#include <limits>

namespace mpsgraph::cpu {

template <class P>
struct VectorMath {
  using V = typename P::V;
  using I = typename P::I;

  // e^x with an error of at most 2 ulp. The argument is reduced by x = n ln 2 + r with |r| <= ln 2 / 2.
  static V exp(V x) {
    // P::greatest and P::least return their second operand if either is NaN, so NaN is preserved
    const V c = P::greatest(P::splat(-104.f), P::least(P::splat(89.f), x));
    const V n = P::nearest(c * 1.44269504f);
    const V r = (c - n * 0.693359375f) + n * 2.12194440e-4f;
    return P::times_power_of_two(small_exp(r), n);
  }

  // 2^x with an error of at most 2 ulp.
  static V exp2(V x) {
    const V c = P::greatest(P::splat(-151.f), P::least(P::splat(129.f), x));
    const V n = P::nearest(c), r = c - n;
    V p = r * 1.5310311937355436e-05f + 0.00015461679140571505f;
    p = p * r + 0.0013333454262465239f;
    p = p * r + 0.009618056006729603f;
    p = p * r + 0.05550410971045494f;
    p = p * r + 0.24022650718688965f;
    p = p * r + 0.6931471824645996f;
    return P::times_power_of_two(p * r + 1.f, n);
  }

  // 10^x with an error of at most 3 ulp. The argument is reduced by x = n log10 2 + r.
  static V exp10(V x) {
    const V c = P::greatest(P::splat(-46.f), P::least(P::splat(39.f), x));
    const V n = P::nearest(c * 3.321928094887362f);
    const V r = (c - n * 0.30102539f) - n * 4.6050390e-6f;
    return P::times_power_of_two(small_exp(r * 2.302585092994046f), n);
  }

  // ln x with an error of at most 2 ulp.
  static V log(V x) {
    const Reduced y = reduced(x);
    const V square = y.f * y.f;
    const V r = y.p * square * y.f + y.n * -2.12194440e-4f;
    return P::logarithm(x, r - square * 0.5f + y.f + y.n * 0.693359375f);
  }
  // log2 x with an error of at most 3 ulp.
  static V log2(V x) {
    const Reduced y = reduced(x);
    return P::logarithm(x, small_log(y) * 1.4426950408889634f + y.n);
  }
  // log10 x with an error of at most 3 ulp.
  static V log10(V x) {
    const Reduced y = reduced(x);
    return P::logarithm(x, (small_log(y) * 0.4342944819032518f + y.n * 4.6050390e-6f) + y.n * 0.30102539f);
  }
  // ln(1 + x) with an error of at most 4 ulp; the rounding error of 1 + x is added back.
  static V log1p(V x) {
    const V w = x + 1.f;
    const V lost = P::choose(P::less(w, P::splat(infinity)), ((w - 1.f) - x) / w, P::splat(0.f));
    return log(w) - lost;
  }

  // erf x, with an error of at most 6 ulp and 3.5e-7: x P(x^2) / Q(x^2) for |x| <= 3.93. For larger |x|, P / Q stays 1
  // / 3.93, so the quotient exceeds 1 in magnitude and is clamped to [-1, 1]. A reciprocal costs less than the six
  // extra multiply-adds of a pure polynomial.
  static V erf(V x) {
    const V t = P::least(P::splat(15.4449f), x * x);  // least returns its second operand for NaN, so NaN is preserved
    V p = t * 2.041949983322411e-06f + 0.00028480842593126f;
    p = p * t + 0.0037796497344970703f;
    p = p * t + 0.05279042199254036f;
    p = p * t + 0.19078491628170013f;
    p = p * t + 1.1283791065216064f;
    V q = t * 3.80038472940214e-05f + 0.001165220164693892f;
    q = q * t + 0.014997524209320545f;
    q = q * t + 0.11425796151161194f;
    q = q * t + 0.502411425113678f;
    q = q * t + 1.f;
    return P::greatest(P::splat(-1.f), P::least(P::splat(1.f), P::near_quotient(x * p, q)));
  }

  // tanh x with an error of at most 3 ulp: h / (h + 1) with h = (e^(2x) - 1) / 2 = 2^n q + (2^n - 1) / 2, where 2 x = n
  // ln 2 + 2 r and q = (e^(2r) - 1) / 2, which is computed without cancellation near 0. For |x| > 9.1, tanh is 1 in
  // magnitude.
  static V tanh(V x) {
    // P::least returns its second operand if either is NaN, so NaN is preserved
    const V c = P::least(P::splat(9.1f), P::absolute(x));
    constexpr float shift = 12582912.f + 127.f;  // adding this constant rounds to an integer in the low bits
    const V shifted = c * 2.88539008f + shift, n = shifted - shift;
    const V r = (c - n * 0.3466796875f) + n * 1.06097221e-4f;
    V p = r * 0.04442404583096504f + 0.13386476039886475f;
    p = p * r + 0.33333760499954224f;
    p = p * r + 0.6666617393493652f;
    p = p * r + 0.9999999403953552f;
    const V scale = P::from_bits(P::shift_left(P::bits(shifted), 23));
    const V h = (p * (r * r) + r) * scale + (scale * 0.5f - 0.5f);
    return P::with_sign_of(P::least(P::splat(1.f), P::near_quotient(h, h + 1.f)), x);
  }

  // sinh x and cosh x with errors of at most 4 ulp.
  static V sinh(V x) {
    const V a = P::absolute(x), t = x * x;
    V p = t * 2.8063514037057757e-06f + 0.00019838090520352125f;
    p = p * t + 0.008333339355885983f;
    p = p * t + 0.1666666716337204f;
    const V e = half_exp(a);
    return P::choose(P::less(a, P::splat(1.f)), p * t * x + x, P::with_sign_of(e - P::splat(0.25f) / e, x));
  }
  static V cosh(V x) {
    const V e = half_exp(P::absolute(x));
    return e + P::splat(0.25f) / e;
  }

  // arctan x with an error of at most 3 ulp. The argument is reduced to |t| <= tan(pi / 8).
  static V atan(V x) {
    const V a = P::absolute(x);
    const auto large = P::less(P::splat(2.41421356f), a), middle = P::less(P::splat(0.41421356f), a);
    const V upper = P::choose(large, P::splat(-1.f), P::choose(middle, a - 1.f, a));
    const V lower = P::choose(large, a, P::choose(middle, a + 1.f, P::splat(1.f)));
    const V base = P::choose(large, P::splat(half_pi), P::choose(middle, P::splat(half_pi / 2), P::splat(0.f)));
    return P::with_sign_of(base + small_atan(upper / lower), x);
  }
  // The angle of the point (x, y) with an error of at most 4 ulp.
  static V atan2(V y, V x) {
    const V ay = P::absolute(y), ax = P::absolute(x);
    const auto steep = P::less(ax, ay);
    const V least = P::choose(steep, ax, ay), most = P::choose(steep, ay, ax);
    // equal operands give 1, even if both are infinite
    V t = P::choose(P::equal(least, most), P::splat(1.f), least / most);
    t = P::choose(P::equal(most, P::splat(0.f)), P::splat(0.f), t);
    const auto middle = P::less(P::splat(0.41421356f), t);
    V r = small_atan(P::choose(middle, (t - 1.f) / (t + 1.f), t)) +
          P::choose(middle, P::splat(half_pi / 2), P::splat(0.f));
    r = P::choose(steep, P::splat(half_pi) - r, r);
    r = P::choose(P::negative(x), P::splat(2 * half_pi) - r, r);
    return P::choose(P::ordered(x, y), P::with_sign_of(r, y), x + y);
  }

  // arcsin x and arccos x with errors of at most 3 ulp. For |x| > 1, the square root gives NaN.
  static V asin(V x) {
    const auto [large, p] = reduced_asin(P::absolute(x));
    return P::with_sign_of(P::choose(large, (P::splat(half_pi) - (p + p)) + half_pi_rest, p), x);
  }
  static V acos(V x) {
    const auto [large, p] = reduced_asin(P::absolute(x));
    const auto negative = P::negative(x);
    const V far = P::choose(negative, (P::splat(2 * half_pi) - (p + p)) + 2 * half_pi_rest, p + p);
    const V near = P::splat(half_pi) - P::choose(negative, -p, p) + half_pi_rest;
    return P::choose(large, far, near);
  }

  // arsinh x, arcosh x, and artanh x with errors of at most 5 ulp.
  static V asinh(V x) {
    const V a = P::absolute(x), square = a * a;
    const V usual = log1p(a + square / (P::sqrt(square + 1.f) + 1.f));
    return P::with_sign_of(P::choose(P::less(P::splat(1e9f), a), log(a) + 0.69314718f, usual), x);
  }
  static V acosh(V x) {
    const V t = x - 1.f;
    const V usual = log1p(t + P::sqrt(t * t + t * 2.f));
    const V r = P::choose(P::less(P::splat(1e9f), x), log(x) + 0.69314718f, usual);
    return P::choose(P::less(x, P::splat(1.f)), P::splat(std::numeric_limits<float>::quiet_NaN()), r);
  }
  static V atanh(V x) {
    const V a = P::absolute(x);
    return P::with_sign_of(log1p((a + a) / (P::splat(1.f) - a)) * 0.5f, x);
  }

  // Default implementations of P::parts and P::logarithm for processors without such instructions. P::parts returns n
  // and m with x = 2^n m and m in [3/4, 3/2). P::logarithm returns the given result if x is positive and finite;
  // otherwise, the logarithm of 0 is -inf, that of inf is inf, and negative numbers and NaN give NaN.
  struct Parts {
    V n, mantissa;
  };
  static Parts parts(V x) {
    const auto tiny = P::less(x, P::splat(1.17549435e-38f));
    const I bits = P::add(P::bits(P::choose(tiny, x * 8388608.f, x)), -three_quarters);
    return {P::to_float(P::shift_right(bits, 23)) - P::choose(tiny, P::splat(23.f), P::splat(0.f)),
            P::from_bits(P::add(P::bitwise_and(bits, 0x7fffff), three_quarters))};
  }
  static V logarithm(V x, V r) {
    r = P::choose(P::equal(x, P::splat(0.f)), P::splat(-infinity), r);
    r = P::choose(P::equal(x, P::splat(infinity)), x, r);
    return P::choose(P::less_or_equal(P::splat(0.f), x), r, P::splat(std::numeric_limits<float>::quiet_NaN()));
  }

  // 1 / (1 + e^-x) with an error of at most 3 ulp. near_quotient is called for |x|, so that its divisor is in [1, 2].
  static V sigmoid(V x) {
    if (!P::has_reciprocals()) return P::splat(1.f) / (exp(-x) + 1.f);
    const V e = exp(-P::absolute(x));
    return P::near_quotient(P::choose(P::less(x, P::splat(0.f)), e, P::splat(1.f)), e + 1.f);
  }
  static V sigmoid_gradient(V incoming, V x) {
    const V s = sigmoid(x);
    return incoming * s * (P::splat(1.f) - s);
  }

 private:
  static constexpr float infinity = std::numeric_limits<float>::infinity();
  static constexpr int32_t three_quarters = 0x3f400000;  // bit pattern of 0.75
  static constexpr float half_pi = 1.5707963705062866f, half_pi_rest = -4.371138828673793e-08f;

  static V small_exp(V r) {  // valid for |r| <= ln 2 / 2
    V p = r * 0.0013882514322176576f + 0.008366547524929047f;
    p = p * r + 0.04166720062494278f;
    p = p * r + 0.1666654348373413f;
    p = p * r + 0.4999999701976776f;
    return p * (r * r) + r + 1.f;
  }
  // e^a / 2, computed so that it overflows only if the result does.
  static V half_exp(V a) {
    const V h = exp(a * 0.5f);
    return h * 0.5f * h;
  }

  // Reduction x = 2^n (1 + f) with 1 + f in [3/4, 3/2), where ln(1 + f) = f - f^2 / 2 + f^3 p.
  struct Reduced {
    V n, f, p;
  };
  static Reduced reduced(V x) {
    const auto [n, mantissa] = P::parts(x);
    const V f = mantissa - 1.f;
    V p = f * -0.04507727548480034f + 0.10463448613882065f;
    p = p * f - 0.13161416351795197f;
    p = p * f + 0.14478403329849243f;
    p = p * f - 0.1664728820323944f;
    p = p * f + 0.1999085694551468f;
    p = p * f - 0.2500009536743164f;
    p = p * f + 0.3333345055580139f;
    return {n, f, p};
  }
  static V small_log(const Reduced& y) {
    const V square = y.f * y.f;
    return y.p * square * y.f - square * 0.5f + y.f;
  }
  static V small_atan(V t) {
    const V z = t * t;
    V p = z * -0.0646463930606842f + 0.10748087614774704f;
    p = p * z - 0.14264418184757233f;
    p = p * z + 0.19999556243419647f;
    p = p * z - 0.3333333134651184f;
    return p * z * t + t;
  }

  // Reduced argument for a >= 0: `large` is whether a > 1/2, and p is arcsin a or, if `large`, arcsin sqrt((1 - a) /
  // 2).
  struct ReducedAsin {
    typename P::M large;
    V p;
  };
  static ReducedAsin reduced_asin(V a) {
    const auto large = P::less(P::splat(0.5f), a);
    const V z = P::choose(large, (P::splat(1.f) - a) * 0.5f, a * a);
    const V s = P::choose(large, P::sqrt(z), a);
    V p = z * 0.03395004943013191f + 0.01698829047381878f;
    p = p * z + 0.031135685741901398f;
    p = p * z + 0.04459628090262413f;
    p = p * z + 0.07500104606151581f;
    p = p * z + 0.1666666567325592f;
    return {large, p * z * s + s};
  }
};

}  // namespace mpsgraph::cpu
