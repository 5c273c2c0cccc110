// Table of the operations that jit/ can compile. Each operation is an expression over Value, whose operators record
// nodes.
#include "backends/cpu/jit/recorder.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string_view>

#include "backends/cpu/elementwise/double_math.h"
#include "backends/cpu/elementwise/formulas.h"
#include "backends/cpu/elementwise/vector_math.h"
#include "core/kind_table.h"

namespace mpsgraph::cpu::jit {
namespace {

thread_local VectorCode* recording = nullptr;

struct Value {
  int node = -1;
};

// Return whether the lanes of the code being recorded are 64 bits wide.
bool wide_lanes() { return recording->lane_bytes == 8; }
Value constant(double x) { return {recording->constant(x)}; }
Value bits(int64_t x) { return {recording->integer(x)}; }
Value sign_bit() {
  return bits(wide_lanes() ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int32_t>::min());
}
Value all_but_sign() {
  return bits(wide_lanes() ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int32_t>::max());
}
Value unary(Kind kind, Value a, int detail = 0) {
  return {recording->record({.kind = kind, .stream = detail, .a = a.node})};
}
Value binary(Kind kind, Value a, Value b) { return {recording->record({.kind = kind, .a = a.node, .b = b.node})}; }
Value compare(Comparison how, Value a, Value b) {
  return {recording->record({.kind = Kind::compare, .stream = how, .a = a.node, .b = b.node})};
}
Value choose(Value mask, Value a, Value b) {
  return a.node == b.node ? a
                          : Value{recording->record({.kind = Kind::choose, .a = mask.node, .b = a.node, .c = b.node})};
}

Value operator+(Value a, Value b) { return binary(Kind::add, a, b); }
Value operator-(Value a, Value b) { return binary(Kind::subtract, a, b); }
Value operator*(Value a, Value b) { return binary(Kind::multiply, a, b); }
Value operator/(Value a, Value b) { return binary(Kind::divide, a, b); }
Value operator+(Value a, double b) { return a + constant(b); }
// Record a - b as a + -b. Both round alike, and sums are easier to replace with fused multiply-adds.
Value operator-(Value a, double b) { return a + constant(-b); }
Value operator*(Value a, double b) { return a * constant(b); }
Value operator-(Value a) { return binary(Kind::bitwise_xor, a, sign_bit()); }

// The elementary operations of VectorMath and DoubleMath, recorded as nodes.
struct Steps {
  using V = Value;
  using I = Value;
  using M = Value;
  static V splat(double x) { return constant(x); }
  static V least(V a, V b) { return above(a, b) ? b : binary(Kind::least, a, b); }
  static V greatest(V a, V b) { return binary(Kind::greatest, a, b); }
  static V absolute(V x) { return binary(Kind::bitwise_and, x, all_but_sign()); }
  static V with_sign_of(V magnitude, V sign) {
    return binary(Kind::bitwise_or, magnitude, binary(Kind::bitwise_and, sign, sign_bit()));
  }
  static V nearest(V x) { return unary(Kind::round, x, 0); }
  static V times_power_of_two(V p, V n) {
    if (recording->set == VectorSet::avx512) return binary(Kind::scale, p, n);
    // Multiply by two factors, so that denormal results are correct. p is near 1, so the first product is a normal
    // number, and its exponent can be added. For NaN, k / 2 has no bits left after the shift.
    const I k = unary(Kind::to_integer, n), half = shift_right(k, 1);
    const I rest = binary(Kind::integer_subtract, k, half);
    return from_bits(binary(Kind::integer_add, bits(p), shift_left(half, 23))) * from_exponent(rest);
  }
  static auto parts(V x) {
    using Parts = VectorMath<Steps>::Parts;
    if (recording->set != VectorSet::avx512) return VectorMath<Steps>::parts(x);
    const V mantissa = unary(Kind::mantissa, x), exponent = unary(Kind::exponent, x);
    return Parts{choose(less(mantissa, constant(1)), exponent + 1, exponent), mantissa};
  }
  static V logarithm(V x, V r) {
    return recording->set == VectorSet::avx512 ? binary(Kind::logarithm, x, r) : VectorMath<Steps>::logarithm(x, r);
  }
  static bool has_reciprocals() { return recording->set == VectorSet::avx512; }
  static V near_quotient(V x, V y) { return has_reciprocals() ? x * unary(Kind::near_reciprocal, y) : x / y; }
  static V less(V a, V b) { return compare(jit::less, a, b); }
  static V less_or_equal(V a, V b) { return compare(jit::less_or_equal, a, b); }
  static V equal(V a, V b) { return compare(jit::equal, a, b); }
  static M not_equal(V a, V b) { return compare(jit::not_equal, a, b); }
  static M is_nan(V x) { return compare(jit::unordered, x, x); }
  static V floor(V x) { return unary(Kind::round, x, 1); }
  static V ceil(V x) { return unary(Kind::round, x, 2); }
  static V truncate(V x) { return unary(Kind::round, x, 3); }
  static V rint(V x) { return unary(Kind::round, x, 0); }
  static M ordered(V a, V b) { return compare(jit::ordered, a, b); }
  static M negative(V x) { return shift_right(x, 31); }  // also true for -0
  static V sqrt(V x) { return unary(Kind::square_root, x); }
  static V choose(V mask, V a, V b) { return jit::choose(mask, a, b); }
  static I bits(V x) { return x; }
  static V from_bits(I x) { return x; }
  static I add(I x, int64_t y) { return binary(Kind::integer_add, x, bits_of(y)); }
  static I bitwise_and(I x, int64_t y) { return binary(Kind::bitwise_and, x, bits_of(y)); }
  static I shift_left(I x, int count) { return unary(Kind::shift_left, x, count); }
  static I shift_right(I x, int count) { return unary(Kind::shift_right_sign, x, count); }
  static V to_float(I x) { return unary(Kind::to_float, x); }

