// Element-wise operations on two and three operands: arithmetic, comparisons, logic, bit operations, select, and clamp.
// Each row of the table is an operation: documentation, dtypes, and derivative.
//
// Operands broadcast as in numpy and share one dtype. A derivative produces each operand's gradient with the broadcast
// shape; sum_to_like then sums over the broadcast axes. Edge cases follow these conventions: equal operands of minimum
// and maximum share the gradient equally. If one operand is NaN and the result is not, the NaN operand gets gradient
// zero; where the result is NaN, both operands get gradient NaN. clamp passes the gradient at its bounds. Derivative
// rules receive complex operands and results conjugated, as in arithmetic.cpp.
#include "core/ops/elementwise.h"
#include "core/ops/extrema.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

// ---- two operands ----

struct Pair {  // gradients of the two operands at the result's shape; null where not needed
  Tensor* a = nullptr;
  Tensor* b = nullptr;
};
struct Incoming {
  Builder& b;
  Tensor *x, *z, *y, *g;  // operands x and z, result y, gradient g of the result
  bool need_x, need_z;
};
using BinaryRule = Pair (*)(const Incoming&);
struct Binary {
  Kind name;
  std::string_view documentation;
  DTypeClass operands;
  BinaryRule rule;  // null if the gradients are zero
  bool predicate = false;
};

Pair d_addition(const Incoming& i) { return {i.g, i.g}; }
Pair d_subtraction(const Incoming& i) { return {i.g, i.need_z ? i.b.neg(i.g) : nullptr}; }
Pair d_multiplication(const Incoming& i) {
  return {i.need_x ? i.b.mul(i.g, i.z) : nullptr, i.need_z ? i.b.mul(i.g, i.x) : nullptr};
}
Pair d_quotient(const Incoming& i, Kind division) {
  Tensor* quotient = i.b.binary(division, i.g, i.z);
  return {quotient, i.need_z ? i.b.neg(i.b.mul(quotient, i.y)) : nullptr};  // -g x / z² = -(g/z) y
}
Pair d_division(const Incoming& i) { return d_quotient(i, "division"); }
Pair d_division_no_nan(const Incoming& i) { return d_quotient(i, "division_no_nan"); }

// y = x - n z with an integer n, so dy/dz = -n. n is computed as (x - y) / z, because x / z alone may round up to the
// next integer.
Pair d_remainder(const Incoming& i) {
  if (!i.need_z) return {i.g, nullptr};
  Tensor* n = i.b.unary("rint", i.b.div(i.b.sub(i.x, i.y), i.z));
  return {i.g, i.b.neg(i.b.mul(i.g, n))};
}

// Derivative of y = power(x, z) = x^z: dy/dx = z x^(z-1), and 0 where z = 0 for any x; dy/dz = x^z ln x, and 0 where x
// = 0 <= z. The selects guard the operands rather than the results, so that higher derivatives contain no NaN either.
Pair d_power(const Incoming& i) {
  Builder& b = i.b;
  Pair result;
  Tensor* zero = b.scalar_like(i.z, 0);
  Tensor* one = b.scalar_like(i.z, 1);
  if (i.need_x) {
    Tensor* exponent = b.sub(b.select(b.binary("equal", i.z, zero), one, i.z), 1.0);
    result.a = b.mul(i.g, b.mul(i.z, b.binary("power", i.x, exponent)));
  }
  if (i.need_z) {
    Tensor* flat = b.binary("equal", i.x, zero);
    if (!is_complex(i.z->dtype()))
      flat = b.binary("logical_and", flat, b.binary("greater_than_or_equal_to", i.z, zero));
    result.b = b.mul(i.g, b.mul(i.y, b.unary("logarithm", b.select(flat, one, i.x))));
  }
  return result;
}

Pair d_extremum(const Incoming& i) {
  Builder& b = i.b;
  Tensor* half = b.mul(i.g, 0.5);
  Tensor* share = b.select(b.binary("equal", i.x, i.z), half, i.g);
  Tensor* other = zero_or_nan(b, i.y);
  auto chosen = [&](Tensor* operand) { return b.select(b.binary("equal", i.y, operand), share, other); };
  return {i.need_x ? chosen(i.x) : nullptr, i.need_z ? chosen(i.z) : nullptr};
}

