// Element-wise arithmetic and comparisons, most of which are a single MPSGraph method.
//
// This library defines some cases that Apple's documentation leaves open: integer division by zero, NaN in minimum,
// maximum, and sign, ties in round, crossing bounds in clamp, and bool in comparisons. Such operations are composed of
// operations with documented results. Complex operands are handled in complex.mm; logic and bitwise operations are in
// bits.mm.
#include "backends/metal/complex.h"

namespace mpsgraph::metal {
namespace {

#define UNARY(kind, method)                                                                              \
  define_lowering(kind, [](Lowering& l) -> GraphTensors {                                                \
    return is_complex(l.dtype()) ? lower_complex(l)                                                      \
                                 : GraphTensors{[l.graph() method##WithTensor:l.input() name:l.name()]}; \
  })
#define BINARY(kind, method)                                                                            \
  define_lowering(kind, [](Lowering& l) -> GraphTensors {                                               \
    return {[l.graph() method##WithPrimaryTensor:l.input(0) secondaryTensor:l.input(1) name:l.name()]}; \
  })

void define_functions() {
  UNARY("exponent", exponent);
  UNARY("exponent_base2", exponentBase2);
  UNARY("exponent_base10", exponentBase10);
  UNARY("logarithm", logarithm);
  UNARY("logarithm_base2", logarithmBase2);
  UNARY("logarithm_base10", logarithmBase10);
  UNARY("square_root", squareRoot);
  UNARY("reciprocal", reciprocal);
  UNARY("ceil", ceil);
  UNARY("floor", floor);
  UNARY("rint", rint);
  UNARY("truncate", truncate);
  UNARY("sin", sin);
  UNARY("cos", cos);
  UNARY("tan", tan);
  UNARY("sinh", sinh);
  UNARY("cosh", cosh);
  UNARY("tanh", tanh);
  UNARY("asin", asin);
  UNARY("acos", acos);
  UNARY("atan", atan);
  UNARY("asinh", asinh);
  UNARY("acosh", acosh);
  UNARY("atanh", atanh);
  UNARY("erf", erf);
  UNARY("is_infinite", isInfinite);
  UNARY("is_finite", isFinite);
  UNARY("is_nan", isNaN);
}

GraphTensors lower_identity(Lowering& l) { return {[l.graph() identityWithTensor:l.input() name:l.name()]}; }

// reverseSquareRoot is the older name of the reciprocal square root; it has been deprecated since macOS 15.
GraphTensors lower_reciprocal_square_root(Lowering& l) {
  if (is_complex(l.dtype())) return lower_complex(l);
  if (METAL_AVAILABLE(15.0, 18.0)) return {[l.graph() reciprocalSquareRootWithTensor:l.input() name:l.name()]};
  return {[l.graph() reverseSquareRootWithTensor:l.input() name:l.name()]};
}

// --- integers as operands of functions that Apple documents for floats only ------------------------------------------

GraphTensors lower_square(Lowering& l) {
  if (is_complex(l.dtype())) return lower_complex(l);
  if (!is_float(l.dtype())) return input(l) * input(l);
  return {[l.graph() squareWithTensor:l.input() name:l.name()]};
}

GraphTensors lower_absolute(Lowering& l) {
  if (is_complex(l.dtype())) return lower_complex(l);
  if (is_float(l.dtype())) return {[l.graph() absoluteWithTensor:l.input() name:l.name()]};
  const Term x = input(l);
  return select(x < 0, x.constant(0) - x, x);
}

GraphTensors lower_absolute_square(Lowering& l) { return is_complex(l.dtype()) ? lower_complex(l) : lower_square(l); }

GraphTensors lower_negative(Lowering& l) {
  if (!is_float(l.dtype())) return is_complex(l.dtype()) ? lower_complex(l) : GraphTensors(0 - input(l));
  return {[l.graph() negativeWithTensor:l.input() name:l.name()]};
}

GraphTensors lower_sign(Lowering& l) {
  const Term x = input(l);
  if (!is_float(l.dtype())) return select(x > 0, x.constant(1), select(x < 0, x.constant(0) - 1, 0));
  return select(is_nan(x), x, x.with([l.graph() signWithTensor:l.input() name:l.name()]));
}

GraphTensors lower_signbit(Lowering& l) {
  if (!is_float(l.dtype())) return input(l) < 0;
  return {[l.graph() signbitWithTensor:l.input() name:l.name()]};
}

// Rounds to the nearest integer, with ties away from zero.
GraphTensors lower_round(Lowering& l) {
  const Term x = input(l), whole = truncate(x);
  const Term away = whole + x.with([l.graph() signWithTensor:x.tensor() name:nil]);
  return select(absolute(x - whole) >= 0.5, away, whole);
}

// --- two operands ----------------------------------------------------------------------------------------------------

GraphTensors lower_arithmetic(Lowering& l, Term (*method)(const Term&, const Term&)) {
  if (is_complex(l.dtype())) return lower_complex(l);
  return method(input(l, 0), input(l, 1));
}

// Replace the divisors 0 and -1 with 1, because hardware behavior varies for them.
Term safe_divisor(const Lowering& l, const Term& b) {
  const Term bad = is_signed(l.dtype()) ? either(b == 0, b == b.constant(0) - 1) : b == 0;
  return select(bad, 1, b);
}

// Integer division by zero gives 0; the minimum divided by -1 wraps around.
GraphTensors lower_division(Lowering& l) {
  if (is_complex(l.dtype())) return lower_complex(l);
  const Term a = input(l, 0), b = input(l, 1);
  if (is_float(l.dtype())) return a / b;
  Term quotient = a / safe_divisor(l, b);
  if (is_signed(l.dtype())) quotient = select(b == b.constant(0) - 1, 0 - a, quotient);
  return select(b == 0, 0, quotient);
}

GraphTensors lower_division_no_nan(Lowering& l) {
  return is_float(l.dtype()) ? GraphTensors(quotient_or_zero(input(l, 0), input(l, 1))) : lower_division(l);
}

Term remainder(Lowering& l, const Term& a, const Term& b) {
  const Term divisor = is_float(l.dtype()) ? b : safe_divisor(l, b);
  return apply(a, divisor, [](MPSGraph* g, MPSGraphTensor* x, MPSGraphTensor* y) {
    return [g moduloWithPrimaryTensor:x secondaryTensor:y name:nil];
  });
}

GraphTensors lower_modulo(Lowering& l) {
  const Term a = input(l, 0), b = input(l, 1), r = remainder(l, a, b);
  return is_float(l.dtype()) ? r : select(b == 0, 0, r);
}

// MPSGraph's floorModulo gives 0 for divisor 0; this operation must give NaN.
GraphTensors lower_floor_modulo(Lowering& l) {
  const Term a = input(l, 0), b = input(l, 1), r = remainder(l, a, b);
  const Term moved = select(both(r != 0, differ(r < 0, b < 0)), r + b, r);
  return is_float(l.dtype()) ? moved : select(b == 0, 0, moved);
}

// Compute integer powers by repeated squaring with wraparound, because Apple does not document integer powers. Negative
// exponents give 1 / base, truncated.
Term integer_power(const Lowering& l, const Term& base, const Term& exponent) {
  Term result = base.constant(1), square = base, left = exponent;
  const Term two = base.constant(2);
  const bool has_sign = is_signed(l.dtype());
  const int bits = 8 * static_cast<int>(size_of(l.dtype())) - has_sign;
  for (int bit = 0; bit < bits; ++bit) {
    const Term half = left / two;
    result = select(left > half * two, result * square, result);
    square = square * square;
    left = half;
  }
  if (!has_sign) return result;
  const Term minus_one = base.constant(0) - 1;
  const Term odd = exponent != exponent / two * two;
  const Term inverse = select(base == 1, 1, select(base == minus_one, select(odd, minus_one, 1), result.constant(0)));
  return select(exponent < 0, inverse, result);
}

GraphTensors lower_power(Lowering& l) {
  if (is_complex(l.dtype())) return lower_complex(l);
  if (is_integer(l.dtype())) return integer_power(l, input(l, 0), input(l, 1));
  return {[l.graph() powerWithPrimaryTensor:l.input(0) secondaryTensor:l.input(1) name:l.name()]};
}

// If one operand is NaN, return the other operand.
GraphTensors number_first(Lowering& l, const Term& chosen) {
  if (!is_float(l.dtype())) return chosen;
  const Term a = input(l, 0), b = input(l, 1);
  return select(is_nan(a), b, select(is_nan(b), a, chosen));
}
MPSGraphTensor* smaller(MPSGraph* graph, MPSGraphTensor* a, MPSGraphTensor* b) {
  return [graph minimumWithPrimaryTensor:a secondaryTensor:b name:nil];
}
MPSGraphTensor* larger(MPSGraph* graph, MPSGraphTensor* a, MPSGraphTensor* b) {
  return [graph maximumWithPrimaryTensor:a secondaryTensor:b name:nil];
}
GraphTensors lower_minimum(Lowering& l) { return number_first(l, apply(input(l, 0), input(l, 1), smaller)); }
GraphTensors lower_maximum(Lowering& l) { return number_first(l, apply(input(l, 0), input(l, 1), larger)); }

GraphTensors lower_minimum_with_nan_propagation(Lowering& l) {
  if (!is_float(l.dtype())) return lower_minimum(l);
  return {[l.graph() minimumWithNaNPropagationWithPrimaryTensor:l.input(0) secondaryTensor:l.input(1) name:l.name()]};
}
GraphTensors lower_maximum_with_nan_propagation(Lowering& l) {
  if (!is_float(l.dtype())) return lower_maximum(l);
  return {[l.graph() maximumWithNaNPropagationWithPrimaryTensor:l.input(0) secondaryTensor:l.input(1) name:l.name()]};
}

// --- comparisons -----------------------------------------------------------------------------------------------------

using Compare = Term (*)(const Term&, const Term&);
// For bool, false is less than true.
GraphTensors lower_comparison(Lowering& l, Compare numbers, Compare truths) {
  if (is_complex(l.dtype())) return lower_complex(l);
  return (l.dtype() == DType::boolean ? truths : numbers)(input(l, 0), input(l, 1));
}

void define_comparisons() {
#define COMPARISON(kind, operation, truths)                            \
  define_lowering(kind, [](Lowering& l) {                              \
    return lower_comparison(                                           \
        l, [](const Term& a, const Term& b) { return a operation b; }, \
        [](const Term& a, const Term& b) { return truths; });          \
  })
  COMPARISON("equal", ==, !differ(a, b));
  COMPARISON("not_equal", !=, differ(a, b));
  COMPARISON("less_than", <, both(!a, b));
  COMPARISON("less_than_or_equal_to", <=, either(!a, b));
  COMPARISON("greater_than", >, both(a, !b));
  COMPARISON("greater_than_or_equal_to", >=, either(a, !b));
}

// --- three operands --------------------------------------------------------------------------------------------------

GraphTensors lower_select(Lowering& l) {
  if (!is_complex(l.dtype(1))) return select(input(l, 0), input(l, 1), input(l, 2));
  return {complex_tensor(l, select(input(l, 0), parts_of(l, l.input(1)), parts_of(l, l.input(2))))};
}

// If the bounds cross, the result is the upper bound. NaN stays NaN.
GraphTensors lower_clamp(Lowering& l) {
  const Term x = input(l, 0), low = input(l, 1), high = input(l, 2), raised = select(x < low, low, x);
  return select(raised > high, high, raised);
}

void define_binary_arithmetic() {
  define_lowering("addition", [](Lowering& l) { return lower_arithmetic(l, operator+); });
  define_lowering("subtraction", [](Lowering& l) { return lower_arithmetic(l, operator-); });
  define_lowering("multiplication", [](Lowering& l) { return lower_arithmetic(l, operator*); });
  define_lowering("division", lower_division);
  define_lowering("division_no_nan", lower_division_no_nan);
  define_lowering("modulo", lower_modulo);
  define_lowering("floor_modulo", lower_floor_modulo);
  define_lowering("power", lower_power);
  define_lowering("minimum", lower_minimum);
  define_lowering("maximum", lower_maximum);
  define_lowering("minimum_with_nan_propagation", lower_minimum_with_nan_propagation);
  define_lowering("maximum_with_nan_propagation", lower_maximum_with_nan_propagation);
  BINARY("atan2", atan2);
}

}  // namespace

const Lowerings arithmetic_lowerings("arithmetic", [] {
  define_functions();
  define_lowering("identity", lower_identity);
  define_lowering("reciprocal_square_root", lower_reciprocal_square_root);
  define_lowering("reverse_square_root", lower_reciprocal_square_root);
  define_lowering("square", lower_square);
  define_lowering("absolute", lower_absolute);
  define_lowering("absolute_square", lower_absolute_square);
  define_lowering("negative", lower_negative);
  define_lowering("sign", lower_sign);
  define_lowering("signbit", lower_signbit);
  define_lowering("round", lower_round);
  define_binary_arithmetic();
  define_comparisons();
  define_lowering("select", lower_select);
  define_lowering("clamp", lower_clamp);
});

}  // namespace mpsgraph::metal

#undef UNARY
#undef BINARY
#undef COMPARISON
