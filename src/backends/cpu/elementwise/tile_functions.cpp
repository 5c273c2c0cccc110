// Tile functions for float64, integers, and bool, casts between all types, and selection of the float32 functions. The
// functions are plain loops, except for the vectorized float64 functions (double_functions.h). Complex numbers are in
// tile_functions_complex.cpp.
#include "backends/cpu/elementwise/tile_functions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/elementwise/double_functions.h"
#include "backends/cpu/elementwise/formulas.h"
#include "backends/cpu/elementwise/tile_loops.h"
#include "backends/cpu/instruction_set.h"
#include "mpsgraph/core/errors.h"

namespace mpsgraph::cpu {
namespace {

// The elementary steps of the formulas, for single elements.
struct DoubleSteps {
  using V = double;
  using M = bool;
  static V splat(double x) { return x; }
  static V choose(M mask, V a, V b) { return mask ? a : b; }
  static M less(V a, V b) { return a < b; }
  static M less_or_equal(V a, V b) { return a <= b; }
  static M equal(V a, V b) { return a == b; }
  static M not_equal(V a, V b) { return a != b; }
  static M is_nan(V x) { return x != x; }
  static V least(V a, V b) { return a < b ? a : b; }
  static V greatest(V a, V b) { return a > b ? a : b; }
  static V absolute(V x) { return std::fabs(x); }
  static V with_sign_of(V magnitude, V sign) { return std::copysign(magnitude, sign); }
  static V sqrt(V x) { return std::sqrt(x); }
  static V floor(V x) { return std::floor(x); }
  static V ceil(V x) { return std::ceil(x); }
  static V truncate(V x) { return std::trunc(x); }
  static V rint(V x) { return std::nearbyint(x); }
};

template <class T>
struct IntegerSteps {
  using V = T;
  using M = bool;
  // Compute in at least 32 bits. C++ would promote shorter unsigned types to int, and products of int could overflow.
  using U = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;
  static V splat(int x) { return static_cast<T>(x); }
  static V choose(M mask, V a, V b) { return mask ? a : b; }
  static M less(V a, V b) { return a < b; }
  static M less_or_equal(V a, V b) { return a <= b; }
  static M equal(V a, V b) { return a == b; }
  static M not_equal(V a, V b) { return a != b; }
  static V least(V a, V b) { return a < b ? a : b; }
  static V greatest(V a, V b) { return a < b ? b : a; }
  static V sum(V a, V b) { return static_cast<T>(U(a) + U(b)); }
  static V difference(V a, V b) { return static_cast<T>(U(a) - U(b)); }
  static V product(V a, V b) { return static_cast<T>(U(a) * U(b)); }
  static V both(V a, V b) { return static_cast<T>(a & b); }
  static V either(V a, V b) { return static_cast<T>(a | b); }
  static V differ(V a, V b) { return static_cast<T>(a ^ b); }
  static V inverse(V x) { return static_cast<T>(~x); }
};

// Booleans are bytes, of which every value but 0 is true. These functions avoid `&&` and `||`, whose short-circuiting
// would prevent vectorization.
struct BooleanSteps {
  using M = uint8_t;
  static M both(M a, M b) { return (a != 0) & (b != 0); }
  static M either(M a, M b) { return (a | b) != 0; }
  static M differ(M a, M b) { return (a != 0) != (b != 0); }
  static M inverse(M x) { return x == 0; }
};

// Entries of the functions below, each of which returns the loop of the operation `k`. T is the element type, and F
// the formulas.
#define UNARY(NAME) \
  if (k == #NAME) return unary<T, T>([](T x) -> T { return F::NAME(x); });
#define TEST(NAME) \
  if (k == #NAME) return unary<uint8_t, T>([](T x) -> uint8_t { return F::NAME(x); });
#define BINARY(NAME) \
  if (k == #NAME) return binary<T, T>([](T a, T b) -> T { return F::NAME(a, b); }, m);
#define COMMUTATIVE(NAME) \
  if (k == #NAME) return commutative<T, T>([](T a, T b) -> T { return F::NAME(a, b); }, m);
#define TERNARY(NAME) \
  if (k == #NAME) return ternary<T, T>([](T a, T b, T c) -> T { return F::NAME(a, b, c); }, m);
#define EQUALITY(NAME) \
  if (k == #NAME) return commutative<uint8_t, T>([](T a, T b) -> uint8_t { return F::NAME(a, b); }, m);

template <class F, class T>
TileFunction order(std::string_view k, ScalarMask m) {
  const auto less = [](T a, T b) { return F::less_than(a, b); };
  const auto at_most = [](T a, T b) { return F::less_than_or_equal_to(a, b); };
  if (k == "less_than") return binary<uint8_t, T>(less, m);
  if (k == "less_than_or_equal_to") return binary<uint8_t, T>(at_most, m);
  if (k == "greater_than") return opposite<uint8_t, T>(less, m);
  if (k == "greater_than_or_equal_to") return opposite<uint8_t, T>(at_most, m);
  return nullptr;
}

// Replace subnormals with 0. The processor already treats subnormals as 0, but a C library that inspects bits might
// not.
double flushed(double x) { return x == 0 ? std::copysign(0., x) : x; }
double power(double a, double b) { return std::pow(flushed(a), flushed(b)); }
double modulo(double a, double b) { return std::fmod(flushed(a), flushed(b)); }
double floor_modulo(double a, double b) {
  const double r = modulo(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Return the vectorized float64 function of kind `k`, or null if there is none.
TileFunction double_function(std::string_view k, ScalarMask m) {
  static const DoubleFunctions functions = double_functions() ? *double_functions() : DoubleFunctions{};
  return k == "exponent"    ? functions.exponent
         : k == "logarithm" ? functions.logarithm
         : k == "tanh"      ? functions.tanh
         : k == "sigmoid"   ? functions.sigmoid
         : k == "sin"       ? functions.sin
         : k == "cos"       ? functions.cos
         : k == "erf"       ? functions.erf
         : k == "power"     ? functions.power[m & 3]
                            : nullptr;
}

TileFunction float64_tile(std::string_view k, ScalarMask m) {
  using T = double;
  using F = FloatFormulas<DoubleSteps>;
  if (const TileFunction vectors = double_function(k, m)) return vectors;
  MPSGRAPH_UNARY_FLOATS(UNARY)
  MPSGRAPH_COMMUTATIVE_FLOATS(COMMUTATIVE)
  MPSGRAPH_BINARY_FLOATS(BINARY)
  MPSGRAPH_TERNARY_FLOATS(TERNARY)
  MPSGRAPH_EQUALITIES(EQUALITY)
  MPSGRAPH_FLOAT_TESTS(TEST)
  // Functions of the C library.
#define FUNCTION(NAME, RESULT) \
  if (k == NAME) return unary<T, T>([](T x) -> T { return RESULT; });
#define FUNCTION_OF_TWO(NAME, RESULT) \
  if (k == NAME) return long_binary<T, T>([](T a, T b) -> T { return RESULT; }, m);
  FUNCTION("exponent", std::exp(x))
  FUNCTION("exponent_base2", std::exp2(x))
  FUNCTION("exponent_base10", std::pow(10., x))
  FUNCTION("logarithm", std::log(x))
  FUNCTION("logarithm_base2", std::log2(x))
  FUNCTION("logarithm_base10", std::log10(x))
  FUNCTION("sin", std::sin(x))
  FUNCTION("cos", std::cos(x))
  FUNCTION("tan", std::tan(x))
  FUNCTION("sinh", std::sinh(x))
  FUNCTION("cosh", std::cosh(x))
  FUNCTION("tanh", std::tanh(x))
  FUNCTION("asin", std::asin(x))
  FUNCTION("acos", std::acos(x))
  FUNCTION("atan", std::atan(x))
  FUNCTION("asinh", std::asinh(x))
  FUNCTION("acosh", std::acosh(x))
  FUNCTION("atanh", std::atanh(x))
  FUNCTION("erf", std::erf(x))
  FUNCTION("sigmoid", sigmoid(x))
  FUNCTION_OF_TWO("sigmoid_gradient", a * sigmoid(b) * (1 - sigmoid(b)))
  FUNCTION_OF_TWO("power", power(a, b))
  FUNCTION_OF_TWO("modulo", modulo(a, b))
  FUNCTION_OF_TWO("floor_modulo", floor_modulo(a, b))
  FUNCTION_OF_TWO("atan2", std::atan2(a, b))
#undef FUNCTION
#undef FUNCTION_OF_TWO
  if (k == "signbit") return unary<uint8_t, T>([](T x) -> bool { return std::signbit(x); });
  return order<F, T>(k, m);
}

// Integer division and remainder never trap: dividing by zero gives 0, and the smallest integer divided by -1 wraps.
template <class T>
T quotient(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
  return static_cast<T>(a / b);
}
template <class T>
T remainder(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
}
template <class T>
T floor_remainder(T a, T b) {
  const T r = remainder(a, b);
  return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
}
template <class T>
T integer_power(T base, T exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == static_cast<T>(-1) ? (exponent % 2 ? base : 1) : 0;
  // an unsigned type wraps instead of overflowing
  using U = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;
  U result = 1, b = static_cast<U>(base);
  for (auto e = static_cast<std::make_unsigned_t<T>>(exponent); e; e >>= 1, b *= b)
    if (e & 1) result *= b;
  return static_cast<T>(result);
}

// Return functions whose results are bitwise the same for signed and unsigned integers, compiled only for unsigned
// integers.
template <class T>
TileFunction unsigned_tile(std::string_view k, ScalarMask m) {
  using F = IntegerFormulas<IntegerSteps<T>>;
  MPSGRAPH_UNARY_INTEGERS(UNARY)
  MPSGRAPH_COMMUTATIVE_INTEGERS(COMMUTATIVE)
  MPSGRAPH_BINARY_INTEGERS(BINARY)
  MPSGRAPH_EQUALITIES(EQUALITY)
  if (k == "bitwise_population_count") return unary<T, T>([](T x) -> T { return static_cast<T>(std::popcount(x)); });
  return nullptr;
}

template <class T>
TileFunction integer_tile(std::string_view k, ScalarMask m) {
  if (const TileFunction either = unsigned_tile<std::make_unsigned_t<T>>(k, m)) return either;
  using F = IntegerFormulas<IntegerSteps<T>>;
  MPSGRAPH_UNARY_ORDERED_INTEGERS(UNARY)
  MPSGRAPH_COMMUTATIVE_ORDERED_INTEGERS(COMMUTATIVE)
  MPSGRAPH_BINARY_ORDERED_INTEGERS(BINARY)
  MPSGRAPH_TERNARY_ORDERED_INTEGERS(TERNARY)
  MPSGRAPH_INTEGER_TESTS(TEST)
  using U = typename IntegerSteps<T>::U;
  constexpr int bits = sizeof(T) * 8;
#define SHIFT(NAME, RESULT) \
  if (k == NAME) return binary<T, T>([](T a, T b) -> T { return static_cast<T>(RESULT); }, m);
  SHIFT("bitwise_left_shift", b < 0 || b >= static_cast<T>(bits) ? 0 : U(a) << b)
  SHIFT("bitwise_right_shift", b < 0 || b >= static_cast<T>(bits) ? (a < 0 ? -1 : 0) : a >> b)
#undef SHIFT
  if (k == "division" || k == "division_no_nan") return long_binary<T, T>([](T a, T b) { return quotient(a, b); }, m);
  if (k == "modulo") return long_binary<T, T>([](T a, T b) { return remainder(a, b); }, m);
  if (k == "floor_modulo") return long_binary<T, T>([](T a, T b) { return floor_remainder(a, b); }, m);
  if (k == "power") return long_binary<T, T>([](T a, T b) { return integer_power(a, b); }, m);
  if (k == "is_nan" || k == "is_infinite") return unary<uint8_t, T>([](T) { return false; });
  if (k == "is_finite") return unary<uint8_t, T>([](T) { return true; });
  return order<F, T>(k, m);
}

TileFunction boolean_tile(std::string_view k, ScalarMask m) {
  using T = uint8_t;
  using F = MaskFormulas<BooleanSteps>;
  UNARY(identity)
  if (k == "not") return unary<T, T>([](T x) { return F::logical_not(x); });
  MPSGRAPH_BINARY_MASKS(COMMUTATIVE)
  const auto less = [](T a, T b) { return T((a == 0) & (b != 0)); };
  const auto at_most = [](T a, T b) { return T((a == 0) | (b != 0)); };
  if (k == "less_than") return binary<T, T>(less, m);
  if (k == "less_than_or_equal_to") return binary<T, T>(at_most, m);
  if (k == "greater_than") return opposite<T, T>(less, m);
  if (k == "greater_than_or_equal_to") return opposite<T, T>(at_most, m);
  return nullptr;
}
#undef UNARY
#undef TEST
#undef BINARY
#undef COMMUTATIVE
#undef TERNARY
#undef EQUALITY

// ---- casts

struct HalfBits {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};
struct Bool {
  uint8_t value;
};

template <class T>
auto widen(T x) {
  return x;
}
inline float widen(HalfBits x) { return half_to_float(x.bits); }
inline float widen(Brain x) { return bfloat16_to_float(x.bits); }
inline int widen(Bool x) { return x.value ? 1 : 0; }

template <class R, class T>
R convert(T x) {
  const auto wide = widen(x);
  if constexpr (is_complex_type<T>) {
    if constexpr (is_complex_type<R>)
      return R(x);
    else if constexpr (std::is_same_v<R, Bool>)
      return Bool{x != T()};
    else
      return convert<R>(x.real());
  } else if constexpr (is_complex_type<R>)
    return R(static_cast<typename R::value_type>(wide));
  else if constexpr (std::is_same_v<R, HalfBits>)
    return HalfBits{float_to_half(static_cast<float>(wide))};
  else if constexpr (std::is_same_v<R, Brain>)
    return Brain{float_to_bfloat16(static_cast<float>(wide))};
  else if constexpr (std::is_same_v<R, Bool>)
    return Bool{wide != 0};
  else if constexpr (std::is_integral_v<R> && std::is_floating_point_v<decltype(wide)>) {
    // Saturate, and convert NaN to 0; a plain conversion would be undefined behavior.
    if (!(wide == wide)) return 0;
    if (wide >= static_cast<decltype(wide)>(std::numeric_limits<R>::max())) return std::numeric_limits<R>::max();
    if (wide <= static_cast<decltype(wide)>(std::numeric_limits<R>::min())) return std::numeric_limits<R>::min();
    return static_cast<R>(wide);
  } else
    return static_cast<R>(wide);
}
template <class R, class T>
void cast_loop(void* out, const void* const* in, int64_t n) {
  const T* x = static_cast<const T*>(in[0]);
  R* y = static_cast<R*>(out);
  for (int64_t i = 0; i < n; i++) y[i] = convert<R>(x[i]);
}
// Cast to the dtype `middle` and from there to `to`. The result equals that of a direct cast, which would also start by
// converting to `middle`.
void in_two_steps(DType from, DType middle, DType to, void* out, const void* in, int64_t n) {
  constexpr int64_t piece = 512;
  alignas(64) std::byte between[piece * 16];
  const void* second = between;
  const TileFunction widen = cast_function(from, middle), narrow = cast_function(middle, to);
  for (int64_t i = 0; i < n; i += piece) {
    const void* first = static_cast<const std::byte*>(in) + static_cast<size_t>(i) * size_of(from);
    widen(between, &first, std::min(piece, n - i));
    narrow(static_cast<std::byte*>(out) + static_cast<size_t>(i) * size_of(to), &second, std::min(piece, n - i));
  }
}
template <DType from, DType middle, DType to>
void by_way_of(void* out, const void* const* in, int64_t n) {
  in_two_steps(from, middle, to, out, in[0], n);
}

template <DType dtype>
struct Stored;
#define STORED(DTYPE, TYPE)     \
  template <>                   \
  struct Stored<DType::DTYPE> { \
    using type = TYPE;          \
  };
STORED(float32, float)
STORED(float16, HalfBits)
STORED(bfloat16, Brain)
STORED(float64, double)
STORED(int8, int8_t)
STORED(int16, int16_t)
STORED(int32, int32_t)
STORED(int64, int64_t)
STORED(uint8, uint8_t)
STORED(uint16, uint16_t)
STORED(uint32, uint32_t)
STORED(uint64, uint64_t)
STORED(boolean, Bool)
STORED(complex64, std::complex<float>)
STORED(complex128, std::complex<double>)
#undef STORED

constexpr bool is_half_dtype(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

// Return the intermediate type of a cast, or `to` if the cast is direct. Casts from or to half precision convert to
// float32 first, and from there to the type of the result.
constexpr DType way(DType from, DType to) {
  return from != to && (is_half_dtype(from) || is_half_dtype(to)) ? DType::float32 : to;
}
template <DType from, DType to>
constexpr TileFunction cast_of() {
  using R = typename Stored<to>::type;
  using T = typename Stored<from>::type;
  constexpr DType middle = way(from, to);
  if constexpr (middle != to && middle != from) return by_way_of<from, middle, to>;
  // In a cast between integer types, signed and unsigned results have the same bits, and the signedness of the source
  // matters only if the cast widens.
  else if constexpr (std::is_integral_v<R> && std::is_integral_v<T>)
    return cast_loop<std::make_unsigned_t<R>, std::conditional_t<(sizeof(R) > sizeof(T)), T, std::make_unsigned_t<T>>>;
  else if constexpr (std::is_same_v<R, Bool> && std::is_integral_v<T>)
    return cast_loop<R, std::make_unsigned_t<T>>;
  else if constexpr (std::is_integral_v<R> && std::is_same_v<T, Bool>)
    return cast_loop<std::make_unsigned_t<R>, T>;
  else
    return cast_loop<R, T>;
}
template <DType from>
TileFunction cast_from(DType to) {
  switch (to) {
#define TO(DTYPE) \
  case DType::DTYPE: return cast_of<from, DType::DTYPE>();
    TO(float32)
    TO(float16)
    TO(bfloat16)
    TO(float64)
    TO(int8)
    TO(int16)
    TO(int32)
    TO(int64)
    TO(uint8)
    TO(uint16)
    TO(uint32)
    TO(uint64)
    TO(boolean)
    TO(complex64)
    TO(complex128)
#undef TO
  }
  return nullptr;
}

// Round to half precision and back to float32, a few hundred elements at a time.
template <DType half>
void round_loop(void* out, const void* const* in, int64_t n) {
  constexpr int64_t room = 512;
  uint16_t bits[room];
  const void* from_bits = bits;
  const TileFunction narrow = cast_function(DType::float32, half), wide = cast_function(half, DType::float32);
  for (int64_t i = 0; i < n; i += room) {
    const void* from = static_cast<const float*>(in[0]) + i;
    narrow(bits, &from, std::min(room, n - i));
    wide(static_cast<float*>(out) + i, &from_bits, std::min(room, n - i));
  }
}

}  // namespace

TileFunction tile_function(std::string_view kind, DType dtype, ScalarMask scalars) {
  if (kind == "complex_tensor") return complex_tile(kind, dtype, scalars);
  if (kind == "select") {
    switch (size_of(dtype)) {
      case 1: return select_of<uint8_t>(scalars);
      case 2: return select_of<uint16_t>(scalars);
      case 4: return dtype == DType::float32 ? float_functions().tile(kind, scalars) : select_of<uint32_t>(scalars);
      case 16: return select_of<Item16>(scalars);
      default: return select_of<uint64_t>(scalars);
    }
  }
  switch (dtype) {
    case DType::float32: return float_functions().tile(kind, scalars);
    case DType::float64: return float64_tile(kind, scalars);
    case DType::int8: return integer_tile<int8_t>(kind, scalars);
    case DType::int16: return integer_tile<int16_t>(kind, scalars);
    case DType::int32: return integer_tile<int32_t>(kind, scalars);
    case DType::int64: return integer_tile<int64_t>(kind, scalars);
    case DType::uint8: return integer_tile<uint8_t>(kind, scalars);
    case DType::uint16: return integer_tile<uint16_t>(kind, scalars);
    case DType::uint32: return integer_tile<uint32_t>(kind, scalars);
    case DType::uint64: return integer_tile<uint64_t>(kind, scalars);
    case DType::boolean: return boolean_tile(kind, scalars);
    case DType::complex64:
    case DType::complex128: return complex_tile(kind, dtype, scalars);
    case DType::float16:
    case DType::bfloat16: return nullptr;  // half precision is computed in float32
  }
  return nullptr;
}

TileFunction cast_function(DType from, DType to) {
  if (TileFunction fast = float_functions().cast(from, to)) return fast;
  switch (from) {
    case DType::float32: return cast_from<DType::float32>(to);
    case DType::float16: return cast_from<DType::float16>(to);
    case DType::bfloat16: return cast_from<DType::bfloat16>(to);
    case DType::float64: return cast_from<DType::float64>(to);
    case DType::int8: return cast_from<DType::int8>(to);
    case DType::int16: return cast_from<DType::int16>(to);
    case DType::int32: return cast_from<DType::int32>(to);
    case DType::int64: return cast_from<DType::int64>(to);
    case DType::uint8: return cast_from<DType::uint8>(to);
    case DType::uint16: return cast_from<DType::uint16>(to);
    case DType::uint32: return cast_from<DType::uint32>(to);
    case DType::uint64: return cast_from<DType::uint64>(to);
    case DType::boolean: return cast_from<DType::boolean>(to);
    case DType::complex64: return cast_from<DType::complex64>(to);
    case DType::complex128: return cast_from<DType::complex128>(to);
  }
  return nullptr;
}

TileFunction round_function(DType half) {
  return half == DType::float16 ? round_loop<DType::float16> : round_loop<DType::bfloat16>;
}

}  // namespace mpsgraph::cpu
