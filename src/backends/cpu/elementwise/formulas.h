// The element-wise operations, each defined once, as a formula over elementary steps.
//
// Three users derive their code from these formulas: the loops over vectors of floats and over single elements (tile
// functions), and the recorder of generated machine code. Each passes a type P with the elementary steps:
//   V, M                        values and masks; + - * / and unary - of values
//   splat(x)                    a constant
//   choose(mask, a, b)          a where the mask is set, otherwise b
//   less, less_or_equal, equal, not_equal, is_nan, either
//   least, greatest             the second operand if either is NaN
//   absolute, with_sign_of, sqrt, floor, ceil, truncate, rint
// Functions such as exp are in vector_math.h and double_math.h; the lists below only name them. For integers, P has
// named functions instead of operators, which wrap.
#pragma once

#include <limits>

namespace mpsgraph::cpu {

// float32 and float64; half precision is computed in float32.
template <class P>
struct FloatFormulas {
  using V = typename P::V;
  using M = typename P::M;
  static V zero() { return P::splat(0); }
  static V one() { return P::splat(1); }

  static V identity(V x) { return x; }
  static V conjugate(V x) { return x; }
  static V square(V x) { return x * x; }
  static V absolute_square(V x) { return x * x; }
  static V square_root(V x) { return P::sqrt(x); }
  static V reciprocal_square_root(V x) { return one() / P::sqrt(x); }
  static V reverse_square_root(V x) { return one() / P::sqrt(x); }
  static V reciprocal(V x) { return one() / x; }
  static V absolute(V x) { return P::absolute(x); }
  static V negative(V x) { return -x; }
  static V sign(V x) { return P::choose(P::less(zero(), x), one(), P::choose(P::less(x, zero()), P::splat(-1), x)); }
  static V floor(V x) { return P::floor(x); }
  static V ceil(V x) { return P::ceil(x); }
  static V truncate(V x) { return P::truncate(x); }
  static V rint(V x) { return P::rint(x); }  // ties to even
  static V round(V x) {  // ties away from zero
    const V a = P::absolute(x), t = P::truncate(a);
    return P::with_sign_of(t + P::choose(P::less_or_equal(P::splat(0.5), a - t), one(), zero()), x);
  }
  static V relu(V x) { return P::greatest(zero(), x); }  // NaN stays NaN

  static V addition(V a, V b) { return a + b; }
  static V subtraction(V a, V b) { return a - b; }
  static V multiplication(V a, V b) { return a * b; }
  static V division(V a, V b) { return a / b; }
  static V division_no_nan(V a, V b) { return P::choose(P::not_equal(b, zero()), a / b, zero()); }
  static V minimum(V a, V b) { return P::choose(P::is_nan(a), b, P::choose(P::is_nan(b), a, P::least(a, b))); }
  static V maximum(V a, V b) { return P::choose(P::is_nan(a), b, P::choose(P::is_nan(b), a, P::greatest(a, b))); }
  static V minimum_with_nan_propagation(V a, V b) { return P::choose(P::is_nan(a), a, P::least(a, b)); }
  static V maximum_with_nan_propagation(V a, V b) { return P::choose(P::is_nan(a), a, P::greatest(a, b)); }
  static V relu_gradient(V a, V b) { return P::choose(P::less(zero(), b), a, zero()); }
  static V leaky_relu(V a, V b) { return P::choose(P::less_or_equal(zero(), a), a, a * b); }

  static V leaky_relu_gradient(V a, V b, V c) { return P::choose(P::less_or_equal(zero(), b), a, a * c); }
  // If the bounds are in the wrong order, the result is the upper one. NaN stays NaN.
  static V clamp(V a, V b, V c) { return P::least(c, P::greatest(b, a)); }