 private:
  static I bits_of(int64_t x) { return jit::bits(x); }
  // Return whether a is a non-negative constant and b is a negated square or magnitude, so that b cannot exceed a. The
  // upper bound of exp's clamp is then redundant, as in Gaussians and in functions of e^-|x|.
  static bool above(V a, V b) {
    const auto node = [](int i) { return recording->nodes[i]; };
    const auto is_constant = [&](int i, auto holds) { return node(i).kind == Kind::constant && holds(node(i).bits); };
    const Node negated = node(b.node);
    const auto not_negative = [](uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)) >= 0; };
    if (!is_constant(a.node, not_negative) || negated.kind != Kind::bitwise_xor ||
        !is_constant(negated.b, [](uint64_t bits) { return bits == 1u << 31; }))
      return false;
    const Node positive = node(negated.a);
    const bool magnitude = positive.kind == Kind::bitwise_and &&
                           is_constant(positive.b, [](uint64_t bits) { return bits == (1u << 31) - 1; });
    return magnitude || (positive.kind == Kind::multiply && positive.a == positive.b);
  }
  static V from_exponent(I k) { return unary(Kind::shift_left, add(k, 127), 23); }
};
using Math = VectorMath<Steps>;

struct DoubleSteps : Steps {
  static V clamped(double low, V x, double high) {  // greatest and least return their second operand for NaN
    return binary(Kind::greatest, constant(low), binary(Kind::least, constant(high), x));
  }
  static V minus_product(V x, V a, V b) {
    return {recording->record({.kind = Kind::negated_multiply_add, .a = a.node, .b = b.node, .c = x.node})};
  }
  static V times_power_of_two(V p, V n) {
    return recording->set == VectorSet::avx512 ? binary(Kind::scale, p, n)
                                               : DoubleMath<DoubleSteps>::times_power_of_two(p, n);
  }
  static V logarithm(V x, V r) {
    return recording->set == VectorSet::avx512 ? binary(Kind::logarithm, x, r)
                                               : DoubleMath<DoubleSteps>::logarithm(x, r);
  }
  static I bitwise_or(I x, int64_t y) { return binary(Kind::bitwise_or, x, jit::bits(y)); }
  static I shift_right(I x, int count) { return unary(Kind::shift_right, x, count); }
  static bool has_tables() { return recording->set == VectorSet::avx512; }
  static V look_up(const double* table, V place) {
    return {recording->record({.kind = Kind::look_up, .bits = std::bit_cast<uintptr_t>(table), .a = place.node})};
  }
};
using Doubles = DoubleMath<DoubleSteps>;

