// Complex numbers: their parts, and arithmetic composed of real operations on the parts.
//
// Apple documents how complex numbers are constructed and split into parts, and that Fourier transforms accept them,
// but not which other operations do. No other operation is therefore used on complex tensors. The formulas are suited
// to float32: they avoid products of two large numbers unless the result is large. The inverse functions follow Hull,
// Fairgrieve, and Tang, with the usual branch cuts.
#include "backends/metal/complex.h"

#include <numbers>

#include "core/kind_table.h"

namespace mpsgraph::metal {

Parts parts_of(const Lowering& l, MPSGraphTensor* tensor) {
  if (METAL_AVAILABLE(14.0, 17.0)) {
    if (tensor.dataType == data_type(DType::complex64))
      return {{l, [l.graph() realPartOfTensor:tensor name:nil]},
              {l, [l.graph() imaginaryPartOfTensor:tensor name:nil]}};
    const Term real(l, tensor.dataType == MPSDataTypeFloat32 ? tensor : l.cast(tensor, DType::float32));
    return {real, real.constant(0)};
  }
  l.needs_system("14.0");
}

MPSGraphTensor* complex_tensor(const Lowering& l, const Parts& parts) {
  if (METAL_AVAILABLE(14.0, 17.0))
    return [l.graph() complexTensorWithRealTensor:parts.re.tensor() imaginaryTensor:parts.im.tensor() name:l.name()];
  l.needs_system("14.0");
}

Parts select(const Term& predicate, const Parts& when_true, const Parts& when_false) {
  return {select(predicate, when_true.re, when_false.re), select(predicate, when_true.im, when_false.im)};
}

namespace {

Term larger(const Term& a, const Term& b) { return select(a > b, a, b); }

#define FUNCTION(function)                                                                               \
  Term function(const Term& x) {                                                                         \
    return apply(x, [](MPSGraph* g, MPSGraphTensor* t) { return [g function##WithTensor:t name:nil]; }); \
  }
FUNCTION(sin)
FUNCTION(cos)
FUNCTION(tan)
FUNCTION(sinh)
FUNCTION(cosh)
FUNCTION(tanh)
FUNCTION(asinh)
FUNCTION(atanh)
FUNCTION(signbit)
FUNCTION(reciprocal)
#undef FUNCTION

Term angle(const Term& y, const Term& x) {
  return apply(y, x, [](MPSGraph* g, MPSGraphTensor* a, MPSGraphTensor* b) {
    return [g atan2WithPrimaryTensor:a secondaryTensor:b name:nil];
  });
}

Term with_sign(const Term& size, const Term& sign) { return select(signbit(sign), -size, size); }

// --- arithmetic ------------------------------------------------------------------------------------------------------

Parts operator+(const Parts& a, const Parts& b) { return {a.re + b.re, a.im + b.im}; }
Parts operator-(const Parts& a, const Parts& b) { return {a.re - b.re, a.im - b.im}; }
Parts operator*(const Parts& a, const Parts& b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
Parts operator*(const Parts& a, double b) { return {a.re * b, a.im * b}; }
Parts operator-(const Parts& z) { return {-z.re, -z.im}; }

// a / b = a conj(b) / |b|², computed after dividing both operands by the larger part of b so that |b|² cannot overflow.
Parts operator/(const Parts& a, const Parts& b) {
  const Term scale = larger(absolute(b.re), absolute(b.im)), x = b.re / scale, y = b.im / scale;
  const Term size = (square(x) + square(y)) * scale;
  return {(a.re * x + a.im * y) / size, (a.im * x - a.re * y) / size};
}

Parts constant(const Parts& like, double re, double im = 0) { return {like.re.constant(re), like.re.constant(im)}; }
Parts times_i(const Parts& z) { return {-z.im, z.re}; }
Parts over_i(const Parts& z) { return {z.im, -z.re}; }
Term is_zero(const Parts& z) { return both(z.re == 0, z.im == 0); }

Term absolute(const Parts& z) {
  const Term x = absolute(z.re), y = absolute(z.im), large = larger(x, y), small = select(x > y, y, x);
  return large * square_root(square(quotient_or_zero(small, large)) + 1);
}

Parts divided(const Parts& a, const Parts& b) { return a / b; }
Parts divided_no_nan(const Parts& a, const Parts& b) {
  const Term zero = is_zero(b);
  return select(zero, constant(a, 0), a / select(zero, constant(b, 1), b));
}

// --- exponential and trigonometric functions -------------------------------------------------------------------------

Parts exponent(const Parts& z) {
  const Term size = metal::exponent(z.re);
  return {size * cos(z.im), size * sin(z.im)};
}
Parts logarithm(const Parts& z) { return {metal::logarithm(absolute(z)), angle(z.im, z.re)}; }

Parts square_root(const Parts& z) {
  const Term x = metal::absolute(z.re), half = metal::square_root((absolute(z) + x) * 0.5);
  const Term other = quotient_or_zero(metal::absolute(z.im) * 0.5, half), right = z.re >= 0;
  return {select(right, half, other), with_sign(select(right, other, half), z.im)};
}

Parts sinh(const Parts& z) { return {sinh(z.re) * cos(z.im), cosh(z.re) * sin(z.im)}; }
Parts cosh(const Parts& z) { return {cosh(z.re) * cos(z.im), sinh(z.re) * sin(z.im)}; }
// For z = x + iy: tanh z = (h + it) / (1 + iht) with h = tanh x and t = tan y.
Parts tanh(const Parts& z) {
  const Term h = tanh(z.re), t = tan(z.im), size = square(h * t) + 1;
  return {h * (square(t) + 1) / size, t * square(reciprocal(cosh(z.re))) / size};
}
Parts sin(const Parts& z) { return over_i(sinh(times_i(z))); }
Parts cos(const Parts& z) { return cosh(times_i(z)); }
Parts tan(const Parts& z) { return over_i(tanh(times_i(z))); }

// The common part of asin and acos of z = x + iy. With r and s the distances of z from -1 and 1, and a = (r + s) / 2:
// along = sqrt(a² - x²) and up = asinh(sqrt(a² - 1)), with the differences computed without cancellation.
struct Ellipse {
  Term along, up;
};
Ellipse ellipse(const Parts& z) {
  const Term x = metal::absolute(z.re), y = metal::absolute(z.im), y2 = square(y);
  const Term r = absolute(Parts{x + 1, y}), s = absolute(Parts{x - 1, y}), a = (r + s) * 0.5;
  const Term left = y2 / (r + x + 1), inner = quotient_or_zero(y2, s + metal::absolute(1 - x)),
             outer = s + metal::absolute(x - 1);
  const Term within = x <= 1;
  const Term above_one = (left + select(within, inner, outer)) * 0.5;  // a - 1
  const Term above_x = (left + select(within, outer, inner)) * 0.5;  // a - x
  return {metal::square_root((a + x) * above_x), asinh(metal::square_root(above_one * (a + 1)))};
}
Parts asin(const Parts& z) {
  const Ellipse e = ellipse(z);
  return {angle(z.re, e.along), with_sign(e.up, z.im)};
}
Parts acos(const Parts& z) {
  const Ellipse e = ellipse(z);
  return {angle(e.along, z.re), with_sign(-e.up, z.im)};
}
Parts acosh(const Parts& z) {
  const Ellipse e = ellipse(z);
  return {e.up, with_sign(angle(e.along, z.re), z.im)};
}
Parts asinh(const Parts& z) { return over_i(asin(times_i(z))); }
Parts atanh(const Parts& z) {
  const Term y2 = square(z.im);
  return {atanh(z.re * 2 / (square(z.re) + y2 + 1)) * 0.5, angle(z.im * 2, (1 - z.re) * (z.re + 1) - y2) * 0.5};
}
Parts atan(const Parts& z) { return over_i(atanh(times_i(z))); }

// 0 to a power with positive real part is 0; 0 to the power 0 is 1.
Parts power(const Parts& base, const Parts& exponent_) {
  const Term zero = is_zero(base);
  const Parts usual = exponent(exponent_ * logarithm(base));
  const Parts of_zero =
      select(is_zero(exponent_), constant(base, 1), select(exponent_.re > 0, constant(base, 0), usual));
  return select(zero, of_zero, usual);
}

// --- tables ----------------------------------------------------------------------------------------------------------

using Function = Parts (*)(const Parts&);
using Operation2 = Parts (*)(const Parts&, const Parts&);
using Real = Term (*)(const Parts&);

const KindTable<Function> functions{
    {"exponent", exponent},
    {"exponent_base2", [](const Parts& z) { return exponent(z * std::numbers::ln2); }},
    {"exponent_base10", [](const Parts& z) { return exponent(z * std::numbers::ln10); }},
    {"logarithm", logarithm},
    {"logarithm_base2", [](const Parts& z) { return logarithm(z) * std::numbers::log2e; }},
    {"logarithm_base10", [](const Parts& z) { return logarithm(z) * std::numbers::log10e; }},
    {"square", [](const Parts& z) { return z * z; }},
    {"square_root", square_root},
    {"reciprocal", [](const Parts& z) { return constant(z, 1) / z; }},
    {"reciprocal_square_root", [](const Parts& z) { return constant(z, 1) / square_root(z); }},
    {"reverse_square_root", [](const Parts& z) { return constant(z, 1) / square_root(z); }},
    {"negative", [](const Parts& z) { return -z; }},
    {"sin", sin},
    {"cos", cos},
    {"tan", tan},
    {"sinh", sinh},
    {"cosh", cosh},
    {"tanh", tanh},
    {"asin", asin},
    {"acos", acos},
    {"atan", atan},
    {"asinh", asinh},
    {"acosh", acosh},
    {"atanh", atanh},
};

const KindTable<Operation2> operations{
    {"addition", operator+}, {"subtraction", operator-},          {"multiplication", operator*},
    {"division", divided},   {"division_no_nan", divided_no_nan}, {"power", power},
};

#define CLASSIFY(method)                                                                                \
  [](const Parts& z) {                                                                                  \
    const auto part = [](MPSGraph* g, MPSGraphTensor* t) { return [g method##WithTensor:t name:nil]; }; \
    return either(apply(z.re, part), apply(z.im, part));                                                \
  }

const KindTable<Real> real_results{
    {"absolute", absolute},
    {"absolute_square", [](const Parts& z) { return square(z.re) + square(z.im); }},
    {"is_nan", CLASSIFY(isNaN)},
    {"is_infinite", CLASSIFY(isInfinite)},
    {"is_finite", [](const Parts& z) { return !either(CLASSIFY(isNaN)(z), CLASSIFY(isInfinite)(z)); }},
};

GraphTensors lower_real_part(Lowering& l) { return parts_of(l, l.input()).re; }
GraphTensors lower_imaginary_part(Lowering& l) { return parts_of(l, l.input()).im; }

GraphTensors lower_conjugate(Lowering& l) {
  if (!is_complex(l.dtype())) return {l.input()};
  if (METAL_AVAILABLE(14.0, 17.0)) return {[l.graph() conjugateWithTensor:l.input() name:l.name()]};
  l.needs_system("14.0");
}

GraphTensors lower_complex_tensor(Lowering& l) { return {complex_tensor(l, {Term::input(l, 0), Term::input(l, 1)})}; }

}  // namespace

GraphTensors lower_complex(Lowering& l) {
  const Kind kind = l.operation.kind();
  const Parts a = parts_of(l, l.input());
  if (const Function* function = functions.find(kind)) return {complex_tensor(l, (*function)(a))};
  if (const Real* function = real_results.find(kind)) return (*function)(a);
  const Parts b = parts_of(l, l.input(1));
  if (kind == "equal") return both(a.re == b.re, a.im == b.im);
  if (kind == "not_equal") return either(a.re != b.re, a.im != b.im);
  return {complex_tensor(l, (*operations.find(kind))(a, b))};
}

const Lowerings complex_lowerings("complex", [] {
  define_lowering("real_part", lower_real_part);
  define_lowering("imaginary_part", lower_imaginary_part);
  define_lowering("conjugate", lower_conjugate);
  define_lowering("complex_tensor", lower_complex_tensor);
});

}  // namespace mpsgraph::metal
