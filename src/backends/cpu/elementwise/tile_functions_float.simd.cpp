// float32 tile functions.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backends/cpu/elementwise/formulas.h"
#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/elementwise/tile_functions_guarded.h"
#include "backends/cpu/elementwise/tile_functions_reductions.h"
#include "backends/cpu/elementwise/tile_loops.h"
#include "backends/cpu/elementwise/tile_loops_float.h"
#include "backends/cpu/elementwise/vector_steps.h"
#include "backends/cpu/streaming_stores.h"

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

struct FloatSteps : Steps {
  static M not_equal(V a, V b) { return a != b; }
  static M is_nan(V x) { return x != x; }
  static V floor(V x) { return MPSGRAPH_ISA::floor(x); }
  static V ceil(V x) { return -MPSGRAPH_ISA::floor(-x); }
  static V truncate(V x) { return MPSGRAPH_ISA::truncate(x); }
  static V rint(V x) { return MPSGRAPH_ISA::rint(x); }
};

// The steps of the operations whose results are booleans. The compiler vectorizes their loops.
struct ScalarSteps {
  using V = float;
  using M = bool;
  static V splat(float x) { return x; }
  static V absolute(V x) { return __builtin_fabsf(x); }
  static M less(V a, V b) { return a < b; }
  static M less_or_equal(V a, V b) { return a <= b; }
  static M equal(V a, V b) { return a == b; }
  static M not_equal(V a, V b) { return a != b; }
  static M is_nan(V x) { return x != x; }
};

using OfVectors = FloatFormulas<FloatSteps>;
using OfScalars = FloatFormulas<ScalarSteps>;

// A class of_NAME for each operation, which the loops take as a parameter.
#define UNARY(NAME)                                    \
  struct of_##NAME {                                   \
    static V apply(V x) { return OfVectors::NAME(x); } \
  };
#define BINARY(NAME)                                           \
  struct of_##NAME {                                           \
    static V apply(V a, V b) { return OfVectors::NAME(a, b); } \
  };
#define TERNARY(NAME)                                                  \
  struct of_##NAME {                                                   \
    static V apply(V a, V b, V c) { return OfVectors::NAME(a, b, c); } \
  };
#define TEST(NAME)                                               \
  struct of_##NAME {                                             \
    static uint8_t apply(float x) { return OfScalars::NAME(x); } \
  };
#define COMPARISON(NAME)                                                     \
  struct of_##NAME {                                                         \
    static uint8_t apply(float a, float b) { return OfScalars::NAME(a, b); } \
  };
#define FUNCTION(NAME, RESULT)             \
  struct of_##NAME {                       \
    static V apply(V x) { return RESULT; } \
  };
#define FUNCTION_OF_TWO(NAME, RESULT)           \
  struct of_##NAME {                            \
    static V apply(V a, V b) { return RESULT; } \
  };
#define FUNCTION_OF_THREE(NAME, RESULT)              \
  struct of_##NAME {                                 \
    static V apply(V a, V b, V c) { return RESULT; } \
  };
#define MATH(NAME, NAMED) FUNCTION(NAME, Math::NAMED(x))
#define MATH_OF_TWO(NAME, NAMED) FUNCTION_OF_TWO(NAME, Math::NAMED(a, b))

MPSGRAPH_UNARY_FLOATS(UNARY)
MPSGRAPH_COMMUTATIVE_FLOATS(BINARY)
MPSGRAPH_BINARY_FLOATS(BINARY)
MPSGRAPH_TERNARY_FLOATS(TERNARY)
MPSGRAPH_EQUALITIES(COMPARISON)
MPSGRAPH_ORDERS(COMPARISON)
MPSGRAPH_FLOAT_TESTS(TEST)
MPSGRAPH_UNARY_FUNCTIONS(MATH)
MPSGRAPH_BINARY_FUNCTIONS(MATH_OF_TWO)
MPSGRAPH_UNARY_FLOAT_FUNCTIONS(MATH)
MPSGRAPH_BINARY_FLOAT_FUNCTIONS(MATH_OF_TWO)

