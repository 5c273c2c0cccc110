// Vectors for kernels that are compiled once per instruction set (instruction_set.h).
//
// The vectors are the compiler's own (vector_size), so +, *, <, ?: and [] apply to them, and each instruction set gets
// full-width code without intrinsics. This header adds what the language lacks: loads and stores, rows that end within
// a vector, fused multiply-adds, minima with a rule for NaN, sums over lanes, transposition, and half precision. Other
// operations of a single processor belong in the kernel that needs them.
//
// Products and sums are contracted to fused multiply-adds, except in baseline builds.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#if defined(__x86_64__) && MPSGRAPH_VECTOR_BYTES == 16
#include <emmintrin.h>  // immintrin.h takes ten times as long to compile, and the other builds precompile it
#elif defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "backends/cpu/half_types.h"

// Whether this build has neither fused multiply-adds nor conversions of float16.
#if MPSGRAPH_VECTOR_BYTES == 16 && !defined(__aarch64__)
#define MPSGRAPH_IS_BASELINE 1
#else
#define MPSGRAPH_IS_BASELINE 0
#endif

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

// ---- types

template <class T, int bytes>
struct VectorType {
  typedef T Type __attribute__((vector_size(bytes)));
};
template <class T, int bytes = MPSGRAPH_VECTOR_BYTES>
using Vector = typename VectorType<T, bytes>::Type;
template <class T>
constexpr int lanes = MPSGRAPH_VECTOR_BYTES / static_cast<int>(sizeof(T));

template <class V>
using LaneType = std::remove_cvref_t<decltype(std::declval<V>()[0])>;
template <class V>
constexpr int lanes_of = static_cast<int>(sizeof(V) / sizeof(LaneType<V>));
template <class V>
using LaneNumbers = std::make_integer_sequence<int, lanes_of<V>>;

// The result type of comparisons: in each lane, all bits are set or all are clear.
template <class V>
using LaneMask = decltype(std::declval<V>() < std::declval<V>());

using Floats = Vector<float>;
using Doubles = Vector<double>;
using Ints = Vector<int32_t>;
using Words = Vector<uint32_t>;
using HalfBits = Vector<uint16_t, MPSGRAPH_VECTOR_BYTES / 2>;  // as many float16 or bfloat16 as Floats has lanes

#if MPSGRAPH_VECTOR_BYTES == 64 || defined(__aarch64__)
constexpr int vector_registers = 32;
#else
constexpr int vector_registers = 16;
#endif

// ---- loads and stores, without alignment

template <class V>
inline V load_as(const void* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class T>
  requires std::is_arithmetic_v<T>
inline Vector<T> load(const T* from) {
  return load_as<Vector<T>>(from);
}
template <class V>
inline void store(void* to, V v) {
  std::memcpy(to, &v, sizeof v);
}

// Load or store the first n lanes, n < lanes. The remaining lanes of a loaded vector come from `others` or are 0. A
// store leaves the memory of the remaining lanes unchanged. Only the first n elements are accessed.
//
// Code that handles both whole vectors and the end of a row passes a parameter pack n... that is empty for a whole
// vector.
template <class V>
inline V load_as(const void* from, int64_t n, V others = V{}) {
  using T = LaneType<V>;
#if MPSGRAPH_VECTOR_BYTES == 64
  const auto mask = (uint64_t{1} << n) - 1;
  if constexpr (sizeof(V) == 64 && sizeof(T) == 4)
    return (V)_mm512_mask_loadu_epi32((__m512i)others, static_cast<__mmask16>(mask), from);
  else if constexpr (sizeof(V) == 64 && sizeof(T) == 8)
    return (V)_mm512_mask_loadu_epi64((__m512i)others, static_cast<__mmask8>(mask), from);
  else if constexpr (sizeof(V) == 32 && sizeof(T) == 2)
    return (V)_mm256_mask_loadu_epi16((__m256i)others, static_cast<__mmask16>(mask), from);
#elif MPSGRAPH_VECTOR_BYTES == 32
  if constexpr (sizeof(V) == 32 && sizeof(T) == 4) {
    const Ints there = Ints{0, 1, 2, 3, 4, 5, 6, 7} < static_cast<int32_t>(n);
    return there ? (V)_mm256_maskload_epi32(static_cast<const int*>(from), (__m256i)there) : others;
  }
#endif
  std::memcpy(&others, from, static_cast<size_t>(n) * sizeof(T));
  return others;
}
template <class T>
  requires std::is_arithmetic_v<T>
inline Vector<T> load(const T* from, int64_t n, Vector<T> others = Vector<T>{}) {
  return load_as<Vector<T>>(from, n, others);
}
template <class V>
inline void store(void* to, V v, int64_t n) {
  using T = LaneType<V>;
#if MPSGRAPH_VECTOR_BYTES == 64
  const auto mask = (uint64_t{1} << n) - 1;
  if constexpr (sizeof(V) == 64 && sizeof(T) == 4)
    return _mm512_mask_storeu_epi32(to, static_cast<__mmask16>(mask), (__m512i)v);
  else if constexpr (sizeof(V) == 64 && sizeof(T) == 8)
    return _mm512_mask_storeu_epi64(to, static_cast<__mmask8>(mask), (__m512i)v);
  else if constexpr (sizeof(V) == 32 && sizeof(T) == 2)
    return _mm256_mask_storeu_epi16(to, static_cast<__mmask16>(mask), (__m256i)v);
#endif
  std::memcpy(to, &v, static_cast<size_t>(n) * sizeof(T));
}

// Call f(i) for the first element i of each whole vector of a row of n elements, and f(i, remaining) for the end of the
// row, if it is shorter.
template <class T, class F>
inline void for_lanes(int64_t n, const F& f) {
  int64_t i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>) f(i);
  if (i < n) f(i, n - i);
}

