// Plain loops around a function of one element, for tile functions: one, two or three operands of which any may be one
// element that stands for all. The compiler vectorises what it can.
#pragma once

#include <cstdint>

#include "backends/cpu/stitched/tile_functions.h"

namespace mpsgraph::cpu {

template <class R, class T, class F>
struct Loop {
  static void unary(void* out, const void* const* in, int64_t n) {
    const T* a = static_cast<const T*>(in[0]);
    R* y = static_cast<R*>(out);
    for (int64_t i = 0; i < n; i++) y[i] = static_cast<R>(F{}(a[i]));
  }
  template <bool SA, bool SB>
  static void binary(void* out, const void* const* in, int64_t n) {
    const T *a = static_cast<const T*>(in[0]), *b = static_cast<const T*>(in[1]);
    R* y = static_cast<R*>(out);
    for (int64_t i = 0; i < n; i++) y[i] = static_cast<R>(F{}(a[SA ? 0 : i], b[SB ? 0 : i]));
  }
  static void ternary(void* out, const void* const* in, int64_t n, ScalarMask m) {
    const T *a = static_cast<const T*>(in[0]), *b = static_cast<const T*>(in[1]), *c = static_cast<const T*>(in[2]);
    R* y = static_cast<R*>(out);
    const int64_t sa = m & 1 ? 0 : 1, sb = m & 2 ? 0 : 1, sc = m & 4 ? 0 : 1;
    for (int64_t i = 0; i < n; i++) y[i] = static_cast<R>(F{}(a[i * sa], b[i * sb], c[i * sc]));
  }
  template <unsigned M>
  static void ternary_masked(void* out, const void* const* in, int64_t n) {
    ternary(out, in, n, M);
  }
};

template <class R, class T, class F>
TileFunction unary(F) {
  return Loop<R, T, F>::unary;
}
template <class R, class T, class F>
TileFunction binary(F, ScalarMask m) {
  constexpr TileFunction all[4] = {Loop<R, T, F>::template binary<0, 0>, Loop<R, T, F>::template binary<1, 0>,
                                   Loop<R, T, F>::template binary<0, 1>, Loop<R, T, F>::template binary<1, 1>};
  return all[m & 3];
}
template <class R, class T, class F>
TileFunction ternary(F, ScalarMask m) {
  using L = Loop<R, T, F>;
  constexpr TileFunction all[8] = {L::template ternary_masked<0>, L::template ternary_masked<1>,
                                   L::template ternary_masked<2>, L::template ternary_masked<3>,
                                   L::template ternary_masked<4>, L::template ternary_masked<5>,
                                   L::template ternary_masked<6>, L::template ternary_masked<7>};
  return all[m & 7];
}

template <class T>
void select_tile(void* out, const void* const* in, int64_t n, ScalarMask m) {
  const uint8_t* p = static_cast<const uint8_t*>(in[0]);
  const T *a = static_cast<const T*>(in[1]), *b = static_cast<const T*>(in[2]);
  T* y = static_cast<T*>(out);
  const int64_t sp = m & 1 ? 0 : 1, sa = m & 2 ? 0 : 1, sb = m & 4 ? 0 : 1;
  for (int64_t i = 0; i < n; i++) y[i] = p[i * sp] ? a[i * sa] : b[i * sb];
}
template <class T, unsigned M>
void select_masked(void* out, const void* const* in, int64_t n) {
  select_tile<T>(out, in, n, M);
}
template <class T>
TileFunction select_of(ScalarMask m) {
  constexpr TileFunction all[8] = {select_masked<T, 0>, select_masked<T, 1>, select_masked<T, 2>, select_masked<T, 3>,
                                   select_masked<T, 4>, select_masked<T, 5>, select_masked<T, 6>, select_masked<T, 7>};
  return all[m & 7];
}

}  // namespace mpsgraph::cpu
