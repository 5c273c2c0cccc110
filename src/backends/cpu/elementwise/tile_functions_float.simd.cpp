// float32 tile functions.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/elementwise/tile_functions_guarded.h"
#include "backends/cpu/elementwise/tile_functions_reductions.h"
#include "backends/cpu/elementwise/tile_loops.h"
#include "backends/cpu/elementwise/tile_loops_float.h"
#include "backends/cpu/elementwise/vector_steps.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

inline V floor(V x) {  // preserves -0 and numbers too large to have a fraction
  const V t = to_float(to_int(x));
  const V r = t - select(t > x, splat(1.f), V{});
  return select(absolute(x) < 8388608.f, with_sign_of(absolute(r), x), x);
}
inline V truncate(V x) { return select(absolute(x) < 8388608.f, with_sign_of(to_float(to_int(absolute(x))), x), x); }
inline V rint(V x) {  // rounds ties to even
  const V a = absolute(x);
  return select(a < 8388608.f, with_sign_of((a + 8388608.f) - 8388608.f, x), x);
}

// ---- operations

#define UNARY(NAME, EXPR)                \
  struct NAME {                          \
    static V apply(V x) { return EXPR; } \
  };
#define BINARY(NAME, EXPR)                    \
  struct NAME {                               \
    static V apply(V a, V b) { return EXPR; } \
  };
#define TERNARY(NAME, EXPR)                        \
  struct NAME {                                    \
    static V apply(V a, V b, V c) { return EXPR; } \
  };
#define COMPARE(NAME, EXPR)                                 \
  struct NAME {                                             \
    static uint8_t apply(float a, float b) { return EXPR; } \
  };
#define PREDICATE(NAME, EXPR)                      \
  struct NAME {                                    \
    static uint8_t apply(float a) { return EXPR; } \
  };

UNARY(Identity, x)
UNARY(Exponent, Math::exp(x))
UNARY(Logarithm, Math::log(x))
UNARY(Erf, Math::erf(x))
UNARY(Tanh, Math::tanh(x))
UNARY(ExponentBase2, Math::exp2(x))
UNARY(ExponentBase10, Math::exp10(x))
UNARY(LogarithmBase2, Math::log2(x))
UNARY(LogarithmBase10, Math::log10(x))
UNARY(Square, (x * x))
UNARY(SquareRoot, sqrt(x))
UNARY(ReciprocalSquareRoot, 1.f / sqrt(x))
UNARY(Reciprocal, 1.f / x)
UNARY(Absolute, absolute(x))
UNARY(Negative, -x)
UNARY(Sign, select(x > 0.f, splat(1.f), select(x < 0.f, splat(-1.f), x)))
UNARY(Ceil, -floor(-x))
UNARY(Floor, floor(x))
UNARY(Truncate, truncate(x))
UNARY(Rint, rint(x))
UNARY(Round,
      select(absolute(x) < 8388608.f,
             with_sign_of(truncate(absolute(x)) + select(absolute(x) - truncate(absolute(x)) >= 0.5f, splat(1.f), V{}),
                          x),
             x))
UNARY(Sin, sine(x))
UNARY(Cos, cosine(x))
UNARY(Tan, tangent(x))
UNARY(Sinh, Math::sinh(x))
UNARY(Cosh, Math::cosh(x))
UNARY(Asin, Math::asin(x))
UNARY(Acos, Math::acos(x))
UNARY(Atan, Math::atan(x))
UNARY(Asinh, Math::asinh(x))
UNARY(Acosh, Math::acosh(x))
UNARY(Atanh, Math::atanh(x))
UNARY(Relu, select(x < 0.f, V{}, x))
UNARY(Sigmoid, Math::sigmoid(x))

BINARY(Addition, a + b)
BINARY(Subtraction, a - b)
BINARY(Multiplication, (a * b))
BINARY(Division, a / b)
BINARY(DivisionNoNaN, select(b == 0.f, V{}, a / b))
BINARY(Power, power(a, b))
BINARY(Modulo, modulo(a, b))
BINARY(Atan2, Math::atan2(a, b))
BINARY(FloorModulo, floor_modulo(a, b))
BINARY(ReluGradient, select(b > 0.f, a, V{}))
BINARY(SigmoidGradient, Math::sigmoid_gradient(a, b))
BINARY(ExponentOfProduct, Math::exp((a * b)))
BINARY(ErfOfProduct, Math::erf((a * b)))
BINARY(TanhOfProduct, Math::tanh((a * b)))
BINARY(LeakyRelu, select(a >= 0.f, a, (a * b)))

