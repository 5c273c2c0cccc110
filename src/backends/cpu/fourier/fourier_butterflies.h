// Building blocks of Fourier transforms (fourier_lanes.simd.cpp): vectors of lanes, the sources and destinations of
// points, twiddle factors, and butterflies.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "backends/cpu/fourier/fourier_plan.h"
#include "backends/cpu/simd.h"

// Functions on arrays of points must be inlined into the loop, because otherwise the points would not stay in
// registers.
#define MPSGRAPH_INLINE __attribute__((always_inline))

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

template <class T>
using V = Vector<T>;
template <class T>
constexpr int L = lanes<T>;

// Load half a vector from p and half from q. The second half is loaded by an insertion, whereas exchanging halves of
// two loaded vectors would take two shuffles.
template <class T>
inline V<T> load_halves(const T* p, const T* q) {
  using Part = Vector<T, MPSGRAPH_VECTOR_BYTES / 2>;
  return joined(load_as<Part>(p), load_as<Part>(q));
}

template <class T>
struct Number {
  V<T> re, im;
};

template <class T>
inline Number<T> load_complex(const T* p) {
  const V<T> a = load(p), b = load(p + L<T>);
  return {shuffle<[](int i) { return 2 * i; }>(a, b), shuffle<[](int i) { return 2 * i + 1; }>(a, b)};
}
template <class T>
inline void store_complex(T* p, V<T> re, V<T> im) {
  store(p, shuffle<[](int i) { return i / 2 + i % 2 * L<T>; }>(re, im));
  store(p + L<T>, shuffle<[](int i) { return (L<T> + i) / 2 + i % 2 * L<T>; }>(re, im));
}

// Load vectors that are `stride` elements apart as the rows of a matrix, and transpose it.
template <class T>
inline void load_transposed(const T* from, int64_t stride, V<T>* rows) {
  constexpr int half = L<T> / 2;
  for (int i = 0; i < half; ++i) {
    const T *a = from + i * stride, *b = from + (i + half) * stride;
    rows[i] = load_halves<T>(a, b), rows[i + half] = load_halves<T>(a + half, b + half);
  }
  if constexpr (half > 1) transpose_squares<half / 2>(rows);
}

// ---- sources and destinations of points
//
// Point i of all lanes begins at offset i * pitch(), counted in elements of type T. ask(i) is called once per point, in
// any order, and may prefetch data that is needed later.

template <class T>
struct Lanes {  // [n][2][L]
  T* data;
  static constexpr int64_t pitch() { return 2 * L<T>; }
  void ask(int64_t) const {}
  Number<T> get(int64_t at) const { return {load(data + at), load(data + at + L<T>)}; }
  void put(int64_t at, V<T> re, V<T> im) const {
    store(data + at, re);
    store(data + at + L<T>, im);
  }
};

template <class T>
struct Planar {  // adjacent columns of planar matrices
  T *re, *im;
  int64_t stride;
  int64_t pitch() const { return stride; }
  void ask(int64_t) const {}
  Number<T> get(int64_t at) const { return {load(re + at), load(im + at)}; }
  void put(int64_t at, V<T> a, V<T> b) const {
    store(re + at, a);
    store(im + at, b);
  }
};

// Adjacent columns of a complex matrix, scaled when stored. The inverse transform is computed by conjugating the input
// and output of the forward transform. The inverse transform therefore needs only a sign for the imaginary parts (-1 on
// load, and a negated scale on store) instead of separately compiled code.
template <class T>
struct Memory {
  const T* from;
  T* to;
  int64_t stride;  // distance between points, in elements of type T
  T sign, scale_re, scale_im;
  int64_t pitch() const { return stride; }
  void ask(int64_t) const {}
  Number<T> get(int64_t at) const {
    const Number<T> x = load_complex(from + at);
    return {x.re, x.im * sign};
  }
  void put(int64_t at, V<T> re, V<T> im) const { store_complex<T>(to + at, re * scale_re, im * scale_im); }
};

// A Memory that also prefetches, from outer caches, the data at `ahead`, which will be read or written later. ask()
// prefetches cache lines in the order of their addresses, no matter which points are being read, because memory is
// fastest in this order.
template <class T>
struct MemoryAhead : Memory<T> {
  const T* ahead;
  void ask(int64_t i) const {
    constexpr int64_t line = 64 / static_cast<int64_t>(sizeof(T));
    // Destinations are also prefetched for reading. A prefetch for writing ignores its locality hint, always goes to
    // L1, and would evict data that is still needed.
    for (int64_t n = 0; n < 2 * L<T>; n += line) __builtin_prefetch(ahead + 2 * L<T> * i + n, 0, 2);
  }
};