// Derivative of y = atan2(x, z): dy/dx = z / (x² + z²) and dy/dz = -x / (x² + z²), both 0 at the origin.
Pair d_atan2(const Incoming& i) {
  Builder& b = i.b;
  Tensor* square_of_z = b.unary("square", i.z);
  Tensor* over = b.binary("division_no_nan", i.g, b.add(b.unary("square", i.x), square_of_z));
  return {i.need_x ? b.mul(over, i.z) : nullptr, i.need_z ? b.neg(b.mul(over, i.x)) : nullptr};
}

const Binary binary_operations[] = {
    {"addition", R"(
Add two operands element-wise.

result = primary + secondary.

Gradient: the incoming gradient to both operands, summed over broadcast axes.
Source: MPSGraph additionWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.addition(g.constant([1.0, 2.0]), 10)).tolist()
[11.0, 12.0])",
     DTypeClass::algebraic, d_addition},
    {"subtraction", R"(
Subtract secondary from primary element-wise.

result = primary - secondary.

Gradient: the incoming gradient to primary and its negative to secondary, summed over broadcast axes.
Source: MPSGraph subtractionWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.subtraction(g.constant([5.0, 2.0]), 2)).tolist()
[3.0, 0.0])",
     DTypeClass::algebraic, d_subtraction},
    {"multiplication", R"(
Multiply two operands element-wise.

result = primary * secondary.

Gradient: incoming gradient * secondary to primary and incoming gradient * primary to secondary, summed over
broadcast axes.
Source: MPSGraph multiplicationWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.multiplication(g.constant([1.0, 2.0]), 3)).tolist()
[3.0, 6.0])",
     DTypeClass::algebraic, d_multiplication},
    {"division", R"(
Divide primary by secondary element-wise; integer quotients are rounded toward zero.

result = primary / secondary.

Gradient: incoming gradient / secondary to primary and -incoming gradient * primary / secondary^2 to secondary,
summed over broadcast axes.
Source: MPSGraph divisionWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.division(g.constant([1.0, 3.0]), 2)).tolist()
[0.5, 1.5])",
     DTypeClass::algebraic, d_division},
    {"division_no_nan", R"(
Divide primary by secondary element-wise, returning 0 where the divisor is 0.

result = secondary == 0 ? 0 : primary / secondary.

Gradient: the gradient of division where secondary is nonzero, and zero elsewhere, summed over broadcast axes.
Source: MPSGraph divisionNoNaNWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.division_no_nan(g.constant([1.0, 1.0]), g.constant([2.0, 0.0]))).tolist()
[0.5, 0.0])",
     DTypeClass::algebraic, d_division_no_nan},
    {"modulo", R"(
Compute the remainder with the sign of the dividend element-wise, as C's fmod does.

result = primary - secondary * truncate(primary / secondary).

Gradient: the incoming gradient to primary and -incoming gradient * truncate(primary / secondary) to secondary,
summed over broadcast axes.
Source: MPSGraph moduloWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.modulo(g.constant([5.0, -5.0]), 3)).tolist()
[2.0, -2.0])",
     DTypeClass::numbers, d_remainder},
    {"floor_modulo", R"(
Compute the remainder with the sign of the divisor element-wise, as Python's % does.

result = primary - secondary * floor(primary / secondary).

Gradient: the incoming gradient to primary and -incoming gradient * floor(primary / secondary) to secondary,
summed over broadcast axes.
Source: MPSGraph floorModuloWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.floor_modulo(g.constant([5.0, -5.0]), 3)).tolist()
[2.0, 1.0])",
     DTypeClass::numbers, d_remainder},
    {"power", R"(
Raise primary to the power secondary element-wise.

result = primary^secondary.

Gradient: incoming gradient * secondary * primary^(secondary - 1) to primary and incoming gradient * result *
ln(primary) to secondary, summed over broadcast axes.
Source: MPSGraph powerWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.power(g.constant([2.0, 3.0]), 2)).tolist()
[4.0, 9.0])",
     DTypeClass::algebraic, d_power},
    {"minimum", R"(
Return the smaller of two operands element-wise; if one is NaN, return the other.

result = min(primary, secondary).

Gradient: the incoming gradient to the selected operand, split equally between operands that are equal. An
operand that is NaN gets zero if the other was selected; both operands get NaN where the result is NaN.
Gradients are summed over broadcast axes.
Source: MPSGraph minimumWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.minimum(g.constant([1.0, 5.0]), 3)).tolist()
[1.0, 3.0])",
     DTypeClass::numbers, d_extremum},
    {"maximum", R"(
Return the larger of two operands element-wise; if one is NaN, return the other.

result = max(primary, secondary).

Gradient: the incoming gradient to the selected operand, split equally between operands that are equal. An
operand that is NaN gets zero if the other was selected; both operands get NaN where the result is NaN.
Gradients are summed over broadcast axes.
Source: MPSGraph maximumWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.maximum(g.constant([1.0, 5.0]), 3)).tolist()
[3.0, 5.0])",
     DTypeClass::numbers, d_extremum},
    {"minimum_with_nan_propagation", R"(
Return the smaller of two operands element-wise, or NaN if either is NaN.

result = min(primary, secondary).

Gradient: the incoming gradient to the selected operand, split equally between operands that are equal; NaN to
both operands where the result is NaN. Gradients are summed over broadcast axes.
Source: MPSGraph minimumWithNaNPropagationWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.minimum_with_nan_propagation(g.constant([1.0, 5.0]), 3)).tolist()
[1.0, 3.0])",
     DTypeClass::numbers, d_extremum},
    {"maximum_with_nan_propagation", R"(
Return the larger of two operands element-wise, or NaN if either is NaN.

result = max(primary, secondary).

Gradient: the incoming gradient to the selected operand, split equally between operands that are equal; NaN to
both operands where the result is NaN. Gradients are summed over broadcast axes.
Source: MPSGraph maximumWithNaNPropagationWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.maximum_with_nan_propagation(g.constant([1.0, 5.0]), 3)).tolist()
[3.0, 5.0])",
     DTypeClass::numbers, d_extremum},
    {"atan2", R"(
Compute the angle of the point (secondary, primary) element-wise, in radians in [-pi, pi].

result = atan2(primary, secondary).

Gradient: incoming gradient * secondary / (primary^2 + secondary^2) to primary and -incoming gradient * primary
/ (primary^2 + secondary^2) to secondary, summed over broadcast axes.
Source: MPSGraph atan2WithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.atan2(g.constant([0.0]), 1)).tolist()
[0.0])",
     DTypeClass::floats, d_atan2},
    {"equal", R"(
Return whether the operands are equal, element-wise.

result = primary == secondary, as bool.

Source: MPSGraph equalWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.equal(g.constant([1, 2]), 2)).tolist()
[False, True])",
     DTypeClass::any, nullptr, true},
    {"not_equal", R"(
Return whether the operands differ, element-wise.

result = primary != secondary, as bool.

Source: MPSGraph notEqualWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.not_equal(g.constant([1, 2]), 2)).tolist()
[True, False])",
     DTypeClass::any, nullptr, true},
    {"less_than", R"(
Return whether primary is less than secondary, element-wise.

result = primary < secondary, as bool.

Source: MPSGraph lessThanWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.less_than(g.constant([1, 2]), 2)).tolist()
[True, False])",
     DTypeClass::ordered, nullptr, true},
    {"less_than_or_equal_to", R"(
Return whether primary is less than or equal to secondary, element-wise.

result = primary <= secondary, as bool.

Source: MPSGraph lessThanOrEqualToWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.less_than_or_equal_to(g.constant([2, 3]), 2)).tolist()
[True, False])",
     DTypeClass::ordered, nullptr, true},
    {"greater_than", R"(
Return whether primary is greater than secondary, element-wise.

result = primary > secondary, as bool.

Source: MPSGraph greaterThanWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.greater_than(g.constant([2, 3]), 2)).tolist()
[False, True])",
     DTypeClass::ordered, nullptr, true},
    {"greater_than_or_equal_to", R"(
Return whether primary is greater than or equal to secondary, element-wise.

result = primary >= secondary, as bool.

Source: MPSGraph greaterThanOrEqualToWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.greater_than_or_equal_to(g.constant([1, 2]), 2)).tolist()
[False, True])",
     DTypeClass::ordered, nullptr, true},
    {"logical_and", R"(
Compute the logical AND element-wise: True where both operands are true.

result = primary and secondary.

Source: MPSGraph logicalANDWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.logical_and(g.constant([True, False]), True)).tolist()
[True, False])",
     DTypeClass::booleans, nullptr},
    {"logical_or", R"(
Compute the logical OR element-wise: True where at least one operand is true.

result = primary or secondary.

Source: MPSGraph logicalORWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.logical_or(g.constant([True, False]), False)).tolist()
[True, False])",
     DTypeClass::booleans, nullptr},
    {"logical_nand", R"(
Compute the logical NAND element-wise: True where at least one operand is false.

result = not (primary and secondary).

Source: MPSGraph logicalNANDWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.logical_nand(g.constant([True, False]), True)).tolist()
[False, True])",
     DTypeClass::booleans, nullptr},
    {"logical_nor", R"(
Compute the logical NOR element-wise: True where both operands are false.

result = not (primary or secondary).

Source: MPSGraph logicalNORWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.logical_nor(g.constant([True, False]), False)).tolist()
[False, True])",
     DTypeClass::booleans, nullptr},
    {"logical_xor", R"(
Compute the logical XOR element-wise: True where exactly one operand is true.

result = primary != secondary.

Source: MPSGraph logicalXORWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.logical_xor(g.constant([True, False]), True)).tolist()
[False, True])",
     DTypeClass::booleans, nullptr},
    {"logical_xnor", R"(
Compute the logical XNOR element-wise: True where the operands are equal.

result = primary == secondary.

Source: MPSGraph logicalXNORWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.logical_xnor(g.constant([True, False]), True)).tolist()
[True, False])",
     DTypeClass::booleans, nullptr},
    {"bitwise_and", R"(
Compute the bitwise AND element-wise.

result = primary & secondary.

Source: MPSGraph bitwiseANDWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.bitwise_and(g.constant([6, 5]), 3)).tolist()
[2, 1])",
     DTypeClass::integers, nullptr},
    {"bitwise_or", R"(
Compute the bitwise OR element-wise.

result = primary | secondary.

Source: MPSGraph bitwiseORWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.bitwise_or(g.constant([6, 5]), 3)).tolist()
[7, 7])",
     DTypeClass::integers, nullptr},
    {"bitwise_xor", R"(
Compute the bitwise XOR element-wise.

result = primary ^ secondary.

Source: MPSGraph bitwiseXORWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.bitwise_xor(g.constant([6, 5]), 3)).tolist()
[5, 6])",
     DTypeClass::integers, nullptr},
    {"bitwise_left_shift", R"(
Shift bits to the left element-wise.

result = primary << secondary.

Args:
    secondary: Number of bits to shift by, with the same dtype and a shape that broadcasts with primary's.
Source: MPSGraph bitwiseLeftShiftWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.bitwise_left_shift(g.constant([1, 3]), 2)).tolist()
[4, 12])",
     DTypeClass::integers, nullptr},
    {"bitwise_right_shift", R"(
Shift bits to the right element-wise; signed integers keep their sign.

result = primary >> secondary.

Args:
    secondary: Number of bits to shift by, with the same dtype and a shape that broadcasts with primary's.
Source: MPSGraph bitwiseRightShiftWithPrimaryTensor:secondaryTensor:name:.
>>> g.run({}, g.bitwise_right_shift(g.constant([8, -8]), 2)).tolist()
[2, -2])",
     DTypeClass::integers, nullptr},
};