TERNARY(LeakyReluGradient, select(b >= 0.f, a, (a * c)))
TERNARY(Clamp, select(select(a < b, b, a) > c, c, select(a < b, b, a)))
TERNARY(MultiplyAdd, (a * b) + c)
TERNARY(SubtractProduct, c - a * b)
TERNARY(MultiplySum, (a + b) * c)

COMPARE(Equal, a == b)
COMPARE(NotEqual, a != b)
COMPARE(LessThan, a < b)
COMPARE(LessThanOrEqual, a <= b)
PREDICATE(IsNaN, a != a)
PREDICATE(IsInfinite, __builtin_fabsf(a) == INFINITY)
PREDICATE(IsFinite, __builtin_fabsf(a) < INFINITY)
PREDICATE(SignBit, __builtin_signbitf(a) != 0)

struct Entry {
  std::string_view kind;
  int arity;
  TileFunction by_mask[8];
};
template <class F>
constexpr Entry unary_entry(std::string_view kind) {
  return {kind, 1, {unary_loop<F>, unary_loop<F>}};
}
template <class F>
constexpr Entry binary_entry(std::string_view kind) {
  return {kind, 2, {binary_loop<F, 0, 0>, binary_loop<F, 1, 0>, binary_loop<F, 0, 1>, single<binary_loop<F, 0, 0>, 4>}};
}
template <class F>
constexpr Entry commutative_entry(std::string_view kind) {
  return {kind,
          2,
          {binary_loop<F, 0, 0>, turned<binary_loop<F, 0, 1>>, binary_loop<F, 0, 1>, single<binary_loop<F, 0, 0>, 4>}};
}
template <class F>
constexpr Entry long_entry(std::string_view kind) {
  return {kind, 2, {long_binary_loop<F, 0>, long_binary_loop<F, 1>, long_binary_loop<F, 2>, long_binary_loop<F, 3>}};
}
template <class F>
constexpr Entry ternary_entry(std::string_view kind) {
  return {kind,
          3,
          {ternary_loop<F, 0, 0>, spread<ternary_loop<F, 0, 0>, 4, 4, 4, 4>, ternary_loop<F, 1, 0>,
           spread<ternary_loop<F, 1, 0>, 4, 0, 4, 4>, ternary_loop<F, 0, 1>, spread<ternary_loop<F, 0, 1>, 4, 4, 0, 4>,
           ternary_loop<F, 1, 1>, single<ternary_loop<F, 0, 0>, 4>}};
}
// Table entry of a ternary operation whose first two operands commute.
template <class F>
constexpr Entry product_entry(std::string_view kind) {
  return {kind,
          3,
          {ternary_loop<F, 0, 0>, turned<ternary_loop<F, 1, 0>, 3>, ternary_loop<F, 1, 0>,
           spread<ternary_loop<F, 1, 0>, 4, 0, 4, 4>, ternary_loop<F, 0, 1>, turned<ternary_loop<F, 1, 1>, 3>,
           ternary_loop<F, 1, 1>, single<ternary_loop<F, 0, 0>, 4>}};
}
template <class F>
constexpr Entry equality_entry(std::string_view kind) {
  return {
      kind,
      2,
      {compare_loop<F, 0, 0>, turned<compare_loop<F, 0, 1>>, compare_loop<F, 0, 1>, single<compare_loop<F, 0, 0>, 1>}};
}
template <class F>
constexpr Entry compare_entry(std::string_view kind) {
  return {
      kind, 2, {compare_loop<F, 0, 0>, compare_loop<F, 1, 0>, compare_loop<F, 0, 1>, single<compare_loop<F, 0, 0>, 1>}};
}
template <class F>  // compares b with a
constexpr Entry opposite_entry(std::string_view kind) {
  return {kind,
          2,
          {turned<compare_loop<F, 0, 0>>, turned<compare_loop<F, 0, 1>>, turned<compare_loop<F, 1, 0>>,
           single<turned<compare_loop<F, 0, 0>>, 1>}};
}
template <class F>
constexpr Entry test_entry(std::string_view kind) {
  return {kind, 1, {test_loop<F>, test_loop<F>}};
}