// ---- twiddle factors

template <class T>
struct NotTurned {};  // twiddle factors of the first stage, which are all one

template <class T>
struct Turned {  // twiddle factors that are the same for all lanes
  const T* factors;
  T re(int i) const { return factors[2 * i]; }
  T im(int i) const { return factors[2 * i + 1]; }
};

template <class T>
struct LanesTurned {  // separate twiddle factors for each lane
  const T* factors;
  V<T> re(int i) const { return load(factors + 2 * L<T> * i); }
  V<T> im(int i) const { return load(factors + 2 * L<T> * i + L<T>); }
};

// Replace points a and b with a + w b and a - w b, where w is twiddle factor i. Six fused multiply-adds are enough,
// because a - w b = 2 a - (a + w b). `quarter` multiplies w by -i, another quarter turn.
template <class T, bool quarter = false, class W>
MPSGRAPH_INLINE inline void turn_and_add(V<T>* re, V<T>* im, int a, int b, const W& w, int i) {
  const auto c = w.re(i), s = w.im(i);
  const V<T> x = quarter ? re[a] + re[b] * s + im[b] * c : re[a] + re[b] * c - im[b] * s;
  const V<T> y = quarter ? im[a] + im[b] * s - re[b] * c : im[a] + im[b] * c + re[b] * s;
  re[b] = re[a] * T(2) - x, im[b] = im[a] * T(2) - y;
  re[a] = x, im[a] = y;
}

template <class T, int... order>
MPSGRAPH_INLINE inline void reorder(V<T>* re, V<T>* im) {
  const V<T> x[] = {re[order]...}, y[] = {im[order]...};
  for (size_t k = 0; k < sizeof...(order); ++k) re[k] = x[k], im[k] = y[k];
}

// ---- butterflies
//
// A butterfly whose radix is a power of two takes a single twiddle factor w. The butterfly consists of rounds, each of
// which multiplies by one power of w.

template <class T, int radix>
struct Butterfly {
  template <class W>
  MPSGRAPH_INLINE static void run(V<T>* re, V<T>* im, const W& w) {
    for (int j = 1; j < radix; ++j) {
      const V<T> x = re[j] * w.re(j - 1) - im[j] * w.im(j - 1);
      im[j] = re[j] * w.im(j - 1) + im[j] * w.re(j - 1);
      re[j] = x;
    }
    run(re, im, NotTurned<T>());
  }
  MPSGRAPH_INLINE static void run(V<T>* re, V<T>* im, NotTurned<T>);
};

template <class T>
struct Butterfly<T, 2> {
  template <class W>
  MPSGRAPH_INLINE static void run(V<T>* re, V<T>* im, const W& w) {
    turn_and_add<T>(re, im, 0, 1, w, 0);
  }
  MPSGRAPH_INLINE static void run(V<T>* re, V<T>* im, NotTurned<T>) {
    const V<T> r = re[0] - re[1], i = im[0] - im[1];
    re[0] += re[1], im[0] += im[1];
    re[1] = r, im[1] = i;
  }
};

template <class T>
MPSGRAPH_INLINE inline void butterfly3(V<T>* re, V<T>* im) {
  constexpr T h = T(0.5), s = T(0.86602540378443864676);
  const V<T> sr = re[1] + re[2], si = im[1] + im[2], dr = (re[1] - re[2]) * s, di = (im[1] - im[2]) * s;
  const V<T> cr = re[0] - sr * h, ci = im[0] - si * h;
  re[0] += sr, im[0] += si;
  re[1] = cr + di, im[1] = ci - dr;
  re[2] = cr - di, im[2] = ci + dr;
}