// ---- three operands ----

std::vector<TensorType> infer_select(const InferContext& c) {
  if (c.dtype(0) != DType::boolean)
    c.dtype_error(cat("predicate must be bool, got ", c.dtype(0), "; compare it with something or cast it to bool"));
  c.require_same_dtype(1);
  return {{c.dtype(1), broadcast_shapes(c)}};
}

void d_select(GradientContext& c) {
  Builder b(c.graph());
  Tensor* zero = b.scalar_like(c.incoming(), 0);
  if (c.needs(1)) c.set(1, b.sum_to_like(b.select(c.input(0), c.incoming(), zero), c.input(1)));
  if (c.needs(2)) c.set(2, b.sum_to_like(b.select(c.input(0), zero, c.incoming()), c.input(2)));
}

// clamp(x, low, high) = minimum(maximum(x, low), high), so `high` wins where low > high.
void d_clamp(GradientContext& c) {
  Builder b(c.graph());
  Tensor *x = c.input(0), *low = c.input(1), *high = c.input(2);
  Tensor* zero = b.scalar_like(c.incoming(), 0);
  auto set = [&](size_t i, Tensor* mask) { c.set(i, b.sum_to_like(b.select(mask, c.incoming(), zero), c.input(i))); };
  if (c.needs(0)) {
    Tensor* not_above = b.binary("less_than_or_equal_to", x, high);
    set(0, b.binary("logical_and", b.binary("greater_than_or_equal_to", x, low), not_above));
  }
  if (c.needs(1)) {
    Tensor* ordered = b.binary("less_than", low, high);
    set(1, b.binary("logical_and", b.binary("less_than", x, low), ordered));
  }
  if (c.needs(2)) {
    Tensor* reversed = b.binary("less_than", high, low);
    set(2, b.binary("logical_or", b.binary("greater_than", x, high), reversed));
  }
}