Value zero() { return constant(0); }
Value one() { return constant(1); }
Value is_nan(Value x) { return Steps::is_nan(x); }
Value both(Value a, Value b) { return binary(Kind::bitwise_and, a, b); }
Value either(Value a, Value b) { return binary(Kind::bitwise_or, a, b); }
Value differ(Value a, Value b) { return binary(Kind::bitwise_xor, a, b); }
Value inverse(Value a) { return differ(a, bits(-1)); }
Value infinite() { return constant(std::numeric_limits<double>::infinity()); }

// Integers as wide as a lane. In 64-bit lanes, minimum and maximum require AVX-512, and AVX2 also lacks products and
// conversions to and from float64.
bool has_extremes() { return !wide_lanes() || recording->set == VectorSet::avx512; }
bool has_products() { return !wide_lanes() || recording->set != VectorSet::avx2; }
bool has_conversions() { return !wide_lanes() || recording->set != VectorSet::avx2; }

struct IntegerSteps {
  using V = Value;
  using M = Value;
  static V splat(int64_t x) { return jit::bits(x); }
  static V choose(M mask, V a, V b) { return jit::choose(mask, a, b); }
  static M less(V a, V b) { return compare(jit::less, a, b); }
  static M less_or_equal(V a, V b) { return compare(jit::less_or_equal, a, b); }
  static M equal(V a, V b) { return compare(jit::equal, a, b); }
  static M not_equal(V a, V b) { return compare(jit::not_equal, a, b); }
  static V least(V a, V b) { return has_extremes() ? binary(Kind::integer_least, a, b) : choose(less(a, b), a, b); }
  static V greatest(V a, V b) {
    return has_extremes() ? binary(Kind::integer_greatest, a, b) : choose(less(a, b), b, a);
  }
  static V sum(V a, V b) { return binary(Kind::integer_add, a, b); }
  static V difference(V a, V b) { return binary(Kind::integer_subtract, a, b); }
  static V product(V a, V b) { return has_products() ? binary(Kind::integer_multiply, a, b) : V{}; }
  static V both(V a, V b) { return jit::both(a, b); }
  static V either(V a, V b) { return jit::either(a, b); }
  static V differ(V a, V b) { return jit::differ(a, b); }
  static V inverse(V x) { return jit::inverse(x); }

 private:
  static Value made(Comparison how, Value a, Value b) {
    return {recording->record({.kind = Kind::integer_compare, .stream = how, .a = a.node, .b = b.node})};
  }
  static M compare(Comparison how, V a, V b) {
    if (recording->set != VectorSet::avx2 || how == jit::equal || how == jit::less) return made(how, a, b);
    return jit::inverse(how == jit::less_or_equal ? made(jit::less, b, a) : made(jit::equal, a, b));
  }
};

using Expression = Value (*)(Value a, Value b, Value c);
using Expressions = KindTable<Expression>;

// Entries of the tables below; F is the class of formulas or functions.
#define UNARY(NAME) {#NAME, [](Value x, Value, Value) -> Value { return F::NAME(x); }},
#define BINARY(NAME) {#NAME, [](Value a, Value b, Value) -> Value { return F::NAME(a, b); }},
#define TERNARY(NAME) {#NAME, [](Value a, Value b, Value c) -> Value { return F::NAME(a, b, c); }},
#define ORDERS                                                                                                  \
  MPSGRAPH_ORDERS(BINARY){"greater_than", [](Value a, Value b, Value) -> Value { return F::less_than(b, a); }}, \
      {"greater_than_or_equal_to", [](Value a, Value b, Value) -> Value { return F::less_than_or_equal_to(b, a); }},
