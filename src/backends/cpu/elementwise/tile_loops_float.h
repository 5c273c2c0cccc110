// Loops of the float32 tile functions (tile_functions_float.simd.cpp).
#pragma once

#include <cstdint>
#include <cstring>

#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/elementwise/vector_steps.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

template <class F>
void unary_loop(void* out, const void* const* in, int64_t n) {
  const float* x = static_cast<const float*>(in[0]);
  float* y = static_cast<float*>(out);
  int64_t i = 0;
  for (; i + 2 * W <= n; i += 2 * W) {  // two vectors at a time hide the latency of long polynomials
    const V a = F::apply(load(x + i)), b = F::apply(load(x + i + W));
    store(y + i, a);
    store(y + i + W, b);
  }
  for (; i + W <= n; i += W) store(y + i, F::apply(load(x + i)));
  if (i < n) {
    V t{};
    std::memcpy(&t, x + i, (n - i) * 4);
    t = F::apply(t);
    std::memcpy(y + i, &t, (n - i) * 4);
  }
}

template <class F, bool SA, bool SB>
[[gnu::noinline]] void binary_loop(void* out, const void* const* in, int64_t n) {
  const float* a = static_cast<const float*>(in[0]);
  const float* b = static_cast<const float*>(in[1]);
  float* y = static_cast<float*>(out);
  const V va = splat(*a), vb = splat(*b);
  int64_t i = 0;
  for (; i + W <= n; i += W) store(y + i, F::apply(SA ? va : load(a + i), SB ? vb : load(b + i)));
  if (i < n) {
    V ta = va, tb = vb;
    if (!SA) std::memcpy(&ta, a + i, (n - i) * 4);
    if (!SB) std::memcpy(&tb, b + i, (n - i) * 4);
    ta = F::apply(ta, tb);
    std::memcpy(y + i, &ta, (n - i) * 4);
  }
}

// An operand of a loop: an array that advances with the loop, or a single element that is read repeatedly.
struct Along {
  const float* from;
  int64_t step = 1;
  float all[W];
  Along(const void* data, bool single) : from(static_cast<const float*>(data)) {
    store(all, splat(*from));
    if (single) from = all, step = 0;
  }
  Along(const Along&) = delete;
  V at(int64_t i) const { return load(from + i * step); }
  V rest(int64_t i, int64_t n) const {  // load the last n < W elements; the lanes after them do not affect results
    V v = load(all);
    if (step) std::memcpy(&v, from + i, n * 4);
    return v;
  }
};

// A single loop for every combination of scalar and array operands, for operations so slow that it does not matter how
// their operands are accessed.
template <class F>
[[gnu::noinline]] void long_binary(void* out, const void* const* in, int64_t n, ScalarMask scalars) {
  const Along a(in[0], scalars & 1), b(in[1], scalars & 2);
  float* y = static_cast<float*>(out);
  int64_t i = 0;
  for (; i + W <= n; i += W) store(y + i, F::apply(a.at(i), b.at(i)));
  if (i < n) {
    const V last = F::apply(a.rest(i, n - i), b.rest(i, n - i));
    std::memcpy(y + i, &last, (n - i) * 4);
  }
}
template <class F, ScalarMask scalars>
void long_binary_loop(void* out, const void* const* in, int64_t n) {
  long_binary<F>(out, in, n, scalars);
}

template <class F, bool SB, bool SC>
[[gnu::noinline]] void ternary_loop(void* out, const void* const* in, int64_t n) {
  const float* a = static_cast<const float*>(in[0]);
  const float* b = static_cast<const float*>(in[1]);
  const float* c = static_cast<const float*>(in[2]);
  float* y = static_cast<float*>(out);
  const V vb = splat(*b), vc = splat(*c);
  int64_t i = 0;
  for (; i + W <= n; i += W) store(y + i, F::apply(load(a + i), SB ? vb : load(b + i), SC ? vc : load(c + i)));
  for (; i < n; i++) {
    const V r = F::apply(splat(a[i]), splat(b[SB ? 0 : i]), splat(c[SC ? 0 : i]));
    y[i] = r[0];
  }
}

// float32 x float32 -> bool
template <class F, bool SA, bool SB>
[[gnu::noinline]] void compare_loop(void* out, const void* const* in, int64_t n) {
  const float* a = static_cast<const float*>(in[0]);
  const float* b = static_cast<const float*>(in[1]);
  uint8_t* y = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; i++) y[i] = F::apply(a[SA ? 0 : i], b[SB ? 0 : i]);
}
template <class F>
void test_loop(void* out, const void* const* in, int64_t n) {
  const float* a = static_cast<const float*>(in[0]);
  uint8_t* y = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; i++) y[i] = F::apply(a[i]);
}
template <bool SP, bool SA, bool SB>
[[gnu::noinline]] void select_loop(void* out, const void* const* in, int64_t n) {
  const uint8_t* p = static_cast<const uint8_t*>(in[0]);
  const float* a = static_cast<const float*>(in[1]);
  const float* b = static_cast<const float*>(in[2]);
  float* y = static_cast<float*>(out);
  for (int64_t i = 0; i < n; i++) {
    const float va = a[SA ? 0 : i], vb = b[SB ? 0 : i];
    y[i] = p[SP ? 0 : i] ? va : vb;
  }
}

}  // namespace
}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