constexpr std::string_view select_documentation = R"(
Choose between two tensors element-wise.

result = predicate ? when_true : when_false. Both operands are computed, but a NaN in the operand that is not
chosen does not reach the result.

Args:
    predicate: Bool tensor that selects when_true where it is True.
    when_true: Tensor or number of any dtype.
    when_false: Tensor or number with the dtype of when_true.
Returns: A tensor of the broadcast shape of all three operands, with the dtype of when_true.
Raises:
    ShapeError: If the shapes do not broadcast.
    DTypeError: If predicate is not bool, or the dtypes of when_true and when_false differ.
Gradient: the incoming gradient to when_true where predicate is True, and to when_false elsewhere.
Source: MPSGraph selectWithPredicateTensor:truePredicateTensor:falsePredicateTensor:name:.
>>> g.run({}, g.select(g.constant([True, False]), 1.0, 2.0)).tolist()
[1.0, 2.0])";

constexpr std::string_view clamp_documentation = R"(
Limit x to the range from minimum to maximum element-wise.

result = min(max(x, minimum), maximum). NaN in x stays NaN; a NaN bound does not limit x.

Args:
    minimum: Lower bound, with the dtype of x and a shape that broadcasts with it.
    maximum: Upper bound, with the dtype of x and a shape that broadcasts with it.
