// Box-Muller transform: turns two uniform numbers in [0, 1) into two standard normals. The first standard normal is
// computed with the sine, the second with the cosine.
//
// For float32, the results match TensorFlow's bit for bit on every system. TensorFlow takes the logarithm, sine, and
// cosine from the C library, usually glibc. This file reimplements these functions with polynomials in double that are
// rounded once. In this form, loops over them can be vectorized, and the results equal glibc's bit for bit for all 2^23
// uniform numbers (tests/cpp/test_philox.cpp).
//
// Source of the polynomial coefficients and the logarithm table: glibc 2.28 and later, from Arm's Optimized Routines
// (logf, sinf, cosf).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "backends/cpu/instruction_set.h"
#include "backends/cpu/random/philox.h"

namespace mpsgraph::cpu {

// For each of 16 intervals of the mantissa, the reciprocal and the logarithm of a number c near the middle of the
// interval.
struct MantissaStretch {
  double reciprocal, logarithm;
};
inline constexpr MantissaStretch mantissa_stretches[] = {
    {0x1.661ec79f8f3bep+0, -0x1.57bf7808caadep-2}, {0x1.571ed4aaf883dp+0, -0x1.2bef0a7c06ddbp-2},
    {0x1.49539f0f010bp+0, -0x1.01eae7f513a67p-2},  {0x1.3c995b0b80385p+0, -0x1.b31d8a68224e9p-3},
    {0x1.30d190c8864a5p+0, -0x1.6574f0ac07758p-3}, {0x1.25e227b0b8eap+0, -0x1.1aa2bc79c81p-3},
    {0x1.1bb4a4a1a343fp+0, -0x1.a4e76ce8c0e5ep-4}, {0x1.12358f08ae5bap+0, -0x1.1973c5a611cccp-4},
    {0x1.0953f419900a7p+0, -0x1.252f438e10c1ep-5}, {0x1p+0, 0x0p+0},
    {0x1.e608cfd9a47acp-1, 0x1.aa5aa5df25984p-5},  {0x1.ca4b31f026aap-1, 0x1.c5e53aa362eb4p-4},
    {0x1.b2036576afce6p-1, 0x1.526e57720db08p-3},  {0x1.9c2d163a1aa2dp-1, 0x1.bc2860d22477p-3},
    {0x1.886e6037841edp-1, 0x1.1058bc8a07ee1p-2},  {0x1.767dcf5534862p-1, 0x1.4043057b6ee09p-2},
};

// Return ln x for a normal number x = 2^k z with z in [0.699, 1.398), where 0.699 is the start of the first interval.
// With the number c of the interval that contains z, ln x = k ln 2 + ln c + ln(1 + r) with r = z / c - 1, and ln(1 + r)
// is a polynomial.
[[gnu::always_inline]] inline float normals_logarithm(float x) {
  constexpr uint32_t first = 0x3f330000;
  constexpr int mantissa = 23, bits_of_stretch = 4;
  const auto bits = std::bit_cast<uint32_t>(x), above = bits - first;
  const MantissaStretch& stretch =
      mantissa_stretches[above >> (mantissa - bits_of_stretch) & ((1u << bits_of_stretch) - 1)];
  const int32_t k = static_cast<int32_t>(above) >> mantissa;
  const double z = std::bit_cast<float>(bits - (static_cast<uint32_t>(k) << mantissa));
  const double r = z * stretch.reciprocal - 1, square = r * r;
  const double whole = stretch.logarithm + k * 0x1.62e42fefa39efp-1;  // k ln 2 + ln c
  const double upper = 0x1.5575b0be00b6ap-2 * r - 0x1.ffffef20a4123p-2;
  return static_cast<float>((-0x1.00ea348b88334p-2 * square + upper) * square + (whole + r));
}

struct SineAndCosine {
  float sine, cosine;
};
// Return the sine and cosine of an angle in [0, 120). Subtracting n quarter turns leaves at most an eighth of a turn.
[[gnu::always_inline]] inline SineAndCosine normals_sine_and_cosine(float angle) {
  const double x = angle;
  const int32_t n =
      (static_cast<int32_t>(x * 0x1.45f306dc9c883p+23) + (1 << 23)) >> 24;  // x 2^24 2 / pi, rounded to nearest
  const double t = x - n * 0x1.921fb54442d18p0, square = t * t, cube = t * square, fourth = square * square;
  const double near_sine = t + cube * -0x1.555545995a603p-3,
               rest_of_sine = 0x1.1107605230bc4p-7 + square * -0x1.994eb3774cf24p-13,
               sine = near_sine + cube * square * rest_of_sine;
  const double near_cosine = (1 + square * -0x1.ffffffd0c621cp-2) + fourth * 0x1.55553e1068f19p-5,
               rest_of_cosine = -0x1.6c087e89a359dp-10 + square * 0x1.99343027bf8c3p-16,
               cosine = near_cosine + fourth * square * rest_of_cosine;
  const double s = n & 1 ? cosine : sine, c = n & 1 ? sine : cosine;
  return {static_cast<float>(n & 2 ? -s : s), static_cast<float>((n + 1) & 2 ? -c : c)};
}

[[gnu::always_inline]] inline float normals_radius(uint32_t x) {
  const float u = uniform_float(x);
  return std::sqrt(-2.0f * normals_logarithm(u < 1e-7f ? 1e-7f : u));
}
[[gnu::always_inline]] inline SineAndCosine normals_direction(uint32_t x) {
  return normals_sine_and_cosine(
      static_cast<float>(2 * 3.14159265358979323846 * static_cast<double>(uniform_float(x))));
}

inline void box_muller(uint32_t x0, uint32_t x1, float* out) {
  const float radius = normals_radius(x0);
  const auto [sine, cosine] = normals_direction(x1);
  out[0] = sine * radius, out[1] = cosine * radius;
}
// The Box-Muller transform for float64, computed with the logarithm, sine, and cosine of the C library.
inline void box_muller(const uint32_t* x, double* out) {
  const double u = std::max(uniform_double(x[0], x[1]), 1e-7),
               angle = 2 * 3.14159265358979323846 * uniform_double(x[2], x[3]);
  const double radius = std::sqrt(-2.0 * std::log(u));
  out[0] = std::sin(angle) * radius;
  out[1] = std::cos(angle) * radius;
}

// Turns each pair of random words into two standard normals.
using Normals = void (*)(const uint32_t* words, int64_t pairs, float* out);
MPSGRAPH_SHORT_VECTOR_TABLE(Normals, normals);

}  // namespace mpsgraph::cpu
