// Plain loops that apply a function to each element, for tile functions with one, two, or three operands, any of which
// may be a single element. The compiler vectorizes most of the loops.
//
// Every loop is compiled for each operation and type, so the number of loops is kept small: operations with commuting
// operands swap them instead of having two loops, slow operations have one loop for all combinations of arrays and
// single elements, and rare combinations expand single elements into a buffer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backends/cpu/elementwise/tile_functions.h"

namespace mpsgraph::cpu {

// ---- loops for further combinations of arrays and single elements, which call a loop below for the element type

// Call `loop` with its first two operands swapped.
template <TileFunction loop, int operands = 2>
void turned(void* out, const void* const* in, int64_t n) {
  const void* other[3] = {in[1], in[0], operands > 2 ? in[2] : nullptr};
  loop(out, other, n);
}

void fill_up(void* out, size_t bytes, int64_t n);  // repeats the first element
// If all operands are single elements, compute one result and repeat it.
template <TileFunction loop, size_t bytes>
void single(void* out, const void* const* in, int64_t n) {
  if (n == 0) return;
  loop(out, in, 1);
  fill_up(out, bytes, n);
}

// Call `loop` piece by piece, after expanding the first operand, a single element, into a buffer. `Steps` holds the
// distance in bytes between elements of each operand, or 0 for the other operands that are single elements.
struct Steps {
  size_t first, second, third, result;
};
void spread_out(TileFunction loop, const Steps& step, void* out, const void* const* in, int64_t n);
template <TileFunction loop, size_t first, size_t second, size_t third, size_t result>
void spread(void* out, const void* const* in, int64_t n) {
  spread_out(loop, {first, second, third, result}, out, in, n);
}

// ---- loops

template <class R, class T, class F>
struct Loop {
  static void unary(void* out, const void* const* in, int64_t n) {
    const T* a = static_cast<const T*>(in[0]);
    R* y = static_cast<R*>(out);
    for (int64_t i = 0; i < n; i++) y[i] = static_cast<R>(F{}(a[i]));
  }
  template <bool SA, bool SB>
  [[gnu::noinline]] static void binary(void* out, const void* const* in, int64_t n) {
    const T *a = static_cast<const T*>(in[0]), *b = static_cast<const T*>(in[1]);
    R* y = static_cast<R*>(out);
    for (int64_t i = 0; i < n; i++) y[i] = static_cast<R>(F{}(a[SA ? 0 : i], b[SB ? 0 : i]));
  }
  [[gnu::noinline]] static void strided(void* out, const void* const* in, int64_t n, ScalarMask m) {
    const T *a = static_cast<const T*>(in[0]), *b = static_cast<const T*>(in[1]);
    R* y = static_cast<R*>(out);
    const int64_t sa = m & 1 ? 0 : 1, sb = m & 2 ? 0 : 1;
    for (int64_t i = 0; i < n; i++) y[i] = static_cast<R>(F{}(a[i * sa], b[i * sb]));
  }
  template <ScalarMask m>
  static void long_binary(void* out, const void* const* in, int64_t n) {
    strided(out, in, n, m);
  }
  template <bool SB, bool SC>
  [[gnu::noinline]] static void ternary(void* out, const void* const* in, int64_t n) {
    const T *a = static_cast<const T*>(in[0]), *b = static_cast<const T*>(in[1]), *c = static_cast<const T*>(in[2]);
    R* y = static_cast<R*>(out);
    for (int64_t i = 0; i < n; i++) y[i] = static_cast<R>(F{}(a[i], b[SB ? 0 : i], c[SC ? 0 : i]));
  }
};

template <class R, class T, class F>
TileFunction unary(F) {
  return Loop<R, T, F>::unary;
}
template <class R, class T, class F>
TileFunction binary(F, ScalarMask m) {
  using L = Loop<R, T, F>;
  constexpr TileFunction all[4] = {L::template binary<0, 0>, L::template binary<1, 0>, L::template binary<0, 1>,
                                   single<L::template binary<0, 0>, sizeof(R)>};
  return all[m & 3];
}
// Return the loop for functions with f(a, b) = f(b, a).
template <class R, class T, class F>
TileFunction commutative(F, ScalarMask m) {
  using L = Loop<R, T, F>;
  constexpr TileFunction all[4] = {L::template binary<0, 0>, L::template binary<1, 0>, turned<L::template binary<1, 0>>,
                                   single<L::template binary<0, 0>, sizeof(R)>};
  return all[m & 3];
}
// f(b, a).
template <class R, class T, class F>
TileFunction opposite(F, ScalarMask m) {
  using L = Loop<R, T, F>;
  constexpr TileFunction all[4] = {turned<L::template binary<0, 0>>, turned<L::template binary<0, 1>>,
                                   turned<L::template binary<1, 0>>,
                                   single<turned<L::template binary<0, 0>>, sizeof(R)>};
  return all[m & 3];
}
// Return the loop for functions so slow that it does not matter whether their operands are scalars or arrays.
template <class R, class T, class F>
TileFunction long_binary(F, ScalarMask m) {
  using L = Loop<R, T, F>;
  constexpr TileFunction all[4] = {L::template long_binary<0>, L::template long_binary<1>, L::template long_binary<2>,
                                   L::template long_binary<3>};
  return all[m & 3];
}
template <class R, class T, class F>
TileFunction ternary(F, ScalarMask m) {
  using L = Loop<R, T, F>;
  constexpr size_t r = sizeof(R), t = sizeof(T);
  constexpr TileFunction all[8] = {L::template ternary<0, 0>, spread<L::template ternary<0, 0>, t, t, t, r>,
                                   L::template ternary<1, 0>, spread<L::template ternary<1, 0>, t, 0, t, r>,
                                   L::template ternary<0, 1>, spread<L::template ternary<0, 1>, t, t, 0, r>,
                                   L::template ternary<1, 1>, single<L::template ternary<0, 0>, r>};
  return all[m & 7];
}

template <class T, bool SP, bool SA, bool SB>
[[gnu::noinline]] void select_loop(void* out, const void* const* in, int64_t n) {
  const uint8_t* p = static_cast<const uint8_t*>(in[0]);
  const T *a = static_cast<const T*>(in[1]), *b = static_cast<const T*>(in[2]);
  T* y = static_cast<T*>(out);
  for (int64_t i = 0; i < n; i++) y[i] = p[SP ? 0 : i] ? a[SA ? 0 : i] : b[SB ? 0 : i];
}
template <class T>
TileFunction select_of(ScalarMask m) {
  constexpr size_t t = sizeof(T);
  constexpr TileFunction all[8] = {select_loop<T, 0, 0, 0>, select_loop<T, 1, 0, 0>,
                                   select_loop<T, 0, 1, 0>, spread<select_loop<T, 0, 1, 0>, 1, 0, t, t>,
                                   select_loop<T, 0, 0, 1>, spread<select_loop<T, 0, 0, 1>, 1, t, 0, t>,
                                   select_loop<T, 0, 1, 1>, single<select_loop<T, 0, 0, 0>, t>};
  return all[m & 7];
}

}  // namespace mpsgraph::cpu