constexpr Entry entries[] = {
    unary_entry<Identity>("identity"),
    unary_entry<Identity>("conjugate"),
    unary_entry<Exponent>("exponent"),
    unary_entry<ExponentBase2>("exponent_base2"),
    unary_entry<ExponentBase10>("exponent_base10"),
    unary_entry<Logarithm>("logarithm"),
    unary_entry<LogarithmBase2>("logarithm_base2"),
    unary_entry<LogarithmBase10>("logarithm_base10"),
    unary_entry<Square>("square"),
    unary_entry<Square>("absolute_square"),
    unary_entry<SquareRoot>("square_root"),
    unary_entry<ReciprocalSquareRoot>("reciprocal_square_root"),
    unary_entry<ReciprocalSquareRoot>("reverse_square_root"),
    unary_entry<Reciprocal>("reciprocal"),
    unary_entry<Absolute>("absolute"),
    unary_entry<Negative>("negative"),
    unary_entry<Sign>("sign"),
    unary_entry<Ceil>("ceil"),
    unary_entry<Floor>("floor"),
    unary_entry<Round>("round"),
    unary_entry<Rint>("rint"),
    unary_entry<Truncate>("truncate"),
    unary_entry<Sin>("sin"),
    unary_entry<Cos>("cos"),
    unary_entry<Tan>("tan"),
    unary_entry<Sinh>("sinh"),
    unary_entry<Cosh>("cosh"),
    unary_entry<Tanh>("tanh"),
    unary_entry<Asin>("asin"),
    unary_entry<Acos>("acos"),
    unary_entry<Atan>("atan"),
    unary_entry<Asinh>("asinh"),
    unary_entry<Acosh>("acosh"),
    unary_entry<Atanh>("atanh"),
    unary_entry<Erf>("erf"),
    unary_entry<Relu>("relu"),
    unary_entry<Sigmoid>("sigmoid"),
    commutative_entry<Addition>("addition"),
    binary_entry<Subtraction>("subtraction"),
    commutative_entry<Multiplication>("multiplication"),
    binary_entry<Division>("division"),
    binary_entry<DivisionNoNaN>("division_no_nan"),
    binary_entry<Minimum>("minimum"),
    binary_entry<Maximum>("maximum"),
    binary_entry<MinimumPropagateNaN>("minimum_with_nan_propagation"),
    binary_entry<MaximumPropagateNaN>("maximum_with_nan_propagation"),
    long_entry<Power>("power"),
    long_entry<Modulo>("modulo"),
    long_entry<FloorModulo>("floor_modulo"),
    long_entry<Atan2>("atan2"),
    binary_entry<ReluGradient>("relu_gradient"),
    long_entry<SigmoidGradient>("sigmoid_gradient"),
    binary_entry<LeakyRelu>("leaky_relu"),
    long_entry<ExponentOfProduct>("exponent_of_product"),
    long_entry<ErfOfProduct>("erf_of_product"),
    long_entry<TanhOfProduct>("tanh_of_product"),
    ternary_entry<LeakyReluGradient>("leaky_relu_gradient"),
    ternary_entry<Clamp>("clamp"),
    product_entry<MultiplyAdd>("multiply_add"),
    product_entry<SubtractProduct>("subtract_product"),
    product_entry<MultiplySum>("multiply_sum"),
    equality_entry<Equal>("equal"),
    equality_entry<NotEqual>("not_equal"),
    compare_entry<LessThan>("less_than"),
    compare_entry<LessThanOrEqual>("less_than_or_equal_to"),
    opposite_entry<LessThan>("greater_than"),
    opposite_entry<LessThanOrEqual>("greater_than_or_equal_to"),
    test_entry<IsNaN>("is_nan"),
    test_entry<IsInfinite>("is_infinite"),
    test_entry<IsFinite>("is_finite"),
    test_entry<SignBit>("signbit"),
    {"select",
     3,
     {select_loop<0, 0, 0>, select_loop<1, 0, 0>, select_loop<0, 1, 0>, spread<select_loop<0, 1, 0>, 1, 0, 4, 4>,
      select_loop<0, 0, 1>, spread<select_loop<0, 0, 1>, 1, 4, 0, 4>, select_loop<0, 1, 1>,
      single<select_loop<0, 0, 0>, 4>}},
};