#define FUNCTION(NAME, FUNCTION) {#NAME, [](Value x, Value, Value) -> Value { return F::FUNCTION(x); }},
#define FUNCTION_OF_TWO(NAME, FUNCTION) {#NAME, [](Value a, Value b, Value) -> Value { return F::FUNCTION(a, b); }},

// clang-format off
const Expressions& functions_of_floats() {
  using F = Math;
  static const Expressions table{
    MPSGRAPH_UNARY_FUNCTIONS(FUNCTION) MPSGRAPH_BINARY_FUNCTIONS(FUNCTION_OF_TWO)
    MPSGRAPH_UNARY_FLOAT_FUNCTIONS(FUNCTION) MPSGRAPH_BINARY_FLOAT_FUNCTIONS(FUNCTION_OF_TWO)
  };
  return table;
}

const Expressions& functions_of_doubles() {
  using F = Doubles;
  static const Expressions table{MPSGRAPH_UNARY_FUNCTIONS(FUNCTION) MPSGRAPH_BINARY_FUNCTIONS(FUNCTION_OF_TWO)};
  return table;
}

const Expressions& float_expressions() {
  using F = FloatFormulas<Steps>;
  static const Expressions table{
    MPSGRAPH_UNARY_FLOATS(UNARY) MPSGRAPH_COMMUTATIVE_FLOATS(BINARY) MPSGRAPH_BINARY_FLOATS(BINARY)
    MPSGRAPH_TERNARY_FLOATS(TERNARY) MPSGRAPH_EQUALITIES(BINARY) MPSGRAPH_FLOAT_TESTS(UNARY) ORDERS
  };
  return table;
}

const Expressions& integer_expressions() {
  using F = IntegerFormulas<IntegerSteps>;
  static const Expressions table{
    MPSGRAPH_UNARY_INTEGERS(UNARY) MPSGRAPH_COMMUTATIVE_INTEGERS(BINARY) MPSGRAPH_BINARY_INTEGERS(BINARY)
    MPSGRAPH_UNARY_ORDERED_INTEGERS(UNARY) MPSGRAPH_COMMUTATIVE_ORDERED_INTEGERS(BINARY)
    MPSGRAPH_BINARY_ORDERED_INTEGERS(BINARY) MPSGRAPH_TERNARY_ORDERED_INTEGERS(TERNARY)
    MPSGRAPH_EQUALITIES(BINARY) MPSGRAPH_INTEGER_TESTS(UNARY) ORDERS
  };
  return table;
}

const Expressions& mask_expressions() {
  using F = MaskFormulas<IntegerSteps>;
  static const Expressions table{
    UNARY(identity) MPSGRAPH_BINARY_MASKS(BINARY)
    {"not", [](Value x, Value, Value) -> Value { return F::logical_not(x); }},
  };
  return table;
}
// clang-format on
#undef UNARY
#undef BINARY
#undef TERNARY
#undef ORDERS
#undef FUNCTION
#undef FUNCTION_OF_TWO

bool float_lanes(DType dtype) { return dtype == DType::float32 || dtype == DType::float16 || dtype == DType::bfloat16; }

Expression expression_of(mpsgraph::Kind kind, DType dtype) {
  const auto in = [&](const Expressions& table) -> Expression {
    const Expression* found = table.find(kind);
    return found ? *found : nullptr;
  };
  if (dtype == DType::boolean) return in(mask_expressions());
  if (is_integer(dtype)) return in(integer_expressions());
  if (const Expression plain = in(float_expressions())) return plain;
  return in(dtype == DType::float64 ? functions_of_doubles() : functions_of_floats());
}

// Return the bits of the nearest bfloat16, with ties to even, in the lower half of each lane; preserve NaN.
Value to_bfloat16(Value x, bool has_instruction) {
  if (has_instruction) return unary(Kind::to_bfloat16, x);
  const Value odd = Steps::bitwise_and(unary(Kind::shift_right, x, 16), 1);
  const Value nearest = binary(Kind::integer_add, Steps::add(x, 0x7fff), odd);
  return unary(Kind::shift_right, choose(is_nan(x), either(x, bits(0x400000)), nearest), 16);
}

