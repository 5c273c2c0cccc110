// Dispatch from a DType to a C++ type: dispatch(dtype, [&](auto type) { using T = typename decltype(type)::type; ...
// }).
//
// Accumulate<T> is the type in which sums of T are accumulated: float for float16 and bfloat16, a wider unsigned
// integer for integers (their sums wrap in two's complement), and T itself for float, double, and complex types.
#pragma once

#include <bit>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backends/cpu/half_types.h"
#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

// A 16-byte element that kernels only move.
struct Item16 {
  uint64_t words[2] = {};
  Item16() = default;
  explicit Item16(int) {}  // lets generic code write T(0), as for integer types
};

template <class T>
inline constexpr bool is_half_type = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <class T>
inline constexpr bool is_float_type = std::is_floating_point_v<T> || is_half_type<T>;

template <class T>
inline constexpr bool is_complex_type =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

template <class T>
using Accumulate = std::conditional_t<is_half_type<T>, float,
                                      std::conditional_t<std::is_floating_point_v<T> || is_complex_type<T>, T,
                                                         std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>>;
// The type in which elements of T are compared and tested.
template <class T>
using Value = std::conditional_t<is_half_type<T>, float, T>;

template <class T>
struct Type {
  using type = T;
};

template <class F>
decltype(auto) dispatch(DType dtype, const F& f) {
  switch (dtype) {
    case DType::float16: return f(Type<Half>{});
    case DType::bfloat16: return f(Type<BFloat16>{});
    case DType::float64: return f(Type<double>{});
    case DType::int8: return f(Type<int8_t>{});
    case DType::int16: return f(Type<int16_t>{});
    case DType::int32: return f(Type<int32_t>{});
    case DType::int64: return f(Type<int64_t>{});
    case DType::uint8: return f(Type<uint8_t>{});
    case DType::uint16: return f(Type<uint16_t>{});
    case DType::uint32: return f(Type<uint32_t>{});
    case DType::uint64: return f(Type<uint64_t>{});
    case DType::boolean: return f(Type<bool>{});
    case DType::complex64: return f(Type<std::complex<float>>{});
    case DType::complex128: return f(Type<std::complex<double>>{});
    case DType::float32: break;
  }
  return f(Type<float>{});
}

// Throw UnsupportedError because the CPU has no kernel of this operation for `dtype`.
[[noreturn]] inline void unsupported(const Lowering& lowering, DType dtype) {
  const Operation& operation = lowering.operation();
  throw UnsupportedError(cat("[", operation.kind(), "] the CPU has no kernel for dtype ", dtype,
                             "; cast the inputs of '", operation.name, "' to a supported dtype", operation.where()));
}

template <class F>
decltype(auto) dispatch_float(const Lowering& lowering, DType dtype, const F& f) {
  switch (dtype) {
    case DType::float32: return f(Type<float>{});
    case DType::float16: return f(Type<Half>{});
    case DType::bfloat16: return f(Type<BFloat16>{});
    case DType::float64: return f(Type<double>{});
    default: unsupported(lowering, dtype);
  }
}

template <class T>
struct UnsignedOf {
  using type = T;
};
template <class T>
  requires std::is_integral_v<T>
struct UnsignedOf<T> {
  using type = std::make_unsigned_t<std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>>;
};

// Dispatch on all types except bool, for kernels that compute sums and products. Signed integers are passed as unsigned
// integers of the same size, because sums and products have the same bits in two's complement.
template <class F>
decltype(auto) dispatch_algebraic(const Lowering& lowering, DType dtype, const F& f) {
  if (dtype == DType::boolean) unsupported(lowering, dtype);
  return dispatch(dtype,
                  [&](auto type) { return f(Type<typename UnsignedOf<typename decltype(type)::type>::type>{}); });
}