TileFunction tile(std::string_view kind, ScalarMask scalars) {
  for (const Entry& entry : entries)
    if (entry.kind == kind) return entry.by_mask[scalars];
  return nullptr;
}

// ---- performance-critical casts

void bfloat16_to_float32(void* out, const void* const* in, int64_t n) {
  const uint16_t* x = static_cast<const uint16_t*>(in[0]);
  uint32_t* y = static_cast<uint32_t*>(out);
  for (int64_t i = 0; i < n; i++) y[i] = uint32_t(x[i]) << 16;
}
inline uint32_t bfloat16_bits(uint32_t u) {
  const uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  return (u & 0x7fffffff) > 0x7f800000 ? ((u >> 16) | 0x40) : rounded;
}
void float32_to_bfloat16(void* out, const void* const* in, int64_t n) {
  const uint32_t* x = static_cast<const uint32_t*>(in[0]);
  uint16_t* y = static_cast<uint16_t*>(out);
  for (int64_t i = 0; i < n; i++) y[i] = static_cast<uint16_t>(bfloat16_bits(x[i]));
}
void bool_to_float32(void* out, const void* const* in, int64_t n) {
  const uint8_t* x = static_cast<const uint8_t*>(in[0]);
  float* y = static_cast<float*>(out);
  for (int64_t i = 0; i < n; i++) y[i] = x[i] ? 1.f : 0.f;
}
void int32_to_float32(void* out, const void* const* in, int64_t n) {
  const int32_t* x = static_cast<const int32_t*>(in[0]);
  float* y = static_cast<float*>(out);
  for (int64_t i = 0; i < n; i++) y[i] = static_cast<float>(x[i]);
}

template <class T>
void small_to_float32(void* out, const void* const* in, int64_t n) {
  const T* x = static_cast<const T*>(in[0]);
  float* y = static_cast<float*>(out);
  for (int64_t i = 0; i < n; i++) y[i] = static_cast<float>(x[i]);
}
// Cast with saturation; NaN becomes 0.
template <class T>
void float32_to_small(void* out, const void* const* in, int64_t n) {
  const float* x = static_cast<const float*>(in[0]);
  T* y = static_cast<T*>(out);
  for (int64_t i = 0; i < n; i++) {
    const float low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
    const float above = x[i] > low ? x[i] : low, within = above < high ? above : high;
    y[i] = static_cast<T>(static_cast<int32_t>(x[i] == x[i] ? within : 0.f));
  }
}
#if MPSGRAPH_VECTOR_BYTES > 16
void float16_to_float32(void* out, const void* const* in, int64_t n) {
  const auto* x = static_cast<const Half*>(in[0]);
  float* y = static_cast<float*>(out);
  for_lanes<float>(n, [=](int64_t i, auto... rest) { store(y + i, load(x + i, rest...), rest...); });
}
void float32_to_float16(void* out, const void* const* in, int64_t n) {
  const float* x = static_cast<const float*>(in[0]);
  auto* y = static_cast<Half*>(out);
  for_lanes<float>(n, [=](int64_t i, auto... rest) { store(y + i, load(x + i, rest...), rest...); });
}
#endif

TileFunction cast(DType from, DType to) {
#if MPSGRAPH_VECTOR_BYTES > 16
  if (from == DType::float16 && to == DType::float32) return float16_to_float32;
  if (from == DType::float32 && to == DType::float16) return float32_to_float16;
#endif
  if (from == DType::int8 && to == DType::float32) return small_to_float32<int8_t>;
  if (from == DType::uint8 && to == DType::float32) return small_to_float32<uint8_t>;
  if (from == DType::float32 && to == DType::int8) return float32_to_small<int8_t>;
  if (from == DType::float32 && to == DType::uint8) return float32_to_small<uint8_t>;
  if (from == DType::bfloat16 && to == DType::float32) return bfloat16_to_float32;
  if (from == DType::float32 && to == DType::bfloat16) return float32_to_bfloat16;
  if (from == DType::boolean && to == DType::float32) return bool_to_float32;
  if (from == DType::int32 && to == DType::float32) return int32_to_float32;
  return nullptr;
}