// ---- arithmetic

template <class V = Floats>
inline V splat(LaneType<V> x) {
  return x - V{};
}
template <class V>
inline V select(LaneMask<V> mask, V a, V b) {
  return mask ? a : b;
}

// a * b + c, rounded once except in baseline builds.
template <class V>
inline V multiply_add(V a, V b, V c) {
  return a * b + c;
}
// c - a * b, rounded once except in baseline builds.
template <class V>
inline V less_product(V c, V a, V b) {
#if MPSGRAPH_VECTOR_BYTES == 64
  if constexpr (std::is_same_v<V, Floats>) return _mm512_fnmadd_ps(a, b, c);
  if constexpr (std::is_same_v<V, Doubles>) return _mm512_fnmadd_pd(a, b, c);
#elif MPSGRAPH_VECTOR_BYTES == 32
  if constexpr (std::is_same_v<V, Floats>) return _mm256_fnmadd_ps(a, b, c);
  if constexpr (std::is_same_v<V, Doubles>) return _mm256_fnmadd_pd(a, b, c);
#elif defined(__aarch64__)
  if constexpr (std::is_same_v<V, Floats>) return (V)vfmsq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
  if constexpr (std::is_same_v<V, Doubles>) return (V)vfmsq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#endif
  return c - a * b;
}
// Hide from the compiler how v was computed, so that it neither removes the computation nor fuses it with another.
template <class V>
[[gnu::always_inline]] inline void hide(V& v) {
#if defined(__x86_64__)
  asm("" : "+v"(v));
#elif defined(__aarch64__)
  asm("" : "+w"(v));
#endif
}
#if defined(__aarch64__)
// a * b[lane] + c in one instruction. Broadcasting b[lane] first would take another.
template <int lane>
inline Floats multiply_add_lane(Floats a, Floats b, Floats c) {
  return (Floats)vfmaq_laneq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b, lane);
}
template <int lane>
inline Doubles multiply_add_lane(Doubles a, Doubles b, Doubles c) {
  return (Doubles)vfmaq_laneq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b, lane);
}
#endif

// Like the x86 instructions, least and greatest return the second operand if either is NaN.
template <class V>
inline V least(V a, V b) {
#if MPSGRAPH_VECTOR_BYTES == 64
  if constexpr (std::is_same_v<V, Floats>) return _mm512_min_ps(a, b);
  if constexpr (std::is_same_v<V, Doubles>) return _mm512_min_pd(a, b);
#elif MPSGRAPH_VECTOR_BYTES == 32
  if constexpr (std::is_same_v<V, Floats>) return _mm256_min_ps(a, b);
  if constexpr (std::is_same_v<V, Doubles>) return _mm256_min_pd(a, b);
#endif
  return a < b ? a : b;
}
template <class V>
inline V greatest(V a, V b) {
#if MPSGRAPH_VECTOR_BYTES == 64
  if constexpr (std::is_same_v<V, Floats>) return _mm512_max_ps(a, b);
  if constexpr (std::is_same_v<V, Doubles>) return _mm512_max_pd(a, b);
#elif MPSGRAPH_VECTOR_BYTES == 32
  if constexpr (std::is_same_v<V, Floats>) return _mm256_max_ps(a, b);
  if constexpr (std::is_same_v<V, Doubles>) return _mm256_max_pd(a, b);
#endif
  return a > b ? a : b;
}