// Return the nearest float16, with ties to even, as a float. For values below the smallest normal float16, adding 0.75
// rounds to a multiple of the smallest subnormal.
Value rounded_to_float16(Value x) {
  const Value size = Steps::absolute(x), odd = Steps::bitwise_and(unary(Kind::shift_right, size, 13), 1);
  const Value nearest = Steps::bitwise_and(binary(Kind::integer_add, Steps::add(size, 0xfff), odd), ~0x1fff);
  const Value small = (size + 0.75) - 0.75, infinity = infinite();
  const Value normal = choose(Steps::less(size, constant(0x1p-14)), small, nearest);
  const Value all = choose(Steps::less(size, constant(65520)), normal, infinity);
  return choose(is_nan(x), x, Steps::with_sign_of(all, x));
}

bool small_integer(DType dtype) { return dtype == DType::int8 || dtype == DType::uint8; }

// Convert to a small integer type with saturation; NaN becomes 0.
Value saturated(DType to, Value x) {
  const bool has_sign = to == DType::int8;
  const Value number = choose(is_nan(x), zero(), x);
  const Value above = Steps::greatest(number, constant(has_sign ? -128 : 0));
  return unary(Kind::to_integer, Steps::least(above, constant(has_sign ? 127 : 255)));
}

// Record a cast. `cast_before` means that the operand is itself a cast, whose rounding must be kept.
std::optional<Value> cast(DType from, DType to, Value x, bool shared, bool cast_before, bool has_bfloat16) {
  if (from == to) return x;
  if (small_integer(from) && to == DType::float32) return unary(Kind::to_float, x);
  if (float_lanes(from) && small_integer(to)) return saturated(to, x);
  if (from == DType::boolean && float_lanes(to)) return both(x, one());
  if (from == DType::boolean && to == DType::int32) return both(x, bits(1));
  if (from == DType::int32 && to == DType::boolean) return IntegerSteps::not_equal(x, bits(0));
  if (small_integer(from) && to == DType::int32) return x;
  if (from == DType::int32 && to == DType::float32) return unary(Kind::to_float, x);
  if (float_lanes(from) && to == DType::int32) {  // out-of-range values convert to the smallest integer
    const Value above = compare(less_or_equal, constant(0x1p31), x);
    const Value whole = choose(above, bits(std::numeric_limits<int32_t>::max()), unary(Kind::to_integer, x));
    return choose(compare(ordered, x, x), whole, zero());
  }
  if (float_lanes(from) && to == DType::boolean) return compare(not_equal, x, zero());
  if (float_lanes(from) && to == DType::float32) {
    if (from == DType::float32 || !cast_before) return x;
    if (from == DType::float16) return rounded_to_float16(x);
    return unary(Kind::shift_left, to_bfloat16(x, has_bfloat16), 16);
  }
  if (float_lanes(from) && float_lanes(to) && !shared) return x;  // the value is rounded when it is stored
  if (float_lanes(from) && to == DType::float16) return rounded_to_float16(x);
  if (float_lanes(from) && to == DType::bfloat16) return unary(Kind::shift_left, to_bfloat16(x, has_bfloat16), 16);
  return std::nullopt;
}

// Convert int64 to float64 with a single rounding. Both 32-bit halves are converted exactly, by inserting them into the
// mantissa bits of a float64, and then added.
Value from_int64(Value x) {
  if (has_conversions()) return unary(Kind::to_float, x);
  const Value low = either(both(x, bits(0xffffffff)), constant(0x1p52));
  const Value high = either(unary(Kind::shift_right, differ(x, sign_bit()), 32), constant(0x1p84));
  return (high - constant(0x1p84 + 0x1p63 + 0x1p52)) + low;
}
// Return the lower 32 bits of an int64 as a float64, interpreted as a signed integer.
Value lower_half(Value x) {
  const Value above = differ(both(x, bits(0xffffffff)), bits(0x80000000));  // the value plus 2^31
  return either(above, constant(0x1p52)) - constant(0x1p52 + 0x1p31);
}