  static M equal(V a, V b) { return P::equal(a, b); }
  static M not_equal(V a, V b) { return P::not_equal(a, b); }
  static M less_than(V a, V b) { return P::less(a, b); }
  static M less_than_or_equal_to(V a, V b) { return P::less_or_equal(a, b); }
  static M is_nan(V x) { return P::is_nan(x); }
  static M is_infinite(V x) { return P::equal(P::absolute(x), infinity()); }
  static M is_finite(V x) { return P::less(P::absolute(x), infinity()); }

 private:
  static V infinity() { return P::splat(std::numeric_limits<float>::infinity()); }
};

// clang-format off
// X(operation) for the operations of FloatFormulas, by the number of operands and the result: a float or a mask. Users
// add greater_than and greater_than_or_equal_to by swapping operands.
#define MPSGRAPH_UNARY_FLOATS(X) \
  X(identity) X(conjugate) X(square) X(absolute_square) X(square_root) X(reciprocal_square_root) \
  X(reverse_square_root) X(reciprocal) X(absolute) X(negative) X(sign) X(floor) X(ceil) X(truncate) X(rint) \
  X(round) X(relu)
#define MPSGRAPH_COMMUTATIVE_FLOATS(X) X(addition) X(multiplication)
#define MPSGRAPH_BINARY_FLOATS(X) \
  X(subtraction) X(division) X(division_no_nan) X(minimum) X(maximum) X(minimum_with_nan_propagation) \
  X(maximum_with_nan_propagation) X(relu_gradient) X(leaky_relu)
#define MPSGRAPH_TERNARY_FLOATS(X) X(leaky_relu_gradient) X(clamp)
#define MPSGRAPH_EQUALITIES(X) X(equal) X(not_equal)
#define MPSGRAPH_ORDERS(X) X(less_than) X(less_than_or_equal_to)
#define MPSGRAPH_FLOAT_TESTS(X) X(is_nan) X(is_infinite) X(is_finite)

// X(operation, function) for the functions of VectorMath (float32) and DoubleMath (float64).
#define MPSGRAPH_UNARY_FUNCTIONS(X) \
  X(exponent, exp) X(exponent_base2, exp2) X(exponent_base10, exp10) X(logarithm, log) X(logarithm_base2, log2) \
  X(logarithm_base10, log10) X(sinh, sinh) X(cosh, cosh) X(tanh, tanh) X(asin, asin) X(acos, acos) X(atan, atan) \
  X(erf, erf) X(sigmoid, sigmoid)
#define MPSGRAPH_BINARY_FUNCTIONS(X) X(sigmoid_gradient, sigmoid_gradient)
// Functions of VectorMath only.
#define MPSGRAPH_UNARY_FLOAT_FUNCTIONS(X) X(asinh, asinh) X(acosh, acosh) X(atanh, atanh)
#define MPSGRAPH_BINARY_FLOAT_FUNCTIONS(X) X(atan2, atan2)
// clang-format on

// Integers of all sizes. P has splat, choose, the comparisons less, less_or_equal, equal, and not_equal, least,
// greatest, and arithmetic and bitwise functions that wrap in two's complement.
template <class P>
struct IntegerFormulas {
  using V = typename P::V;
  using M = typename P::M;

  static V identity(V x) { return x; }
  static V conjugate(V x) { return x; }
  static V floor(V x) { return x; }
  static V ceil(V x) { return x; }
  static V truncate(V x) { return x; }
  static V rint(V x) { return x; }
  static V round(V x) { return x; }
  static V square(V x) { return P::product(x, x); }
  static V absolute_square(V x) { return P::product(x, x); }
  static V negative(V x) { return P::difference(P::splat(0), x); }
  static V bitwise_not(V x) { return P::inverse(x); }
  static V addition(V a, V b) { return P::sum(a, b); }
  static V subtraction(V a, V b) { return P::difference(a, b); }
  static V multiplication(V a, V b) { return P::product(a, b); }
  static V bitwise_and(V a, V b) { return P::both(a, b); }
  static V bitwise_or(V a, V b) { return P::either(a, b); }
  static V bitwise_xor(V a, V b) { return P::differ(a, b); }
  static M equal(V a, V b) { return P::equal(a, b); }
  static M not_equal(V a, V b) { return P::not_equal(a, b); }