inline Floats sqrt(Floats x) {
#if defined(__aarch64__)
  return (Floats)vsqrtq_f32((float32x4_t)x);
#endif
  Floats r;
  for (int i = 0; i < lanes<float>; ++i) r[i] = __builtin_sqrtf(x[i]);
  return r;
}

// ---- bits

inline Ints as_int(Floats x) { return std::bit_cast<Ints>(x); }
inline Floats as_float(Ints x) { return std::bit_cast<Floats>(x); }
inline Ints to_int(Floats x) { return __builtin_convertvector(x, Ints); }  // rounds toward zero
inline Floats to_float(Ints x) { return __builtin_convertvector(x, Floats); }
inline Floats absolute(Floats x) { return as_float(as_int(x) & INT32_MAX); }
inline Floats with_sign_of(Floats magnitude, Floats sign) {  // magnitude >= 0
  return as_float(as_int(magnitude) | (as_int(sign) & INT32_MIN));
}

// Return one bit per lane of a comparison's result, the first lane in the lowest bit.
template <class M>
inline uint64_t bits_of(M mask) {
  [[maybe_unused]] constexpr int bytes = sizeof(LaneType<M>);
#if MPSGRAPH_VECTOR_BYTES == 64
  if constexpr (bytes == 4) return _mm512_movepi32_mask(reinterpret_cast<__m512i>(mask));
  if constexpr (bytes == 8) return _mm512_movepi64_mask(reinterpret_cast<__m512i>(mask));
#elif MPSGRAPH_VECTOR_BYTES == 32
  if constexpr (bytes == 4) return static_cast<uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(mask)));
  if constexpr (bytes == 8) return static_cast<uint32_t>(_mm256_movemask_pd(reinterpret_cast<__m256d>(mask)));
#elif defined(__x86_64__)
  if constexpr (bytes == 4) return static_cast<uint32_t>(_mm_movemask_ps(reinterpret_cast<__m128>(mask)));
  if constexpr (bytes == 8) return static_cast<uint32_t>(_mm_movemask_pd(reinterpret_cast<__m128d>(mask)));
#elif defined(__aarch64__)
  if constexpr (bytes == 4) return vaddvq_u32((uint32x4_t)mask & uint32x4_t{1, 2, 4, 8});
  if constexpr (bytes == 8) return vaddvq_u64((uint64x2_t)mask & uint64x2_t{1, 2});
#else
  uint64_t bits = 0;
  for (int i = 0; i < lanes_of<M>; ++i) bits |= static_cast<uint64_t>(mask[i] & 1) << i;
  return bits;
#endif
}
template <class M>
inline bool any(M mask) {
#if defined(__aarch64__)
  return vmaxvq_u32((uint32x4_t)mask) != 0;
#endif
  return bits_of(mask) != 0;
}
template <class M>
inline bool every(M mask) {
#if defined(__aarch64__)
  return vminvq_u32((uint32x4_t)mask) != 0;
#endif
  return bits_of(mask) == (uint64_t{1} << lanes_of<M>)-1;
}

// ---- exchange of lanes

// Lane i of the result is lane index(i) of a and b concatenated. Example: shuffle<[](int i) { return i ^ 1; }>(v, v).
template <auto index, class V, int... i>
inline V shuffle_lanes(V a, V b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, index(i)...);
}
template <auto index, class V>
inline V shuffle(V a, V b) {
  return shuffle_lanes<index>(a, b, LaneNumbers<V>());
}

template <class Part, int... i>
inline auto joined_lanes(Part a, Part b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, i...);
}
template <class Part>
inline auto joined(Part low, Part high) {
  return joined_lanes(low, high, std::make_integer_sequence<int, 2 * lanes_of<Part>>());
}

// Reduce all lanes into the first by repeatedly combining the upper half with the lower half.
template <int width, class V, class Combine>
inline V fold_lanes_from(V v, const Combine& combine) {
  v = combine(v, shuffle<[](int i) { return (i + width) % lanes_of<V>; }>(v, v));
  if constexpr (width > 1) return fold_lanes_from<width / 2>(v, combine);
  return v;
}
template <class V, class Combine>
inline LaneType<V> fold_lanes(V v, const Combine& combine) {
  return fold_lanes_from<lanes_of<V> / 2>(v, combine)[0];
}
template <class V>
inline LaneType<V> sum_of(V v) {
  return fold_lanes(v, [](V a, V b) { return a + b; });
}