// Return an integral float64 below 2^51 as an integer in the low bits of its lane.
Value whole_bits(Value x) { return x + Doubles::whole; }
// Round toward zero and clamp to [least, most]; NaN becomes 0.
Value whole_within(Value x, double least, double most) {
  // Kind::least and Kind::greatest return their second operand if either is NaN, so NaN is preserved.
  const Value within = binary(Kind::greatest, constant(least), binary(Kind::least, constant(most), x));
  return choose(compare(ordered, x, x), Steps::truncate(within), zero());
}

// Record a cast in 64-bit lanes, where float32 and integers of up to 32 bits are represented as float64. A value is
// rounded to float32 only when it is stored, so a value that is cast to float32 must have no other use.
std::optional<Value> cast_in_wide_lanes(DType from, DType to, Value x, bool shared, bool cast_before) {
  if (from == to) return x;
  if (from == DType::float32 && cast_before) return std::nullopt;
  const bool whole = from == DType::int32 || small_integer(from);
  const bool number = whole || from == DType::float64 || from == DType::float32;  // whether the lanes hold float64
  if (from == DType::boolean && to == DType::int64) return both(x, bits(1));
  if (from == DType::boolean && (to == DType::float64 || to == DType::int32)) return both(x, one());
  if (number && to == DType::boolean) return compare(not_equal, x, zero());
  if (from == DType::int64 && to == DType::boolean) return IntegerSteps::not_equal(x, bits(0));
  if (number && to == DType::float64) return x;
  if (from == DType::int64 && to == DType::float64) return from_int64(x);
  if (small_integer(from) && to == DType::int32) return x;
  if (whole && to == DType::int64) return binary(Kind::integer_subtract, whole_bits(x), constant(Doubles::whole));
  if (from == DType::int64 && to == DType::int32) return lower_half(x);
  if ((from == DType::float64 || from == DType::float32) && to == DType::int64) {
    if (!has_conversions()) return std::nullopt;
    const Value above = compare(less_or_equal, constant(0x1p63), x);
    const Value within = choose(above, all_but_sign(), unary(Kind::to_integer, x));
    return choose(compare(ordered, x, x), within, bits(0));
  }
  if (from == DType::float64 && to == DType::int32)
    return whole_within(x, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  if (from == DType::float64 && to == DType::int8 && !shared) return whole_within(x, -128, 127);
  if (from == DType::float64 && to == DType::uint8 && !shared) return whole_within(x, 0, 255);
  if (from == DType::float64 && to == DType::float32 && !shared) return x;
  return std::nullopt;
}

class Recording {  // code to which the operators of Value append nodes
 public:
  explicit Recording(VectorCode& code) { recording = &code; }
  ~Recording() { recording = nullptr; }
};

std::optional<int> node_of(std::optional<Value> value) { return value ? std::optional(value->node) : std::nullopt; }

}  // namespace