Gradient: the incoming gradient to x where minimum <= x <= maximum, and elsewhere to the bound that was
selected.
Source: MPSGraph clampWithTensor:minValueTensor:maxValueTensor:name:.
>>> g.run({}, g.clamp(g.constant([-1.0, 0.5, 7.0]), 0, 1)).tolist()
[0.0, 0.5, 1.0])";

}  // namespace

const Family arithmetic_binary_family("arithmetic", [] {
  for (const Binary& row : binary_operations) {
    Gradient gradient;
    if (row.rule) {
      gradient = [rule = row.rule](GradientContext& c) {
        Builder b(c.graph());
        Pair pair = rule({b, b.conjugate(c.input(0)), b.conjugate(c.input(1)), b.conjugate(c.output()), c.incoming(),
                          c.needs(0), c.needs(1)});
        if (c.needs(0)) c.set(0, b.sum_to_like(pair.a, c.input(0)));
        if (c.needs(1)) c.set(1, b.sum_to_like(pair.b, c.input(1)));
      };
    }
    define(pointwise(row.name, "primary: number, secondary: number", row.operands, row.predicate, row.documentation,
                     std::move(gradient)));
  }
  define(elementwise("select", "predicate: mask, when_true: number, when_false: number", DTypeClass::any,
                     select_documentation, infer_select, d_select));
  define(pointwise("clamp", "x: number, minimum: number, maximum: number", DTypeClass::numbers, false,
                   clamp_documentation, d_clamp));
});

}  // namespace mpsgraph::ops