  // Operations whose results depend on whether the type is signed.
  static V absolute(V x) { return P::choose(P::less(x, P::splat(0)), negative(x), x); }
  static V sign(V x) {
    const V positive = P::choose(P::less(P::splat(0), x), P::splat(1), P::splat(0));
    return P::choose(P::less(x, P::splat(0)), P::splat(-1), positive);
  }
  static V minimum(V a, V b) { return P::least(a, b); }
  static V maximum(V a, V b) { return P::greatest(a, b); }
  static V minimum_with_nan_propagation(V a, V b) { return P::least(a, b); }
  static V maximum_with_nan_propagation(V a, V b) { return P::greatest(a, b); }
  static V relu(V x) { return P::greatest(x, P::splat(0)); }
  static V relu_gradient(V a, V b) { return P::choose(P::less(P::splat(0), b), a, P::splat(0)); }
  // If the bounds are in the wrong order, the result is the upper one.
  static V clamp(V a, V b, V c) { return P::least(c, P::greatest(b, a)); }
  static M less_than(V a, V b) { return P::less(a, b); }
  static M less_than_or_equal_to(V a, V b) { return P::less_or_equal(a, b); }
  static M signbit(V x) { return P::less(x, P::splat(0)); }
};

// clang-format off
// X(operation) for the operations of IntegerFormulas. The results of ordered operations depend on whether the type is
// signed.
#define MPSGRAPH_UNARY_INTEGERS(X) \
  X(identity) X(conjugate) X(floor) X(ceil) X(truncate) X(rint) X(round) X(square) X(absolute_square) X(negative) \
  X(bitwise_not)
#define MPSGRAPH_COMMUTATIVE_INTEGERS(X) X(addition) X(multiplication) X(bitwise_and) X(bitwise_or) X(bitwise_xor)
#define MPSGRAPH_BINARY_INTEGERS(X) X(subtraction)
#define MPSGRAPH_UNARY_ORDERED_INTEGERS(X) X(absolute) X(sign) X(relu)
#define MPSGRAPH_COMMUTATIVE_ORDERED_INTEGERS(X) \
  X(minimum) X(maximum) X(minimum_with_nan_propagation) X(maximum_with_nan_propagation)
#define MPSGRAPH_BINARY_ORDERED_INTEGERS(X) X(relu_gradient)
#define MPSGRAPH_TERNARY_ORDERED_INTEGERS(X) X(clamp)
#define MPSGRAPH_INTEGER_TESTS(X) X(signbit)
// clang-format on

// Booleans. P has both, either, differ, and inverse.
template <class P>
struct MaskFormulas {
  using M = typename P::M;
  static M identity(M x) { return x; }
  static M logical_not(M x) { return P::inverse(x); }
  static M logical_and(M a, M b) { return P::both(a, b); }
  static M logical_or(M a, M b) { return P::either(a, b); }
  static M logical_nand(M a, M b) { return P::inverse(P::both(a, b)); }
  static M logical_nor(M a, M b) { return P::inverse(P::either(a, b)); }
  static M logical_xor(M a, M b) { return P::differ(a, b); }
  static M logical_xnor(M a, M b) { return P::inverse(P::differ(a, b)); }
  static M equal(M a, M b) { return P::inverse(P::differ(a, b)); }
  static M not_equal(M a, M b) { return P::differ(a, b); }
};

// clang-format off
// The operation `not` is missing, because its name is a keyword.
#define MPSGRAPH_BINARY_MASKS(X) \
  X(logical_and) X(logical_or) X(logical_nand) X(logical_nor) X(logical_xor) X(logical_xnor) X(equal) X(not_equal)
// clang-format on

}  // namespace mpsgraph::cpu