#if MPSGRAPH_VECTOR_BYTES > 16
void stream(void* to, const void* from, size_t bytes) {
  constexpr size_t width = MPSGRAPH_VECTOR_BYTES;
  if (reinterpret_cast<uintptr_t>(to) % width != 0) {
    std::memcpy(to, from, bytes);
    return;
  }
  auto* destination = static_cast<char*>(to);
  const auto* source = static_cast<const char*>(from);
  size_t i = 0;
  for (; i + width <= bytes; i += width) {
#if MPSGRAPH_VECTOR_BYTES == 64
    _mm512_stream_ps(reinterpret_cast<float*>(destination + i), _mm512_loadu_ps(source + i));
#else
    _mm256_stream_ps(reinterpret_cast<float*>(destination + i),
                     _mm256_loadu_ps(reinterpret_cast<const float*>(source + i)));
#endif
  }
  std::memcpy(destination + i, source + i, bytes - i);
}
#else
void stream(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
#endif

// ---- complex64: two lanes per number

template <int first, int... i>  // flips the signs of the real parts (first = 0) or imaginary parts (1)
inline V turned_signs(V v, std::integer_sequence<int, i...>) {
  return as_float(as_int(v) ^ I{(i % 2 == first ? std::numeric_limits<int32_t>::min() : 0)...});
}

inline V product_of_complex(V a, V b) {
  const V real = shuffle<[](int i) { return i & ~1; }>(b, b), imaginary = shuffle<[](int i) { return i | 1; }>(b, b);
  const V crossed = shuffle<[](int i) { return i ^ 1; }>(a, a) * imaginary;
  return a * real + turned_signs<0>(crossed, LaneNumbers<V>());
}
void complex_product(void* out, const void* const* in, int64_t n) {
  const auto *a = static_cast<const float*>(in[0]), *b = static_cast<const float*>(in[1]);
  auto* y = static_cast<float*>(out);
  int64_t i = 0;
  for (; i + W <= 2 * n; i += W) store(y + i, product_of_complex(load(a + i), load(b + i)));
  const int64_t rest = 2 * n - i;
  if (rest > 0) store(y + i, product_of_complex(load(a + i, rest, V{}), load(b + i, rest, V{})), rest);
}
void complex_conjugate(void* out, const void* const* in, int64_t n) {
  const auto* x = static_cast<const float*>(in[0]);
  auto* y = static_cast<float*>(out);
  int64_t i = 0;
  for (; i + W <= 2 * n; i += W) store(y + i, turned_signs<1>(load(x + i), LaneNumbers<V>()));
  const int64_t rest = 2 * n - i;
  if (rest > 0) store(y + i, turned_signs<1>(load(x + i, rest, V{}), LaneNumbers<V>()), rest);
}

void repeat(void* to, const void* pattern, size_t bytes) {
  constexpr size_t width = MPSGRAPH_VECTOR_BYTES;
  char all[width];
  for (size_t i = 0; i < width; i += 16) std::memcpy(all + i, pattern, 16);
  V value;
  std::memcpy(&value, all, width);
  auto* destination = static_cast<char*>(to);
  size_t i = 0;
  for (; i + width <= bytes; i += width) std::memcpy(destination + i, &value, width);
  std::memcpy(destination + i, all, bytes - i);
}

}  // namespace

constinit const FloatFunctions float_functions{
    .tile = tile,
    .reduce = reduce,
    .sum_halves = sum_halves,
    .combine = combine,
    .cast = cast,
    .dot = dot,
    .weighted_sum = weighted_sum,
    .stream = stream,
    .complex_product = complex_product,
    .complex_conjugate = complex_conjugate,
    .repeat = repeat,
};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
