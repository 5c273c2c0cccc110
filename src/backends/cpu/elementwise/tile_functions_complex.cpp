// Tile functions for complex numbers.
//
// Products use the textbook formula, without the special cases for infinities that C's operators have. complex64
// computes quotients and absolute values in double, where no intermediate result overflows; complex128 scales its
// operands instead. Transcendental functions call the C++ library. The most common complex64 operations use the widest
// available vectors.
#include <cmath>
#include <complex>
#include <numbers>

#include "backends/cpu/elementwise/tile_loops.h"

namespace mpsgraph::cpu {
namespace {

template <class C>
C product(C a, C b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

inline std::complex<float> quotient(std::complex<float> a, std::complex<float> b) {
  const double ar = a.real(), ai = a.imag(), br = b.real(), bi = b.imag(), scale = 1 / (br * br + bi * bi);
  return {static_cast<float>((ar * br + ai * bi) * scale), static_cast<float>((ai * br - ar * bi) * scale)};
}
inline std::complex<double> quotient(std::complex<double> a, std::complex<double> b) { return a / b; }

inline float magnitude(std::complex<float> x) {
  const double r = x.real(), i = x.imag();
  return static_cast<float>(std::sqrt(r * r + i * i));
}
inline double magnitude(std::complex<double> x) { return std::abs(x); }

template <class C>
C reciprocal_root(C x) {
  return quotient(C(1), std::sqrt(x));
}

// A base of 0 is a special case: the result is 0 if the real part of the exponent is positive, and 1 if the exponent is
// 0.
template <class C>
C power(C base, C exponent) {
  if (base == C(0)) return exponent == C(0) ? C(1) : exponent.real() > 0 ? C(0) : std::exp(exponent * std::log(base));
  return std::pow(base, exponent);
}

template <class R>
TileFunction tile(std::string_view k, ScalarMask m) {
  using T = std::complex<R>;
#define UNARY(KIND, EXPR) \
  if (k == KIND) return unary<T, T>([](T x) -> T { return EXPR; });
#define REAL(KIND, EXPR) \
  if (k == KIND) return unary<R, T>([](T x) -> R { return EXPR; });
#define PREDICATE(KIND, EXPR) \
  if (k == KIND) return unary<uint8_t, T>([](T x) -> bool { return EXPR; });
#define BINARY(KIND, EXPR) \
  if (k == KIND) return binary<T, T>([](T a, T b) -> T { return EXPR; }, m);
#define LONG(KIND, EXPR) \
  if (k == KIND) return long_binary<T, T>([](T a, T b) -> T { return EXPR; }, m);
  UNARY("identity", x)
  UNARY("conjugate", std::conj(x))
  UNARY("exponent", std::exp(x))
  UNARY("exponent_base2", std::exp(x * std::numbers::ln2_v<R>))
  UNARY("exponent_base10", std::exp(x * std::numbers::ln10_v<R>))
  UNARY("logarithm", std::log(x))
  UNARY("logarithm_base2", std::log(x) / std::numbers::ln2_v<R>)
  UNARY("logarithm_base10", std::log(x) / std::numbers::ln10_v<R>)
  UNARY("square", product(x, x))
  UNARY("square_root", std::sqrt(x))
  if (k == "reciprocal_square_root" || k == "reverse_square_root")
    return unary<T, T>([](T x) { return reciprocal_root(x); });
  UNARY("reciprocal", quotient(T(1), x))
  UNARY("negative", -x)
  UNARY("sin", std::sin(x))
  UNARY("cos", std::cos(x))
  UNARY("tan", std::tan(x))
  UNARY("sinh", std::sinh(x))
  UNARY("cosh", std::cosh(x))
  UNARY("tanh", std::tanh(x))
  UNARY("asin", std::asin(x))
  UNARY("acos", std::acos(x))
  UNARY("atan", std::atan(x))
  UNARY("asinh", std::asinh(x))
  UNARY("acosh", std::acosh(x))
  UNARY("atanh", std::atanh(x))
  REAL("absolute", magnitude(x))
  REAL("absolute_square", x.real() * x.real() + x.imag() * x.imag())
  REAL("real_part", x.real())
  REAL("imaginary_part", x.imag())
  PREDICATE("is_nan", std::isnan(x.real()) || std::isnan(x.imag()))
  PREDICATE("is_infinite", std::isinf(x.real()) || std::isinf(x.imag()))
  PREDICATE("is_finite", std::isfinite(x.real()) && std::isfinite(x.imag()))
  if (k == "addition") return commutative<T, T>([](T a, T b) { return a + b; }, m);
  BINARY("subtraction", a - b)
  if (k == "multiplication") return commutative<T, T>([](T a, T b) { return product(a, b); }, m);
  BINARY("division", quotient(a, b))
  BINARY("division_no_nan", b == T(0) ? T(0) : quotient(a, b))
  LONG("power", power(a, b))
#undef UNARY
#undef REAL
#undef PREDICATE
#undef BINARY
#undef LONG
  if (k == "equal") return commutative<uint8_t, T>([](T a, T b) { return a == b; }, m);
  if (k == "not_equal") return commutative<uint8_t, T>([](T a, T b) { return a != b; }, m);
  return nullptr;
}

template <class R>
TileFunction of_parts(ScalarMask m) {
  return binary<std::complex<R>, R>([](R a, R b) { return std::complex<R>(a, b); }, m);
}

// Run complex64 operations that act separately on real and imaginary parts as vectorized float operations, if there are
// no scalar operands.
template <const char* kind>
void by_parts(void* out, const void* const* in, int64_t n) {
  static const TileFunction of_floats = float_functions().tile(kind, 0);
  of_floats(out, in, 2 * n);
}
constexpr char addition[] = "addition", subtraction[] = "subtraction", negative[] = "negative";

TileFunction in_vectors(std::string_view k) {
  if (k == addition) return by_parts<addition>;
  if (k == subtraction) return by_parts<subtraction>;
  if (k == negative) return by_parts<negative>;
  if (k == "multiplication") return float_functions().complex_product;
  if (k == "conjugate") return float_functions().complex_conjugate;
  return nullptr;
}

}  // namespace

TileFunction complex_tile(std::string_view kind, DType dtype, ScalarMask scalars) {
  if (kind == "complex_tensor") {
    return dtype == DType::float32   ? of_parts<float>(scalars)
           : dtype == DType::float64 ? of_parts<double>(scalars)
                                     : nullptr;
  }
  if (dtype == DType::complex64 && scalars == 0)
    if (const TileFunction function = in_vectors(kind)) return function;
  return dtype == DType::complex64 ? tile<float>(kind, scalars) : tile<double>(kind, scalars);
}

}  // namespace mpsgraph::cpu
