// Element-wise operations on one operand: exponentials, roots, rounding, trigonometry, predicates, and bits. Each row
// of the table is an operation: documentation, dtypes, and derivative.
//
// Operations that are constant almost everywhere (sign, floor, ...) have gradient zero. Derivative rules receive
// complex operands and results conjugated, which makes the rules correct for analytic functions (arithmetic_complex.cpp
// explains why).
#include <numbers>

#include "core/ops/elementwise.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

constexpr double ln2 = std::numbers::ln2;
constexpr double ln10 = std::numbers::ln10;
constexpr double two_over_sqrt_pi = 2 * std::numbers::inv_sqrtpi;

// A tensor wrapped with operators, so that derivative rules read like formulas.
struct Term {
  Builder* builder;
  Tensor* tensor;
  Term constant(double value) const { return {builder, builder->scalar_like(tensor, value)}; }
};
Term of(Kind kind, Term x) { return {x.builder, x.builder->unary(kind, x.tensor)}; }
Term square(Term x) { return of("square", x); }
Term operator-(Term x) { return of("negative", x); }
Term operator+(Term a, Term b) { return {a.builder, a.builder->add(a.tensor, b.tensor)}; }
Term operator-(Term a, Term b) { return {a.builder, a.builder->sub(a.tensor, b.tensor)}; }
Term operator*(Term a, Term b) { return {a.builder, a.builder->mul(a.tensor, b.tensor)}; }
Term operator/(Term a, Term b) { return {a.builder, a.builder->div(a.tensor, b.tensor)}; }
Term operator+(Term a, double b) { return a + a.constant(b); }
Term operator*(Term a, double b) { return a * a.constant(b); }
Term operator-(double a, Term b) { return b.constant(a) - b; }

// A derivative rule: returns the gradient of the operand, given the operand x, the result y, and the gradient g of the
// result.
using UnaryRule = Term (*)(Term x, Term y, Term g);
struct Unary {
  Kind name;
  std::string_view documentation;
  DTypeClass operands;
  UnaryRule rule;  // null if the gradient is zero
  bool predicate = false;
};

Term pass(Term, Term, Term g) { return g; }
// g * 2 is computed first, because 2 * x can overflow in float16.
Term d_square(Term x, Term, Term g) { return g * 2.0 * x; }
Term d_reciprocal_square_root(Term, Term y, Term g) {  // -1/2 x^(-3/2)
  const Term cube = y * square(y);
  return g * -0.5 * cube;
}
Term d_sin(Term x, Term, Term g) { return g * of("cos", x); }
Term d_cos(Term x, Term, Term g) { return -(g * of("sin", x)); }
Term d_tan(Term, Term y, Term g) { return g * (square(y) + 1.0); }
Term d_tanh(Term, Term y, Term g) { return g * (1.0 - square(y)); }
Term d_erf(Term x, Term, Term g) { return g * (of("exponent", -square(x)) * two_over_sqrt_pi); }
// Factored as (1 - x)(1 + x), which is exact near |x| = 1, where 1 - x² would cancel.
Term one_minus_square(Term x) {
  const Term sum = x + 1.0;
  return (1.0 - x) * sum;
}
Term d_asin(Term x, Term, Term g) { return g * of("reciprocal_square_root", one_minus_square(x)); }
Term d_acos(Term x, Term y, Term g) { return -d_asin(x, y, g); }
Term d_asinh(Term x, Term, Term g) { return g * of("reciprocal_square_root", square(x) + 1.0); }
// The two square roots stay separate. For complex x left of the imaginary axis, the square root of the product would
// lie on the other branch of the square root.
Term d_acosh(Term x, Term, Term g) {
  const Term of_sum = of("reciprocal_square_root", x + 1.0);
  return g * (of("reciprocal_square_root", x + -1.0) * of_sum);
}

