// Scalar recurrent steps, for float64, which the reference uses, and for quantized weights.
#pragma once

#include <cmath>
#include <cstdint>

namespace mpsgraph::cpu {

// Scalar implementations of the operations that RecurrentSteps and QuantizedLstm require.
template <class T>
struct Scalars {
  using S = T;
  using V = T;
  static constexpr int W = 1;
  static constexpr int registers = 16;
  static V load(const T* p) { return *p; }
  static void store(T* p, V v) { *p = v; }
  static V load_part(const T* p, int64_t) { return load(p); }  // a scalar has no parts, so n is ignored
  static void store_part(T* p, V v, int64_t) { store(p, v); }
  static void transpose(V*) {}
  static V splat(T x) { return x; }
  static V tanh(V x) { return std::tanh(x); }
  static V sigmoid(V x) { return T(1) / (T(1) + std::exp(-x)); }
  static V least(V a, V b) { return a < b ? a : b; }
  static V greatest(V a, V b) { return a > b ? a : b; }
  static V where_positive(V x, V y) { return x > T(0) ? y : T(0); }
  static V nearest(V x) { return std::nearbyint(x); }
  static void store_bytes(uint8_t* to, V x) { *to = static_cast<uint8_t>(x); }
  static V less_zero_points(const int32_t* sums, const int32_t* column_sums, int32_t zero_point,
                            const int32_t* zero_points, int32_t row_term) {
    return static_cast<T>(*sums - zero_point * *column_sums + (zero_points ? row_term * *zero_points : 0));
  }
};

}  // namespace mpsgraph::cpu