// Dispatch on all real numeric types, that is, on all types except bool and complex ones.
template <class F>
decltype(auto) dispatch_number(const Lowering& lowering, DType dtype, const F& f) {
  if (is_complex(dtype) || dtype == DType::boolean) unsupported(lowering, dtype);
  return dispatch(dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (std::is_same_v<T, bool>)
      return f(Type<uint8_t>{});
    else
      return f(Type<std::conditional_t<is_complex_type<T>, float, T>>{});
  });
}

// Comparison that lets one loop sort in ascending or descending order. Integers are XORed with `bits`, compared as
// unsigned values, and XORed again to restore them: a mask with the sign bit makes signed integers compare correctly,
// and a mask with all bits reverses the order. For floats, flipping the sign bit reverses the order.
template <class T>
struct Order {
  using Bits = std::conditional_t<sizeof(Value<T>) == 1, uint8_t,
                                  std::conditional_t<sizeof(Value<T>) == 2, uint16_t,
                                                     std::conditional_t<sizeof(Value<T>) == 4, uint32_t, uint64_t>>>;
  static constexpr Bits sign = Bits(Bits{1} << (8 * sizeof(Bits) - 1));
  Bits bits = 0;
  Order(DType dtype, bool opposite) {
    if constexpr (is_float_type<T>)
      bits = opposite ? sign : Bits(0);
    else
      bits = Bits((is_signed(dtype) ? sign : Bits(0)) ^ (opposite ? Bits(~Bits(0)) : Bits(0)));
  }
  Value<T> turned(Value<T> x) const {
    return std::bit_cast<Value<T>>(static_cast<Bits>(std::bit_cast<Bits>(x) ^ bits));
  }
};

// Dispatch on the same types as dispatch_number, but pass signed integers as unsigned ones, as Order requires.
template <class F>
decltype(auto) dispatch_order(const Lowering& lowering, DType dtype, const F& f) {
  return dispatch_number(
      lowering, dtype, [&](auto type) { return f(Type<typename UnsignedOf<typename decltype(type)::type>::type>{}); });
}

// Dispatch on all types that have an order: bool and the real numeric types, but not complex ones.
template <class F>
decltype(auto) dispatch_ordered(const Lowering& lowering, DType dtype, const F& f) {
  if (dtype == DType::boolean) return f(Type<bool>{});
  return dispatch_number(lowering, dtype, f);
}

// Dispatch on the size of an element. The C++ type is an unsigned integer of that size, for kernels that only move
// bits.
template <class F>
decltype(auto) dispatch_size(size_t bytes, const F& f) {
  switch (bytes) {
    case 1: return f(Type<uint8_t>{});
    case 2: return f(Type<uint16_t>{});
    case 8: return f(Type<uint64_t>{});
    case 16: return f(Type<Item16>{});
    default: return f(Type<uint32_t>{});
  }
}

// Read one element of an integer tensor, such as an index, as int64.
inline int64_t integer_at(const std::byte* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::int8: return reinterpret_cast<const int8_t*>(data)[i];
    case DType::int16: return reinterpret_cast<const int16_t*>(data)[i];
    case DType::int64: return reinterpret_cast<const int64_t*>(data)[i];
    case DType::uint8: return reinterpret_cast<const uint8_t*>(data)[i];
    case DType::uint16: return reinterpret_cast<const uint16_t*>(data)[i];
    case DType::uint32: return reinterpret_cast<const uint32_t*>(data)[i];
    // values of 2^63 and above become negative, which does not matter, because both the original and the negative value
    // are out of range as indices
    case DType::uint64: return reinterpret_cast<const int64_t*>(data)[i];
    default: return reinterpret_cast<const int32_t*>(data)[i];
  }
}

// Splits a shape around one axis into [outer, n, inner].
struct AxisSplit {
  int64_t outer = 1, n = 1, inner = 1;
  AxisSplit(const Dims& dims, int64_t axis) {
    const int64_t rank = static_cast<int64_t>(dims.size());
    if (axis < 0) axis += rank;
    for (int64_t i = 0; i < rank; ++i) (i < axis ? outer : i == axis ? n : inner) *= dims[i];
  }
};

}  // namespace mpsgraph::cpu
