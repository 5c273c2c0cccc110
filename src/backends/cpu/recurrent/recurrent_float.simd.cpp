// Recurrent steps in float32.
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "backends/cpu/elementwise/vector_steps.h"
#include "backends/cpu/recurrent/recurrent_engine.h"
#include "backends/cpu/recurrent/recurrent_quantized.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

struct FloatVectors {
  using S = float;
  using V = MPSGRAPH_ISA::V;
  static constexpr int W = MPSGRAPH_ISA::W;
  static constexpr int registers = vector_registers;
  static V load(const float* p) { return MPSGRAPH_ISA::load(p); }
  static void store(float* p, V v) { MPSGRAPH_ISA::store(p, v); }
#if MPSGRAPH_VECTOR_BYTES == 64
  static V load_part(const float* p, int64_t n) { return MPSGRAPH_ISA::load(p, n); }
  static void store_part(float* p, V v, int64_t n) { MPSGRAPH_ISA::store(p, v, n); }
#else
  [[gnu::noinline]] static V load_part(const float* p, int64_t n) { return MPSGRAPH_ISA::load(p, n); }
  [[gnu::noinline]] static void store_part(float* p, V v, int64_t n) { MPSGRAPH_ISA::store(p, v, n); }
#endif
  static void transpose(V* rows) { MPSGRAPH_ISA::transpose(rows); }
  static V splat(float x) { return MPSGRAPH_ISA::splat<V>(x); }
  // Return n / d for d from 1e-37 to 1e38, with an error of at most 2 ulp. An AVX-512 division takes as long as ten
  // multiply-adds, so the quotient is computed from an approximate reciprocal.
  [[gnu::always_inline]] static V quotient(V n, V d) {
#if MPSGRAPH_VECTOR_BYTES == 64
    const V first = std::bit_cast<V>(_mm512_rcp14_ps(std::bit_cast<__m512>(d)));
    return n * (first + first * (splat(1.f) - d * first));
#else
    return n / d;
#endif
  }
  // Return tanh x with an error of at most 6 ulp: an odd polynomial divided by an even one. The magnitude of x is first
  // limited to 7.9, where the magnitude of tanh x is already within 3e-7 of 1. The polynomials in this file are shorter
  // than those of vector_math.h, because gates take a considerable part of a step's time.
  [[gnu::always_inline]] static V tanh(V x) {
    // greatest and least return their second operand if either is NaN, so NaN is preserved
    const V c = greatest(splat(-7.90531111f), least(splat(7.90531111f), x)), t = c * c;
    V p = t * -2.76076847742355e-16f + 2.00018790482477e-13f;
    p = p * t - 8.60467152213735e-11f;
    p = p * t + 5.12229709037114e-08f;
    p = p * t + 1.48572235717979e-05f;
    p = p * t + 6.37261928875436e-04f;
    p = p * t + 4.89352455891786e-03f;
    V q = t * 1.19825839466702e-06f + 1.18534705686654e-04f;
    q = q * t + 2.26843463243900e-03f;
    q = q * t + 4.89352518554385e-03f;
    return quotient(p * c, q);
  }
  // Return sigmoid x with an error of at most 3 ulp. Results below 1e-38 are clamped.
  [[gnu::always_inline]] static V sigmoid(V x) {
    const V c = greatest(splat(-87.f), least(splat(87.f), x)), n = Steps::nearest(c * -1.44269504f);
    const V r = (-c - n * 0.693359375f) + n * 2.12194440e-4f;
    V p = r * 0.00019899391918443143f + 0.0013933733571320772f;
    p = p * r + 0.0083332983776927f;
    p = p * r + 0.041666463017463684f;
    p = p * r + 0.1666666716337204f;
    p = p * r + 0.5f;
    p = p * (r * r) + r + 1.f;
    return quotient(splat(1.f), p * as_float((to_int(n) + 127) << 23) + 1.f);
  }
  static V least(V a, V b) { return MPSGRAPH_ISA::least(a, b); }
  static V greatest(V a, V b) { return MPSGRAPH_ISA::greatest(a, b); }
  static V where_positive(V x, V y) { return select(x > 0.f, y, V{}); }

  static V nearest(V x) { return Steps::nearest(x); }
  static void store_bytes(uint8_t* to, V x) {
    using Bytes = Vector<uint8_t, W>;
    MPSGRAPH_ISA::store(to, __builtin_convertvector(to_int(x), Bytes));
  }
  static V less_zero_points(const int32_t* sums, const int32_t* column_sums, int32_t zero_point,
                            const int32_t* zero_points, int32_t row_term) {
    I sum = MPSGRAPH_ISA::load(sums) - zero_point * MPSGRAPH_ISA::load(column_sums);
    if (zero_points) sum += row_term * MPSGRAPH_ISA::load(zero_points);
    return to_float(sum);
  }
};

}  // namespace

constinit const RecurrentEngine<float> recurrent_engine = RecurrentSteps<FloatVectors>::engine();
constinit const QuantizedLstmEngine quantized_lstm_engine = QuantizedLstm<FloatVectors>::engine();

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