// Operations that only loops compute, and those that the compiler creates.
FUNCTION(sin, sine(x))
FUNCTION(cos, cosine(x))
FUNCTION(tan, tangent(x))
FUNCTION_OF_TWO(power, MPSGRAPH_ISA::power(a, b))
FUNCTION_OF_TWO(modulo, MPSGRAPH_ISA::modulo(a, b))
FUNCTION_OF_TWO(floor_modulo, MPSGRAPH_ISA::floor_modulo(a, b))
FUNCTION_OF_TWO(exponent_of_product, Math::exp((a * b)))
FUNCTION_OF_TWO(erf_of_product, Math::erf((a * b)))
FUNCTION_OF_TWO(tanh_of_product, Math::tanh((a * b)))
FUNCTION_OF_THREE(multiply_add, (a * b) + c)
FUNCTION_OF_THREE(subtract_product, c - a * b)
FUNCTION_OF_THREE(multiply_sum, (a + b) * c)
struct of_signbit {
  static uint8_t apply(float x) { return __builtin_signbitf(x) != 0; }
};

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

// clang-format off
#define UNARY_ENTRY(NAME) unary_entry<of_##NAME>(#NAME),
#define BINARY_ENTRY(NAME) binary_entry<of_##NAME>(#NAME),
#define COMMUTATIVE_ENTRY(NAME) commutative_entry<of_##NAME>(#NAME),
#define TERNARY_ENTRY(NAME) ternary_entry<of_##NAME>(#NAME),
#define EQUALITY_ENTRY(NAME) equality_entry<of_##NAME>(#NAME),
#define ORDER_ENTRY(NAME) compare_entry<of_##NAME>(#NAME),
#define TEST_ENTRY(NAME) test_entry<of_##NAME>(#NAME),
#define MATH_ENTRY(NAME, FUNCTION) unary_entry<of_##NAME>(#NAME),
#define LONG_ENTRY(NAME, FUNCTION) long_entry<of_##NAME>(#NAME),
constexpr Entry entries[] = {
    MPSGRAPH_UNARY_FLOATS(UNARY_ENTRY) MPSGRAPH_COMMUTATIVE_FLOATS(COMMUTATIVE_ENTRY)
    MPSGRAPH_BINARY_FLOATS(BINARY_ENTRY) MPSGRAPH_TERNARY_FLOATS(TERNARY_ENTRY)
    MPSGRAPH_EQUALITIES(EQUALITY_ENTRY) MPSGRAPH_ORDERS(ORDER_ENTRY) MPSGRAPH_FLOAT_TESTS(TEST_ENTRY)
    MPSGRAPH_UNARY_FUNCTIONS(MATH_ENTRY) MPSGRAPH_UNARY_FLOAT_FUNCTIONS(MATH_ENTRY)
    MPSGRAPH_BINARY_FUNCTIONS(LONG_ENTRY) MPSGRAPH_BINARY_FLOAT_FUNCTIONS(LONG_ENTRY)
    opposite_entry<of_less_than>("greater_than"),
    opposite_entry<of_less_than_or_equal_to>("greater_than_or_equal_to"),
    test_entry<of_signbit>("signbit"),
    unary_entry<of_sin>("sin"),
    unary_entry<of_cos>("cos"),
    unary_entry<of_tan>("tan"),
    long_entry<of_power>("power"),
    long_entry<of_modulo>("modulo"),
    long_entry<of_floor_modulo>("floor_modulo"),
    long_entry<of_exponent_of_product>("exponent_of_product"),
    long_entry<of_erf_of_product>("erf_of_product"),
    long_entry<of_tanh_of_product>("tanh_of_product"),
    product_entry<of_multiply_add>("multiply_add"),
    product_entry<of_subtract_product>("subtract_product"),
    product_entry<of_multiply_sum>("multiply_sum"),
    {"select",
     3,
     {select_loop<0, 0, 0>, select_loop<1, 0, 0>, select_loop<0, 1, 0>, spread<select_loop<0, 1, 0>, 1, 0, 4, 4>,
      select_loop<0, 0, 1>, spread<select_loop<0, 0, 1>, 1, 4, 0, 4>, select_loop<0, 1, 1>,
      single<select_loop<0, 0, 0>, 4>}},
};
// clang-format on

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
#if !MPSGRAPH_IS_BASELINE
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
#if !MPSGRAPH_IS_BASELINE
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

#if !MPSGRAPH_IS_BASELINE
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
    stream_store(reinterpret_cast<float*>(destination + i), load_as<V>(source + i));
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