const Unary unary_operations[] = {
    {"identity", R"(
Return x unchanged, as a new tensor.

result = x.

Gradient: the incoming gradient.
Source: MPSGraph identityWithTensor:name:.
>>> g.run({}, g.identity(g.constant([1.0, 2.0]))).tolist()
[1.0, 2.0])",
     DTypeClass::any, pass},
    {"exponent", R"(
Compute the natural exponential element-wise.

result = e^x.

Gradient: incoming gradient * e^x.
Source: MPSGraph exponentWithTensor:name:.
>>> g.run({}, g.exponent(g.constant([0.0]))).tolist()
[1.0])",
     DTypeClass::analytic, [](Term, Term y, Term g) { return g * y; }},
    {"exponent_base2", R"(
Raise 2 to the power x element-wise.

result = 2^x.

Gradient: incoming gradient * 2^x * ln 2.
Source: MPSGraph exponentBase2WithTensor:name:.
>>> g.run({}, g.exponent_base2(g.constant([3.0, -1.0]))).tolist()
[8.0, 0.5])",
     DTypeClass::analytic, [](Term, Term y, Term g) { return g * (y * ln2); }},
    {"exponent_base10", R"(
Raise 10 to the power x element-wise.

result = 10^x.

Gradient: incoming gradient * 10^x * ln 10.
Source: MPSGraph exponentBase10WithTensor:name:.
>>> g.run({}, g.exponent_base10(g.constant([0.0]))).tolist()
[1.0])",
     DTypeClass::analytic, [](Term, Term y, Term g) { return g * (y * ln10); }},
    {"logarithm", R"(
Compute the natural logarithm element-wise.

result = ln x. Real x gives NaN below 0 and -inf at 0.

Gradient: incoming gradient / x.
Source: MPSGraph logarithmWithTensor:name:.
>>> g.run({}, g.logarithm(g.constant([1.0]))).tolist()
[0.0])",
     DTypeClass::analytic, [](Term x, Term, Term g) { return g / x; }},
    {"logarithm_base2", R"(
Compute the logarithm to base 2 element-wise.

result = log2 x.

Gradient: incoming gradient / (x * ln 2).
Source: MPSGraph logarithmBase2WithTensor:name:.
>>> g.run({}, g.logarithm_base2(g.constant([8.0]))).tolist()
[3.0])",
     DTypeClass::analytic, [](Term x, Term, Term g) { return g / (x * ln2); }},
    {"logarithm_base10", R"(
Compute the logarithm to base 10 element-wise.

result = log10 x.

Gradient: incoming gradient / (x * ln 10).
Source: MPSGraph logarithmBase10WithTensor:name:.
>>> g.run({}, g.logarithm_base10(g.constant([1.0]))).tolist()
[0.0])",
     DTypeClass::analytic, [](Term x, Term, Term g) { return g / (x * ln10); }},
    {"square", R"(
Square x element-wise.

result = x * x.

Gradient: incoming gradient * 2x.
Source: MPSGraph squareWithTensor:name:.
>>> g.run({}, g.square(g.constant([3.0, -2.0]))).tolist()
[9.0, 4.0])",
     DTypeClass::algebraic, d_square},
    {"square_root", R"(
Compute the square root element-wise.

result = sqrt(x). Real x gives NaN below 0.

Gradient: incoming gradient / (2 * sqrt(x)).
Source: MPSGraph squareRootWithTensor:name:.
>>> g.run({}, g.square_root(g.constant([9.0]))).tolist()
[3.0])",
     DTypeClass::analytic, [](Term, Term y, Term g) { return g * 0.5 / y; }},
    {"reciprocal_square_root", R"(
Compute the reciprocal of the square root element-wise.

result = 1 / sqrt(x).

Gradient: -incoming gradient * x^(-3/2) / 2.
Source: MPSGraph reciprocalSquareRootWithTensor:name: (macOS 15).
>>> g.run({}, g.reciprocal_square_root(g.constant([4.0]))).tolist()
[0.5])",
     DTypeClass::analytic, d_reciprocal_square_root},
    {"reverse_square_root", R"(
Compute the reciprocal of the square root element-wise, under MPSGraph's deprecated name.

result = 1 / sqrt(x). Prefer `reciprocal_square_root`, which computes the same.

Gradient: -incoming gradient * x^(-3/2) / 2.
Source: MPSGraph reverseSquareRootWithTensor:name: (deprecated; prefer reciprocal_square_root).
>>> g.run({}, g.reverse_square_root(g.constant([4.0]))).tolist()
[0.5])",
     DTypeClass::analytic, d_reciprocal_square_root},
    {"reciprocal", R"(
Compute the reciprocal element-wise.

result = 1 / x.

Gradient: -incoming gradient / x^2.
Source: MPSGraph reciprocalWithTensor:name:.
>>> g.run({}, g.reciprocal(g.constant([4.0]))).tolist()
[0.25])",
     DTypeClass::analytic, [](Term, Term y, Term g) { return -(g * square(y)); }},
    {"negative", R"(
Negate x element-wise.

result = -x.

Gradient: the negated incoming gradient.
Source: MPSGraph negativeWithTensor:name:.
>>> g.run({}, g.negative(g.constant([1.0, -2.0]))).tolist()
[-1.0, 2.0])",
     DTypeClass::algebraic, [](Term, Term, Term g) { return -g; }},
    {"sign", R"(
Compute the sign element-wise.

result = -1 where x < 0, 0 where x = 0, and 1 where x > 0.

Source: MPSGraph signWithTensor:name:.
>>> g.run({}, g.sign(g.constant([-4.0, 0.0, 9.0]))).tolist()
[-1.0, 0.0, 1.0])",
     DTypeClass::numbers, nullptr},
    {"signbit", R"(
Return whether the sign bit is set, element-wise: True for negative numbers and for -0.0.

result = sign bit of x, as bool.

Source: MPSGraph signbitWithTensor:name:.
>>> g.run({}, g.signbit(g.constant([-0.0, 1.0]))).tolist()
[True, False])",
     DTypeClass::numbers, nullptr, true},
    {"ceil", R"(
Round up element-wise.

result = the smallest integer >= x.

Source: MPSGraph ceilWithTensor:name:.
>>> g.run({}, g.ceil(g.constant([1.2, -1.2]))).tolist()
[2.0, -1.0])",
     DTypeClass::floats, nullptr},
    {"floor", R"(
Round down element-wise.

result = the largest integer <= x.

Source: MPSGraph floorWithTensor:name:.
>>> g.run({}, g.floor(g.constant([1.8, -1.2]))).tolist()
[1.0, -2.0])",
     DTypeClass::floats, nullptr},
    {"round", R"(
Round to the nearest integer element-wise, with ties away from zero.

result = sign(x) * floor(|x| + 1/2).

Source: MPSGraph roundWithTensor:name:.
>>> g.run({}, g.round(g.constant([0.5, -1.5, 2.4]))).tolist()
[1.0, -2.0, 2.0])",
     DTypeClass::floats, nullptr},
    {"rint", R"(
Round to the nearest integer element-wise, with ties to even.

result = rint(x).

Source: MPSGraph rintWithTensor:name:.
>>> g.run({}, g.rint(g.constant([0.5, 1.5, 2.5]))).tolist()
[0.0, 2.0, 2.0])",
     DTypeClass::floats, nullptr},
    {"truncate", R"(
Round toward zero element-wise.

result = the integer part of x.

Source: MPSGraph truncateWithTensor:name:.
>>> g.run({}, g.truncate(g.constant([1.8, -1.8]))).tolist()
[1.0, -1.0])",
     DTypeClass::floats, nullptr},
    {"sin", R"(
Compute the sine of angles in radians, element-wise.

result = sin x.

Gradient: incoming gradient * cos x.
Source: MPSGraph sinWithTensor:name:.
>>> g.run({}, g.sin(g.constant([0.0]))).tolist()
[0.0])",
     DTypeClass::analytic, d_sin},
    {"cos", R"(
Compute the cosine of angles in radians, element-wise.

result = cos x.

Gradient: -incoming gradient * sin x.
Source: MPSGraph cosWithTensor:name:.
>>> g.run({}, g.cos(g.constant([0.0]))).tolist()
[1.0])",
     DTypeClass::analytic, d_cos},
    {"tan", R"(
Compute the tangent of angles in radians, element-wise.

result = tan x.

Gradient: incoming gradient * (1 + tan^2 x).
Source: MPSGraph tanWithTensor:name:.
>>> g.run({}, g.tan(g.constant([0.0]))).tolist()
[0.0])",
     DTypeClass::analytic, d_tan},
    {"sinh", R"(
Compute the hyperbolic sine element-wise.

result = (e^x - e^-x) / 2.

Gradient: incoming gradient * cosh x.
Source: MPSGraph sinhWithTensor:name:.
>>> g.run({}, g.sinh(g.constant([0.0]))).tolist()
[0.0])",
     DTypeClass::analytic, [](Term x, Term, Term g) { return g * of("cosh", x); }},
    {"cosh", R"(
Compute the hyperbolic cosine element-wise.

result = (e^x + e^-x) / 2.

Gradient: incoming gradient * sinh x.
Source: MPSGraph coshWithTensor:name:.
>>> g.run({}, g.cosh(g.constant([0.0]))).tolist()
[1.0])",
     DTypeClass::analytic, [](Term x, Term, Term g) { return g * of("sinh", x); }},
    {"tanh", R"(
Compute the hyperbolic tangent element-wise.

result = sinh x / cosh x.

Gradient: incoming gradient * (1 - tanh^2 x).
Source: MPSGraph tanhWithTensor:name:.
>>> g.run({}, g.tanh(g.constant([0.0]))).tolist()
[0.0])",
     DTypeClass::analytic, d_tanh},
    {"asin", R"(
Compute the arcsine element-wise, in radians.

result = asin x. Real x gives a result in [-pi/2, pi/2], and NaN outside [-1, 1].

Gradient: incoming gradient / sqrt(1 - x^2).
Source: MPSGraph asinWithTensor:name:.
>>> g.run({}, g.asin(g.constant([0.0]))).tolist()
[0.0])",
     DTypeClass::analytic, d_asin},
    {"acos", R"(
Compute the arccosine element-wise, in radians.

result = acos x. Real x gives a result in [0, pi], and NaN outside [-1, 1].

Gradient: -incoming gradient / sqrt(1 - x^2).
Source: MPSGraph acosWithTensor:name:.
>>> g.run({}, g.acos(g.constant([1.0]))).tolist()
[0.0])",
     DTypeClass::analytic, d_acos},
    {"atan", R"(
Compute the arctangent element-wise, in radians.

result = atan x. Real x gives a result in [-pi/2, pi/2].

Gradient: incoming gradient / (1 + x^2).
Source: MPSGraph atanWithTensor:name:.
>>> g.run({}, g.atan(g.constant([0.0]))).tolist()
[0.0])",
     DTypeClass::analytic, [](Term x, Term, Term g) { return g / (square(x) + 1.0); }},
    {"asinh", R"(
Compute the inverse hyperbolic sine element-wise.

result = ln(x + sqrt(x^2 + 1)).

Gradient: incoming gradient / sqrt(x^2 + 1).
Source: MPSGraph asinhWithTensor:name:.
>>> g.run({}, g.asinh(g.constant([0.0]))).tolist()
[0.0])",
     DTypeClass::analytic, d_asinh},
    {"acosh", R"(
Compute the inverse hyperbolic cosine element-wise.

result = ln(x + sqrt(x^2 - 1)). Real x gives NaN below 1.

Gradient: incoming gradient / sqrt(x^2 - 1).
Source: MPSGraph acoshWithTensor:name:.
>>> g.run({}, g.acosh(g.constant([1.0]))).tolist()
[0.0])",
     DTypeClass::analytic, d_acosh},
    {"atanh", R"(
Compute the inverse hyperbolic tangent element-wise.

result = ln((1 + x) / (1 - x)) / 2. Real x gives NaN outside [-1, 1].

Gradient: incoming gradient / (1 - x^2).
Source: MPSGraph atanhWithTensor:name:.
>>> g.run({}, g.atanh(g.constant([0.0]))).tolist()
[0.0])",
     DTypeClass::analytic, [](Term x, Term, Term g) { return g / one_minus_square(x); }},
    {"erf", R"(
Compute the Gauss error function element-wise.

result = 2 / sqrt(pi) * the integral of e^(-t^2) for t from 0 to x.

Gradient: incoming gradient * 2 / sqrt(pi) * e^(-x^2).
Source: MPSGraph erfWithTensor:name:.
>>> g.run({}, g.erf(g.constant([0.0]))).tolist()
[0.0])",
     DTypeClass::floats, d_erf},
    {"not", R"(
Compute the logical NOT element-wise.

result = not x.

Source: MPSGraph notWithTensor:name:.
>>> g.run({}, g.not_(g.constant([True, False]))).tolist()
[False, True])",
     DTypeClass::booleans, nullptr},
    {"is_infinite", R"(
Return whether elements are positive or negative infinity.

result = |x| == inf, as bool.

Source: MPSGraph isInfiniteWithTensor:name:.
>>> g.run({}, g.is_infinite(g.constant([1.0, float("inf")]))).tolist()
[False, True])",
     DTypeClass::analytic, nullptr, true},
    {"is_finite", R"(
Return whether elements are finite: neither infinite nor NaN.

result = |x| < inf, as bool.

Source: MPSGraph isFiniteWithTensor:name:.
>>> g.run({}, g.is_finite(g.constant([1.0, float("inf")]))).tolist()
[True, False])",
     DTypeClass::analytic, nullptr, true},
    {"is_nan", R"(
Return whether elements are NaN.

result = x != x, as bool.

Source: MPSGraph isNaNWithTensor:name:.
>>> g.run({}, g.is_nan(g.constant([1.0, float("nan")]))).tolist()
[False, True])",
     DTypeClass::analytic, nullptr, true},
    {"bitwise_not", R"(
Invert every bit element-wise.

result = ~x.

Source: MPSGraph bitwiseNOTWithTensor:name:.
>>> g.run({}, g.bitwise_not(g.constant([0, 5]))).tolist()
[-1, -6])",
     DTypeClass::integers, nullptr},
    {"bitwise_population_count", R"(
Count the bits that are set in each element.

result = popcount(x).

Source: MPSGraph bitwisePopulationCountWithTensor:name:.
>>> g.run({}, g.bitwise_population_count(g.constant([0, 7]))).tolist()
[0, 3])",
     DTypeClass::integers, nullptr},
};

}  // namespace

const Family arithmetic_family("arithmetic", [] {
  for (const Unary& row : unary_operations) {
    Gradient gradient;
    if (row.rule) {
      gradient = [rule = row.rule](GradientContext& c) {
        Builder b(c.graph());
        const Term y{&b, b.conjugate(c.output())};
        c.set(0, rule({&b, b.conjugate(c.input(0))}, y, {&b, c.incoming()}).tensor);
      };
    }
    define(pointwise(row.name, "x: number", row.operands, row.predicate, row.documentation, std::move(gradient)));
  }
});

}  // namespace mpsgraph::ops