// The sum of the lanes in double, from the first to the last.
template <class V>
inline double double_sum_of(V v) {
  double sum = 0;
  for (int i = 0; i < lanes_of<V>; ++i) sum += static_cast<double>(v[i]);
  return sum;
}

// Transpose each square block of 2 h rows by 2 h lanes: rows[i][j] becomes rows[j][i].
template <int h, class V>
inline void transpose_squares(V* rows) {
  constexpr int n = lanes_of<V>;
  for (int i = 0; i < n; ++i) {
    if (i & h) continue;
    const V a = rows[i], b = rows[i + h];
    rows[i] = shuffle<[](int lane) { return lane & h ? n + lane - h : lane; }>(a, b);
    rows[i + h] = shuffle<[](int lane) { return lane & h ? n + lane : lane + h; }>(a, b);
  }
  if constexpr (h > 1) transpose_squares<h / 2>(rows);
}
// Transpose as many vectors as each has lanes.
template <class V>
inline void transpose(V* rows) {
  transpose_squares<lanes_of<V> / 2>(rows);
}

// ---- half precision

inline Words widened(HalfBits h) {
#if MPSGRAPH_VECTOR_BYTES == 64  // g++ 12 compiles __builtin_convertvector to four instructions instead of this one
  return std::bit_cast<Words>(_mm512_cvtepu16_epi32(std::bit_cast<__m256i>(h)));
#else
  return __builtin_convertvector(h, Words);
#endif
}
inline HalfBits lower_halves(Words w) {
#if MPSGRAPH_VECTOR_BYTES == 64
  return std::bit_cast<HalfBits>(_mm512_cvtepi32_epi16(std::bit_cast<__m512i>(w)));
#else
  return __builtin_convertvector(w, HalfBits);
#endif
}

// Convert float16 and bfloat16 by the rules of Half and BFloat16: to nearest, ties to even; a NaN stays a NaN.
inline Floats from_bfloat16(HalfBits h) { return std::bit_cast<Floats>(widened(h) << 16); }
inline Words bfloat16_in_upper_half(Floats v) {  // the lower halves are arbitrary
  const Words u = std::bit_cast<Words>(v);
  return v != v ? u | 0x400000u : u + 0x7fffu + ((u >> 16) & 1u);
}
inline HalfBits to_bfloat16(Floats v) {
#if defined(MPSGRAPH_BF16_PRODUCTS) && defined(__aarch64__)
  return (HalfBits)vcvt_bf16_f32((float32x4_t)v);
#elif defined(MPSGRAPH_BF16_PRODUCTS)  // the instruction flushes subnormals to zero
  return (HalfBits)_mm512_cvtneps_pbh(v);
#else
  return lower_halves(bfloat16_in_upper_half(v) >> 16);
#endif
}
inline Floats from_float16(HalfBits h) {
#if MPSGRAPH_VECTOR_BYTES == 64
  return _mm512_cvtph_ps(std::bit_cast<__m256i>(h));
#elif MPSGRAPH_VECTOR_BYTES == 32
  return _mm256_cvtph_ps(std::bit_cast<__m128i>(h));
#elif defined(__aarch64__)
  return (Floats)vcvt_f32_f16((float16x4_t)h);
#else
  Floats v;
  for (int i = 0; i < lanes<float>; ++i) v[i] = std::bit_cast<Half>(h[i]);
  return v;
#endif
}
inline HalfBits to_float16(Floats v) {
#if MPSGRAPH_VECTOR_BYTES == 64
  return std::bit_cast<HalfBits>(_mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif MPSGRAPH_VECTOR_BYTES == 32
  return std::bit_cast<HalfBits>(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__aarch64__)
  return (HalfBits)vcvt_f16_f32((float32x4_t)v);
#else
  HalfBits h;
  for (int i = 0; i < lanes<float>; ++i) h[i] = Half(v[i]).bits;
  return h;
#endif
}

// Loads and stores of half precision as floats; n... as above.
template <class... N>
inline Floats load(const BFloat16* from, N... n) {
  return from_bfloat16(load_as<HalfBits>(from, n...));
}
template <class... N>
inline Floats load(const Half* from, N... n) {
  return from_float16(load_as<HalfBits>(from, n...));
}
template <class... N>
inline void store(BFloat16* to, Floats v, N... n) {
  store(static_cast<void*>(to), to_bfloat16(v), n...);
}
template <class... N>
inline void store(Half* to, Floats v, N... n) {
  store(static_cast<void*>(to), to_float16(v), n...);
}

}  // namespace
}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
