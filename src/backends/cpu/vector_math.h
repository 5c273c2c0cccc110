// The functions of float32 that vectors compute: one text for the tile functions, which are compiled, and for the code
// that jit/ generates.
//
// P says how a vector set does the elementary steps: types V (floats), I (integers) and M (masks) with arithmetic
// operators between V and V or float, and the static functions used below. The polynomials are least-squares fits at
// Chebyshev nodes, made for this file; errors in ulp stand beside them (measured against double over the whole range).
#pragma once

#include <cmath>
#include <limits>

namespace mpsgraph::cpu {

template <class P>
struct VectorMath {
  using V = typename P::V;
  using I = typename P::I;

  // e^x, at most 2 ulp: x = n ln 2 + r, |r| <= ln 2 / 2.
  static V exp(V x) {
    const V c = P::greatest(P::splat(-104.f), P::least(P::splat(89.f), x));  // NaN passes
    const V n = P::nearest(c * 1.44269504f);
    const V r = (c - n * 0.693359375f) + n * 2.12194440e-4f;
    V p = r * 0.00019899391918443143f + 0.0013933733571320772f;
    p = p * r + 0.0083332983776927f;
    p = p * r + 0.041666463017463684f;
    p = p * r + 0.1666666716337204f;
    p = p * r + 0.5f;
    p = p * (r * r) + r + 1.f;
    return P::times_power_of_two(p, n);
  }

  // ln x, at most 2 ulp: mantissa in [sqrt(1/2), sqrt(2)).
  static V log(V x) {
    const auto tiny = P::less(x, P::splat(1.17549435e-38f));
    const V y = P::choose(tiny, x * 8388608.f, x);
    const I bits = P::add(P::bits(y), -0x3f3504f3);
    const V f = P::from_bits(P::add(P::bitwise_and(bits, 0x7fffff), 0x3f3504f3)) - 1.f;
    const V n = P::to_float(P::shift_right(bits, 23)) - P::choose(tiny, P::splat(23.f), P::splat(0.f));
    V p = f * -0.15609805285930634f + 0.1661834716796875f;
    p = p * f - 0.11980392783880234f;
    p = p * f + 0.13575738668441772f;
    p = p * f - 0.16676989197731018f;
    p = p * f + 0.20030613243579865f;
    p = p * f - 0.2500002980232239f;
    p = p * f + 0.33332985639572144f;
    const V square = f * f;
    V r = p * square * f + n * -2.12194440e-4f;
    r = r - square * 0.5f + f + n * 0.693359375f;
    constexpr float infinity = std::numeric_limits<float>::infinity();
    r = P::choose(P::equal(x, P::splat(0.f)), P::splat(-infinity), r);
    r = P::choose(P::equal(x, P::splat(infinity)), x, r);
    // Negative numbers and NaN give NaN: neither is at least 0.
    return P::choose(P::less_or_equal(P::splat(0.f), x), r, P::splat(std::numeric_limits<float>::quiet_NaN()));
  }

  // erf x, at most 6 ulp and 3.6e-7: x P(x^2), P a polynomial in the mapped variable, |x| <= 3.95.
  static V erf(V x) {
    const V c = P::greatest(P::splat(-3.95f), P::least(P::splat(3.95f), x));  // NaN passes
    const V u = c * c * 0.12818458f - 1.f;
    const V square = u * u;  // two chains: half the latency
    V even = square * 0.0024248601403087378f + 0.0018033967353403568f;
    even = even * square + 0.015357088297605515f;
    even = even * square + 0.0304146446287632f;
    even = even * square + 0.05913698673248291f;
    even = even * square + 0.09045584499835968f;
    even = even * square + 0.13317826390266418f;
    even = even * square + 0.3580007553100586f;
    V odd = square * -0.0010847452795132995f - 0.0010694232769310474f;
    odd = odd * square - 0.008847628720104694f;
    odd = odd * square - 0.020393699407577515f;
    odd = odd * square - 0.04451609402894974f;
    odd = odd * square - 0.07428544759750366f;
    odd = odd * square - 0.10864080488681793f;
    odd = odd * square - 0.17876945436000824f;
    const V p = odd * u + even;
    return P::greatest(P::splat(-1.f), P::least(P::splat(1.f), c * p));
  }

  // tanh x, at most 2 ulp.
  static V tanh(V x) {
    const V a = P::absolute(x), t = x * x;
    V p = t * 0.0022636917419731617f - 0.00831648800522089f;
    p = p * t + 0.021759668365120888f;
    p = p * t - 0.05395793169736862f;
    p = p * t + 0.13333295285701752f;
    p = p * t - 0.3333333432674408f;
    const V small = p * t * x + x;
    const V large = P::with_sign_of(P::splat(1.f) - P::splat(2.f) / (exp(a + a) + 1.f), x);
    return P::choose(P::less(a, P::splat(0.6f)), small, large);
  }

  static V sigmoid(V x) { return P::splat(1.f) / (exp(-x) + 1.f); }
  static V sigmoid_gradient(V incoming, V x) {
    const V s = sigmoid(x);
    return incoming * s * (P::splat(1.f) - s);
  }
};

}  // namespace mpsgraph::cpu
