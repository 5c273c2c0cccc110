// The table of operations: each is an expression over Value, whose operators record nodes.
#include "backends/cpu/jit/recorder.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "backends/cpu/stitched/double_math.h"
#include "backends/cpu/stitched/vector_math.h"

namespace mpsgraph::cpu::jit {
namespace {

thread_local VectorCode* recording = nullptr;

struct Value {
  int node = -1;
};

bool doubles() { return recording->lane_bytes == 8; }
Value constant(double x) { return {recording->constant(x)}; }
Value bits(int64_t x) { return {recording->integer(x)}; }
Value sign_bit() { return bits(doubles() ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int32_t>::min()); }
Value all_but_sign() {
  return bits(doubles() ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int32_t>::max());
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
Value operator-(Value a, double b) { return a + constant(-b); }  // one rounding either way; sums contract better
Value operator*(Value a, double b) { return a * constant(b); }
Value operator-(Value a) { return binary(Kind::bitwise_xor, a, sign_bit()); }

// The steps of VectorMath and DoubleMath, recorded.
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
    const I k = unary(Kind::to_integer, n),
            half = shift_right(k, 1);  // in two halves, so that denormals come out right
    const I rest = binary(Kind::integer_subtract, k, half);
    return p * from_exponent(half) * from_exponent(rest);
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
  static M ordered(V a, V b) { return compare(jit::ordered, a, b); }
  static M negative(V x) { return shift_right(x, 31); }  // -0 too
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
  // Is a a constant that b, minus a square or a magnitude, cannot exceed? Half of exp's clamp in what Gaussians and
  // sigmoids are made of.
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
  static V clamped(double low, V x, double high) {  // the second operand of either is NaN's
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
};
using Doubles = DoubleMath<DoubleSteps>;

Value zero() { return constant(0); }
Value one() { return constant(1); }
Value every() { return bits(-1); }
Value is_nan(Value x) { return compare(unordered, x, x); }
Value both(Value a, Value b) { return binary(Kind::bitwise_and, a, b); }
Value either(Value a, Value b) { return binary(Kind::bitwise_or, a, b); }
Value differ(Value a, Value b) { return binary(Kind::bitwise_xor, a, b); }
Value inverse(Value a) { return differ(a, every()); }
Value infinite() { return constant(std::numeric_limits<double>::infinity()); }
Value rounded(Value x, int how) { return unary(Kind::round, x, how); }
Value away_from_zero(Value x) {  // halves go away from zero
  const Value a = Steps::absolute(x), t = rounded(a, 3);
  const Value up = t + choose(compare(less_or_equal, constant(0.5), a - t), one(), zero());
  return Steps::with_sign_of(up, x);
}
// MINPS returns its second operand when one is NaN; then these choose the other.
Value minimum(Value a, Value b) { return choose(is_nan(a), b, choose(is_nan(b), a, Steps::least(a, b))); }
Value maximum(Value a, Value b) { return choose(is_nan(a), b, choose(is_nan(b), a, Steps::greatest(a, b))); }

using Expression = Value (*)(Value a, Value b, Value c);
#define UNARY(EXPRESSION) [](Value x, Value, Value) -> Value { return EXPRESSION; }
#define BINARY(EXPRESSION) [](Value a, Value b, Value) -> Value { return EXPRESSION; }
#define TERNARY(EXPRESSION) [](Value a, Value b, Value c) -> Value { return EXPRESSION; }

using Expressions = std::unordered_map<std::string_view, Expression>;

const Expressions& functions_of_floats() {
  static const Expressions table{
      {"exponent", UNARY(Math::exp(x))},
      {"exponent_base2", UNARY(Math::exp2(x))},
      {"exponent_base10", UNARY(Math::exp10(x))},
      {"logarithm", UNARY(Math::log(x))},
      {"logarithm_base2", UNARY(Math::log2(x))},
      {"logarithm_base10", UNARY(Math::log10(x))},
      {"sinh", UNARY(Math::sinh(x))},
      {"cosh", UNARY(Math::cosh(x))},
      {"asin", UNARY(Math::asin(x))},
      {"acos", UNARY(Math::acos(x))},
      {"atan", UNARY(Math::atan(x))},
      {"atan2", BINARY(Math::atan2(a, b))},
      {"asinh", UNARY(Math::asinh(x))},
      {"acosh", UNARY(Math::acosh(x))},
      {"atanh", UNARY(Math::atanh(x))},
      {"erf", UNARY(Math::erf(x))},
      {"tanh", UNARY(Math::tanh(x))},
      {"sigmoid", UNARY(Math::sigmoid(x))},
      {"sigmoid_gradient", BINARY(Math::sigmoid_gradient(a, b))},
  };
  return table;
}

const Expressions& functions_of_doubles() {
  static const Expressions table{
      {"exponent", UNARY(Doubles::exp(x))},
      {"exponent_base2", UNARY(Doubles::exp2(x))},
      {"exponent_base10", UNARY(Doubles::exp10(x))},
      {"logarithm", UNARY(Doubles::log(x))},
      {"logarithm_base2", UNARY(Doubles::log2(x))},
      {"logarithm_base10", UNARY(Doubles::log10(x))},
      {"sinh", UNARY(Doubles::sinh(x))},
      {"cosh", UNARY(Doubles::cosh(x))},
      {"asin", UNARY(Doubles::asin(x))},
      {"acos", UNARY(Doubles::acos(x))},
      {"atan", UNARY(Doubles::atan(x))},
      {"erf", UNARY(Doubles::erf(x))},
      {"tanh", UNARY(Doubles::tanh(x))},
      {"sigmoid", UNARY(Doubles::sigmoid(x))},
      {"sigmoid_gradient", BINARY(Doubles::sigmoid_gradient(a, b))},
  };
  return table;
}

const Expressions& float_expressions() {
  static const Expressions table{
      {"identity", UNARY(x)},
      {"conjugate", UNARY(x)},
      {"square", UNARY(x * x)},
      {"absolute_square", UNARY(x * x)},
      {"square_root", UNARY(unary(Kind::square_root, x))},
      {"reciprocal_square_root", UNARY(one() / unary(Kind::square_root, x))},
      {"reverse_square_root", UNARY(one() / unary(Kind::square_root, x))},
      {"reciprocal", UNARY(one() / x)},
      {"absolute", UNARY(Steps::absolute(x))},
      {"negative", UNARY(-x)},
      {"sign", UNARY(choose(compare(less, zero(), x), one(), choose(compare(less, x, zero()), constant(-1), x)))},
      {"floor", UNARY(rounded(x, 1))},
      {"ceil", UNARY(rounded(x, 2))},
      {"truncate", UNARY(rounded(x, 3))},
      {"rint", UNARY(rounded(x, 0))},
      {"round", UNARY(away_from_zero(x))},
      {"relu", UNARY(Steps::greatest(zero(), x))},  // NaN stays: it is the second operand
      {"relu_gradient", BINARY(choose(compare(less, zero(), b), a, zero()))},
      {"leaky_relu", BINARY(choose(compare(less_or_equal, zero(), a), a, a * b))},
      {"leaky_relu_gradient", TERNARY(choose(compare(less_or_equal, zero(), b), a, a * c))},
      {"addition", BINARY(a + b)},
      {"subtraction", BINARY(a - b)},
      {"multiplication", BINARY(a * b)},
      {"division", BINARY(a / b)},
      {"division_no_nan", BINARY(choose(compare(not_equal, b, zero()), a / b, zero()))},
      {"minimum", BINARY(minimum(a, b))},
      {"maximum", BINARY(maximum(a, b))},
      {"minimum_with_nan_propagation", BINARY(choose(is_nan(a), a, Steps::least(a, b)))},
      {"maximum_with_nan_propagation", BINARY(choose(is_nan(a), a, Steps::greatest(a, b)))},
      {"clamp", TERNARY(Steps::least(c, Steps::greatest(b, a)))},  // NaN stays
      {"equal", BINARY(compare(equal, a, b))},
      {"not_equal", BINARY(compare(not_equal, a, b))},
      {"less_than", BINARY(compare(less, a, b))},
      {"less_than_or_equal_to", BINARY(compare(less_or_equal, a, b))},
      {"greater_than", BINARY(compare(less, b, a))},
      {"greater_than_or_equal_to", BINARY(compare(less_or_equal, b, a))},
      {"is_nan", UNARY(is_nan(x))},
      {"is_infinite", UNARY(compare(equal, Steps::absolute(x), infinite()))},
      {"is_finite", UNARY(compare(less, Steps::absolute(x), infinite()))},
  };
  return table;
}

const Expressions& mask_expressions() {
  static const Expressions table{
      {"identity", UNARY(x)},
      {"not", UNARY(inverse(x))},
      {"logical_and", BINARY(both(a, b))},
      {"logical_or", BINARY(either(a, b))},
      {"logical_nand", BINARY(inverse(both(a, b)))},
      {"logical_nor", BINARY(inverse(either(a, b)))},
      {"logical_xor", BINARY(differ(a, b))},
      {"logical_xnor", BINARY(inverse(differ(a, b)))},
      {"equal", BINARY(inverse(differ(a, b)))},
      {"not_equal", BINARY(differ(a, b))},
  };
  return table;
}
#undef UNARY
#undef BINARY
#undef TERNARY

bool float_lanes(DType dtype) { return dtype == DType::float32 || dtype == DType::float16 || dtype == DType::bfloat16; }

Expression expression_of(std::string_view kind, DType dtype) {
  const auto in = [&](const Expressions& table) -> Expression {
    const auto found = table.find(kind);
    return found == table.end() ? nullptr : found->second;
  };
  if (dtype == DType::boolean) return in(mask_expressions());
  if (const Expression plain = in(float_expressions())) return plain;
  return in(dtype == DType::float64 ? functions_of_doubles() : functions_of_floats());
}

// The bits of the nearest bfloat16, ties to even, in the lower half of each lane; NaN stays NaN.
Value to_bfloat16(Value x, bool has_instruction) {
  if (has_instruction) return unary(Kind::to_bfloat16, x);
  const Value odd = Steps::bitwise_and(unary(Kind::shift_right, x, 16), 1);
  const Value nearest = binary(Kind::integer_add, Steps::add(x, 0x7fff), odd);
  return unary(Kind::shift_right, choose(is_nan(x), either(x, bits(0x400000)), nearest), 16);
}

// The nearest float16, ties to even, as a float: below its least normal number by the spacing of what 0.75 is added to.
Value rounded_to_float16(Value x) {
  const Value size = Steps::absolute(x), odd = Steps::bitwise_and(unary(Kind::shift_right, size, 13), 1);
  const Value nearest = Steps::bitwise_and(binary(Kind::integer_add, Steps::add(size, 0xfff), odd), ~0x1fff);
  const Value small = (size + 0.75) - 0.75, infinity = infinite();
  const Value normal = choose(Steps::less(size, constant(0x1p-14)), small, nearest);
  const Value all = choose(Steps::less(size, constant(65520)), normal, infinity);
  return choose(is_nan(x), x, Steps::with_sign_of(all, x));
}

bool small_integer(DType dtype) { return dtype == DType::int8 || dtype == DType::uint8; }

// To the range of a small integer; NaN gives 0.
Value saturated(DType to, Value x) {
  const bool has_sign = to == DType::int8;
  const Value number = choose(is_nan(x), zero(), x);
  const Value above = Steps::greatest(number, constant(has_sign ? -128 : 0));
  return unary(Kind::to_integer, Steps::least(above, constant(has_sign ? 127 : 255)));
}

// `cast_before`: the operand is a cast itself, whose rounding was meant.
std::optional<Value> cast(DType from, DType to, Value x, bool shared, bool cast_before, bool has_bfloat16) {
  if (from == to) return x;
  if (small_integer(from) && to == DType::float32) return unary(Kind::to_float, x);
  if (float_lanes(from) && small_integer(to)) return saturated(to, x);
  if (from == DType::boolean && float_lanes(to)) return both(x, one());
  if (from == DType::int32 && to == DType::float32) return unary(Kind::to_float, x);
  if (float_lanes(from) && to == DType::int32) {  // what lies beyond converts to the least integer by itself
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
  if (float_lanes(from) && float_lanes(to) && !shared) return x;  // rounded when it is stored
  if (float_lanes(from) && to == DType::float16) return rounded_to_float16(x);
  if (float_lanes(from) && to == DType::bfloat16) return unary(Kind::shift_left, to_bfloat16(x, has_bfloat16), 16);
  return std::nullopt;
}

// In lanes of 64 bits, where int32 and float32 are float64. A number is rounded to float32 when it is stored, so that
// nothing else may look at it.
std::optional<Value> cast_among_doubles(DType from, DType to, Value x, bool shared, bool cast_before) {
  if (from == to) return x;
  if (from == DType::boolean && to == DType::float64) return both(x, one());
  if (from == DType::float64 && to == DType::boolean) return compare(not_equal, x, zero());
  if (from == DType::int32 && to == DType::float64) return x;
  if (from == DType::float32 && to == DType::float64 && !cast_before) return x;
  if (from == DType::float64 && to == DType::int32) {
    const Value least = constant(std::numeric_limits<int32_t>::min());
    const Value most = constant(std::numeric_limits<int32_t>::max());
    const Value within = binary(Kind::greatest, least, binary(Kind::least, most, x));  // NaN stays
    return choose(compare(ordered, x, x), rounded(within, 3), zero());
  }
  if (from == DType::float64 && to == DType::float32 && !shared) return x;
  return std::nullopt;
}

class Recording {  // where Value's operators write
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
  if (doubles()) {
    if (dtype == DType::float64) return as(Format::lane).node;
    if (dtype == DType::float32) return as(Format::float32).node;
    if (dtype == DType::int32) return as(Format::int32).node;
    if (dtype != DType::boolean) return std::nullopt;
    const Value byte = as(Format::bits8), alone = kind == Kind::scalar ? both(byte, bits(255)) : byte;
    return compare(not_equal, either(alone, constant(0x1p52)), constant(0x1p52)).node;  // whatever is not 0
  }
  if (dtype == DType::float32 || dtype == DType::int32) return as(Format::lane).node;
  if (dtype == DType::float16) return as(Format::float16).node;
  if (dtype == DType::bfloat16) return unary(Kind::shift_left, as(Format::bits16), 16).node;
  if (dtype == DType::int8)
    return unary(Kind::shift_right_sign, unary(Kind::shift_left, as(Format::bits8), 24), 24).node;
  if (dtype != DType::uint8 && dtype != DType::boolean) return std::nullopt;
  const Value byte = as(Format::bits8), alone = kind == Kind::scalar ? both(byte, bits(255)) : byte;
  if (dtype == DType::uint8) return alone.node;
  return unary(Kind::shift_right_sign, binary(Kind::integer_subtract, bits(0), alone), 31).node;  // whatever is not 0
}

std::optional<int> Recorder::apply(const Operation& operation, std::span<const int> operands, bool shared) {
  const Recording scope(code_);
  const auto operand = [&](size_t i) { return Value{i < operands.size() ? operands[i] : -1}; };
  const DType dtype = operation.inputs.back()->type.dtype;
  if (operation.is("cast")) {
    const bool cast_before = operation.input(0)->operation->is("cast");
    const DType to = operation.output()->type.dtype;
    return node_of(doubles() ? cast_among_doubles(dtype, to, operand(0), shared, cast_before)
                             : cast(dtype, to, operand(0), shared, cast_before, has_bfloat16_));
  }
  const bool fits = doubles() ? dtype == DType::float64 : float_lanes(dtype);
  if (!fits && dtype != DType::boolean) return std::nullopt;
  if (operation.is("select")) return choose(operand(0), operand(1), operand(2)).node;
  const Expression expression = expression_of(operation.kind(), dtype);
  if (!expression) return std::nullopt;
  return expression(operand(0), operand(1), operand(2)).node;
}

bool Recorder::store(DType dtype, int value, int stream) {
  const Recording scope(code_);
  const auto write = [&](Format format, Value v) {
    code_.record({.kind = Kind::store, .format = format, .stream = stream, .a = v.node});
    return true;
  };
  if (dtype == DType::boolean) return write(Format::bits8, both({value}, bits(1)));
  if (doubles()) switch (dtype) {
      case DType::float64: return write(Format::lane, {value});
      case DType::float32: return write(Format::float32, {value});
      case DType::int32: return write(Format::int32, {value});
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

VectorCode Recorder::code(std::span<const int> past_caches, bool prefetches) const {
  VectorCode result = code_;
  if (!prefetches) result.prefetched.clear();
  for (Node& node : result.nodes)
    if (node.kind == Kind::store && node.format == Format::lane &&
        std::find(past_caches.begin(), past_caches.end(), node.stream) != past_caches.end())
      node.past_caches = 1;
  return result;
}

}  // namespace mpsgraph::cpu::jit
