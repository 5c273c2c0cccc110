// Element-wise arithmetic, comparison, logic, and selection: signature, type inference, and derivative of each
// operation.
//
// Each operation is one table row. Operands broadcast as in numpy and share one dtype. A derivative produces each
// operand's gradient with the broadcast shape; sum_to_like then sums over the broadcast axes. Edge cases follow these
// conventions: equal operands of minimum and maximum share the gradient equally. If one operand is NaN and the result
// is not, the NaN operand gets gradient zero; where the result is NaN, both operands get gradient NaN. clamp passes the
// gradient at its bounds. Operations that are constant almost everywhere (sign, floor, comparisons, ...) have gradient
// zero. Derivative rules receive complex operands and results conjugated, which makes the rules correct for analytic
// functions (arithmetic_complex.cpp explains why).
#include <numbers>

#include "core/ops/elementwise.h"
#include "core/ops/extrema.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

// Inference for operands that all have the same dtype, which must belong to the class `wanted`. The result has that
// dtype, or bool for predicates.
Infer pointwise(Operands wanted, bool predicate) {
  return [=](const InferContext& c) -> std::vector<TensorType> {
    require(c, 0, wanted);
    c.require_same_dtype();
    return {{predicate ? DType::boolean : c.dtype(0), broadcast_shapes(c)}};
  };
}

constexpr double ln2 = std::numbers::ln2;
constexpr double ln10 = std::numbers::ln10;
constexpr double two_over_sqrt_pi = 2 * std::numbers::inv_sqrtpi;

// ---- one operand ----

// A tensor wrapped with operators, so that derivative rules read like formulas.
struct Term {
  Builder* builder;
  Tensor* tensor;
  Term constant(double value) const { return {builder, builder->scalar_like(tensor, value)}; }
};
Term of(std::string_view kind, Term x) { return {x.builder, x.builder->unary(kind, x.tensor)}; }
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
  std::string_view name;
  Operands operands;
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
    {"identity", Operands::any, pass},
    {"exponent", Operands::analytic, [](Term, Term y, Term g) { return g * y; }},
    {"exponent_base2", Operands::analytic, [](Term, Term y, Term g) { return g * (y * ln2); }},
    {"exponent_base10", Operands::analytic, [](Term, Term y, Term g) { return g * (y * ln10); }},
    {"logarithm", Operands::analytic, [](Term x, Term, Term g) { return g / x; }},
    {"logarithm_base2", Operands::analytic, [](Term x, Term, Term g) { return g / (x * ln2); }},
    {"logarithm_base10", Operands::analytic, [](Term x, Term, Term g) { return g / (x * ln10); }},
    {"square", Operands::algebraic, d_square},
    {"square_root", Operands::analytic, [](Term, Term y, Term g) { return g * 0.5 / y; }},
    {"reciprocal_square_root", Operands::analytic, d_reciprocal_square_root},
    {"reverse_square_root", Operands::analytic, d_reciprocal_square_root},
    {"reciprocal", Operands::analytic, [](Term, Term y, Term g) { return -(g * square(y)); }},
    {"negative", Operands::algebraic, [](Term, Term, Term g) { return -g; }},
    {"sign", Operands::numbers, nullptr},
    {"signbit", Operands::numbers, nullptr, true},
    {"ceil", Operands::floats, nullptr},
    {"floor", Operands::floats, nullptr},
    {"round", Operands::floats, nullptr},
    {"rint", Operands::floats, nullptr},
    {"truncate", Operands::floats, nullptr},
    {"sin", Operands::analytic, d_sin},
    {"cos", Operands::analytic, d_cos},
    {"tan", Operands::analytic, d_tan},
    {"sinh", Operands::analytic, [](Term x, Term, Term g) { return g * of("cosh", x); }},
    {"cosh", Operands::analytic, [](Term x, Term, Term g) { return g * of("sinh", x); }},
    {"tanh", Operands::analytic, d_tanh},
    {"asin", Operands::analytic, d_asin},
    {"acos", Operands::analytic, d_acos},
    {"atan", Operands::analytic, [](Term x, Term, Term g) { return g / (square(x) + 1.0); }},
    {"asinh", Operands::analytic, d_asinh},
    {"acosh", Operands::analytic, d_acosh},
    {"atanh", Operands::analytic, [](Term x, Term, Term g) { return g / one_minus_square(x); }},
    {"erf", Operands::floats, d_erf},
    {"not", Operands::booleans, nullptr},
    {"is_infinite", Operands::analytic, nullptr, true},
    {"is_finite", Operands::analytic, nullptr, true},
    {"is_nan", Operands::analytic, nullptr, true},
    {"bitwise_not", Operands::integers, nullptr},
    {"bitwise_population_count", Operands::integers, nullptr},
};

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
  std::string_view name;
  Operands operands;
  BinaryRule rule;  // null if the gradients are zero
  bool predicate = false;
};

Pair d_addition(const Incoming& i) { return {i.g, i.g}; }
Pair d_subtraction(const Incoming& i) { return {i.g, i.need_z ? i.b.neg(i.g) : nullptr}; }
Pair d_multiplication(const Incoming& i) {
  return {i.need_x ? i.b.mul(i.g, i.z) : nullptr, i.need_z ? i.b.mul(i.g, i.x) : nullptr};
}
Pair d_quotient(const Incoming& i, std::string_view division) {
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
    {"addition", Operands::algebraic, d_addition},
    {"subtraction", Operands::algebraic, d_subtraction},
    {"multiplication", Operands::algebraic, d_multiplication},
    {"division", Operands::algebraic, d_division},
    {"division_no_nan", Operands::algebraic, d_division_no_nan},
    {"modulo", Operands::numbers, d_remainder},
    {"floor_modulo", Operands::numbers, d_remainder},
    {"power", Operands::algebraic, d_power},
    {"minimum", Operands::numbers, d_extremum},
    {"maximum", Operands::numbers, d_extremum},
    {"minimum_with_nan_propagation", Operands::numbers, d_extremum},
    {"maximum_with_nan_propagation", Operands::numbers, d_extremum},
    {"atan2", Operands::floats, d_atan2},
    {"equal", Operands::any, nullptr, true},
    {"not_equal", Operands::any, nullptr, true},
    {"less_than", Operands::ordered, nullptr, true},
    {"less_than_or_equal_to", Operands::ordered, nullptr, true},
    {"greater_than", Operands::ordered, nullptr, true},
    {"greater_than_or_equal_to", Operands::ordered, nullptr, true},
    {"logical_and", Operands::booleans, nullptr},
    {"logical_or", Operands::booleans, nullptr},
    {"logical_nand", Operands::booleans, nullptr},
    {"logical_nor", Operands::booleans, nullptr},
    {"logical_xor", Operands::booleans, nullptr},
    {"logical_xnor", Operands::booleans, nullptr},
    {"bitwise_and", Operands::integers, nullptr},
    {"bitwise_or", Operands::integers, nullptr},
    {"bitwise_xor", Operands::integers, nullptr},
    {"bitwise_left_shift", Operands::integers, nullptr},
    {"bitwise_right_shift", Operands::integers, nullptr},
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
    define(elementwise(row.name, 1, pointwise(row.operands, row.predicate), std::move(gradient)));
  }
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
    define(elementwise(row.name, 2, pointwise(row.operands, row.predicate), std::move(gradient)));
  }
  define(elementwise("select", 3, infer_select, d_select));
  define(elementwise("clamp", 3, pointwise(Operands::numbers, false), d_clamp));
});

}  // namespace mpsgraph::ops