template <class T>
MPSGRAPH_INLINE inline void butterfly5(V<T>* re, V<T>* im) {
  constexpr T c1 = T(0.30901699437494742410), c2 = T(-0.80901699437494742410);
  constexpr T s1 = T(0.95105651629515357212), s2 = T(0.58778525229247312917);
  const V<T> pr = re[1] + re[4], pi = im[1] + im[4], qr = re[2] + re[3], qi = im[2] + im[3];
  const V<T> ur = re[1] - re[4], ui = im[1] - im[4], vr = re[2] - re[3], vi = im[2] - im[3];
  const V<T> ar = re[0] + pr * c1 + qr * c2, ai = im[0] + pi * c1 + qi * c2;
  const V<T> br = re[0] + pr * c2 + qr * c1, bi = im[0] + pi * c2 + qi * c1;
  const V<T> cr = ur * s1 + vr * s2, ci = ui * s1 + vi * s2, dr = ur * s2 - vr * s1, di = ui * s2 - vi * s1;
  re[0] += pr + qr, im[0] += pi + qi;
  re[1] = ar + ci, im[1] = ai - cr;
  re[4] = ar - ci, im[4] = ai + cr;
  re[2] = br + di, im[2] = bi - dr;
  re[3] = br - di, im[3] = bi + dr;
}

template <class T, int radix>
MPSGRAPH_INLINE inline void Butterfly<T, radix>::run(V<T>* re, V<T>* im, NotTurned<T>) {
  static_assert(radix == 3 || radix == 5);
  if constexpr (radix == 3)
    butterfly3<T>(re, im);
  else
    butterfly5<T>(re, im);
}

template <class T>
struct Butterfly<T, 4> {
  template <class W>
  MPSGRAPH_INLINE static void run(V<T>* re, V<T>* im, const W& w) {  // w, w²
    turn_and_add<T>(re, im, 0, 2, w, 1);
    turn_and_add<T>(re, im, 1, 3, w, 1);
    turn_and_add<T>(re, im, 0, 1, w, 0);
    turn_and_add<T, true>(re, im, 2, 3, w, 0);
    reorder<T, 0, 2, 1, 3>(re, im);
  }
  MPSGRAPH_INLINE static void run(V<T>* re, V<T>* im, NotTurned<T>) {
    const V<T> ar = re[0] + re[2], ai = im[0] + im[2], br = re[0] - re[2], bi = im[0] - im[2];
    const V<T> cr = re[1] + re[3], ci = im[1] + im[3], dr = re[1] - re[3], di = im[1] - im[3];
    re[0] = ar + cr, im[0] = ai + ci;
    re[1] = br + di, im[1] = bi - dr;
    re[2] = ar - cr, im[2] = ai - ci;
    re[3] = br - di, im[3] = bi + dr;
  }
};

template <class T>
struct Butterfly<T, 8> {
  template <class W>
  MPSGRAPH_INLINE static void run(V<T>* re, V<T>* im, const W& w) {  // factors w, w exp(-i pi/4), w², w⁴
    for (int j = 0; j < 4; ++j) turn_and_add<T>(re, im, j, j + 4, w, 3);
    for (int j = 0; j < 2; ++j) {
      turn_and_add<T>(re, im, j, j + 2, w, 2);
      turn_and_add<T, true>(re, im, j + 4, j + 6, w, 2);
    }
    turn_and_add<T>(re, im, 0, 1, w, 0);
    turn_and_add<T, true>(re, im, 2, 3, w, 0);
    turn_and_add<T>(re, im, 4, 5, w, 1);
    turn_and_add<T, true>(re, im, 6, 7, w, 1);
    reorder<T, 0, 4, 2, 6, 1, 5, 3, 7>(re, im);
  }
  MPSGRAPH_INLINE static void run(V<T>* re, V<T>* im, NotTurned<T> none) {
    constexpr T h = T(0.70710678118654752440);
    V<T> er[4] = {re[0], re[2], re[4], re[6]}, ei[4] = {im[0], im[2], im[4], im[6]};
    V<T> dr[4] = {re[1], re[3], re[5], re[7]}, di[4] = {im[1], im[3], im[5], im[7]};
    Butterfly<T, 4>::run(er, ei, none);
    Butterfly<T, 4>::run(dr, di, none);
    const V<T> xr = (dr[1] + di[1]) * h, xi = (di[1] - dr[1]) * h;   // multiply by (1 - i) / sqrt 2
    const V<T> zr = (di[3] - dr[3]) * h, zi = (dr[3] + di[3]) * -h;  // multiply by (-1 - i) / sqrt 2
    const V<T> tr[4] = {dr[0], xr, di[2], zr}, ti[4] = {di[0], xi, -dr[2], zi};
    for (int k = 0; k < 4; ++k) {
      re[k] = er[k] + tr[k], im[k] = ei[k] + ti[k];
      re[k + 4] = er[k] - tr[k], im[k + 4] = ei[k] - ti[k];
    }
  }
};

}  // namespace
}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