std::optional<int> Recorder::read(Kind kind, DType dtype, int stream) {
  const Recording scope(code_);
  const auto as = [&](Format format) {
    return Value{code_.record({.kind = kind, .format = format, .stream = stream})};
  };
  if (wide_lanes()) {
    if (dtype == DType::float64 || dtype == DType::int64) return as(Format::lane).node;
    if (dtype == DType::float32) return as(Format::float32).node;
    if (dtype == DType::int32) return as(Format::int32).node;
    if (dtype != DType::boolean && !small_integer(dtype)) return std::nullopt;
    const Value byte = as(Format::bits8), alone = kind == Kind::scalar ? both(byte, bits(255)) : byte;
    if (dtype == DType::int8) return (either(differ(alone, bits(0x80)), constant(0x1p52)) - (0x1p52 + 0x80)).node;
    if (dtype == DType::uint8) return (either(alone, constant(0x1p52)) - 0x1p52).node;
    return compare(not_equal, either(alone, constant(0x1p52)), constant(0x1p52)).node;  // nonzero means true
  }
  if (dtype == DType::float32 || dtype == DType::int32) return as(Format::lane).node;
  if (dtype == DType::float16) return as(Format::float16).node;
  if (dtype == DType::bfloat16) return unary(Kind::shift_left, as(Format::bits16), 16).node;
  if (dtype == DType::int8)
    return unary(Kind::shift_right_sign, unary(Kind::shift_left, as(Format::bits8), 24), 24).node;
  if (dtype != DType::uint8 && dtype != DType::boolean) return std::nullopt;
  const Value byte = as(Format::bits8), alone = kind == Kind::scalar ? both(byte, bits(255)) : byte;
  if (dtype == DType::uint8) return alone.node;
  return unary(Kind::shift_right_sign, binary(Kind::integer_subtract, bits(0), alone), 31).node;  // nonzero means true
}

std::optional<int> Recorder::apply(const Operation& operation, std::span<const int> operands, bool shared) {
  const Recording scope(code_);
  const auto operand = [&](size_t i) { return Value{i < operands.size() ? operands[i] : -1}; };
  const DType dtype = operation.inputs.back()->type.dtype;
  if (operation.is("cast")) {
    const bool cast_before = operation.input(0)->operation->is("cast");
    const DType to = operation.output()->type.dtype;
    return node_of(wide_lanes() ? cast_in_wide_lanes(dtype, to, operand(0), shared, cast_before)
                                : cast(dtype, to, operand(0), shared, cast_before, has_bfloat16_));
  }
  const bool fits =
      wide_lanes() ? dtype == DType::float64 || dtype == DType::int64 : float_lanes(dtype) || dtype == DType::int32;
  if (!fits && dtype != DType::boolean) return std::nullopt;
  if (operation.is("select")) return choose(operand(0), operand(1), operand(2)).node;
  const Expression expression = expression_of(operation.kind(), dtype);
  if (!expression) return std::nullopt;
  const Value value = expression(operand(0), operand(1), operand(2));
  return value.node < 0 ? std::nullopt : std::optional(value.node);
}

bool Recorder::store(DType dtype, int value, int stream) {
  const Recording scope(code_);
  const auto write = [&](Format format, Value v) {
    code_.record({.kind = Kind::store, .format = format, .stream = stream, .a = v.node});
    return true;
  };
  if (dtype == DType::boolean) return write(Format::bits8, both({value}, bits(1)));
  if (wide_lanes()) switch (dtype) {
      case DType::float64:
      case DType::int64: return write(Format::lane, {value});
      case DType::float32: return write(Format::float32, {value});
      case DType::int32: return write(Format::int32, {value});
      case DType::int8:
      case DType::uint8: return write(Format::bits8, whole_bits({value}));
      default: return false;
    }
  switch (dtype) {
    case DType::float32:
    case DType::int32: return write(Format::lane, {value});
    case DType::float16: return write(Format::float16, {value});
    case DType::bfloat16: return write(Format::bits16, to_bfloat16({value}, has_bfloat16_));
    case DType::int8:
    case DType::uint8: return write(Format::bits8, {value});
    default: return false;
  }
}

int Recorder::sum(int value) {
  code_.record({.kind = Kind::accumulate, .a = value});
  return code_.accumulators - 1;
}

VectorCode Recorder::code(std::span<const int> streaming, bool prefetches) const {
  VectorCode result(code_.set, code_.lane_bytes);  // without the index of equal nodes, which only recording needs
  result.nodes = code_.nodes;
  result.accumulators = code_.accumulators;
  if (prefetches) result.prefetched = code_.prefetched;
  for (Node& node : result.nodes)
    if (node.kind == Kind::store && node.format == Format::lane &&
        std::find(streaming.begin(), streaming.end(), node.stream) != streaming.end())
      node.streaming = 1;
  return result;
}

}  // namespace mpsgraph::cpu::jit
