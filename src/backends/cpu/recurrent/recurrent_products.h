// Products of a few rows of states with the weights of a recurrent layer, for any instruction set.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace mpsgraph::cpu {

// The template parameter P provides the element type S, and vectors V of W elements with operators, load, store, and
// splat. It also provides load_part and store_part for the first n < W elements of a vector, and the number of vector
// registers.
template <class P>
class RecurrentProducts {
 protected:
  using S = typename P::S;
  using V = typename P::V;
  static constexpr int W = P::W;

  static constexpr int max_rows = 12;
  // Return the number of rows that multiply() should process at once. Each row needs `vectors` registers for its sums;
  // another `vectors` registers hold the weights, and one holds a factor.
  static constexpr int rows_for(int vectors) { return std::min((P::registers - 1 - vectors) / vectors, max_rows); }

  [[gnu::always_inline]] static V load(const S* p, int64_t n) { return n >= W ? P::load(p) : P::load_part(p, n); }
  static V load(const S* p) { return P::load(p); }
  [[gnu::always_inline]] static void store(S* p, V v, int64_t n) { n >= W ? P::store(p, v) : P::store_part(p, v, n); }

  // ---- with panels: for each state, the panel holds `vectors` vectors of weights

  // Prefetch distances in k indices of a panel. Panels that do not fit in L2 are read from an outer cache, and the
  // hardware prefetcher does not cross pages.
  static constexpr int64_t ahead = 24, ahead_of_row = 8;

  // The values to which a product is added. of[v] points to the values for vector v of the first row, or is null if
  // these values are zero. row_stride is the distance between rows.
  struct Summand {
    const S* of[4] = {};
    int64_t row_stride = 0, lanes = W;
    V at(int row, int vector) const {
      return of[vector] ? RecurrentProducts::load(of[vector] + row * row_stride, lanes) : V{};
    }
    Summand from(int vector) const {
      Summand rest = *this;
      std::copy(of + vector, of + 4, rest.of);
      return rest;
    }
  };

  // The rows that are multiplied by a panel. Each row has one element for each k index of the panel.
  struct Rows {
    const S* of = nullptr;
    int64_t stride = 0, elements = 0;
  };
  struct Factors {
    Rows first, then;  // rows multiplied by consecutive ranges of the panel's k indices; `first` may be empty
  };

  // For each row r and vector v, set out[r * out_stride + v * W ..] to the summand plus the sum over i of
  // factors[r][i] * b[i][v][..], where b has the shape [k][vectors][W].
  template <int vectors, int rows>
  static void multiply(const Factors& factors, const S* b, const Summand& begin, S* out, int64_t out_stride) {
    // the sums are kept in registers, because the loops are unrolled before GCC allocates registers
    V sums[rows][vectors];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) {
      const S* of = begin.of[v];
      const auto begin_with = [&](const auto& value) __attribute__((always_inline)) {
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r) sums[r][v] = value(r * begin.row_stride);
      };
      if (!of)
        begin_with([](int64_t) { return V{}; });
      else if (begin.lanes >= W)
        begin_with([&](int64_t row) { return P::load(of + row); });
      else
        begin_with([&](int64_t row) { return P::load_part(of + row, begin.lanes); });
    }
    const auto add = [&](const Rows& a) __attribute__((always_inline)) {
      const S* row[rows];
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r) row[r] = a.of + r * a.stride;
      for (int64_t i = 0; i < a.elements; ++i, b += vectors * W) {
        for (int v = 0; v < vectors; ++v) __builtin_prefetch(b + (ahead * vectors + v) * W);
        V weights[vectors];
        for (int v = 0; v < vectors; ++v) weights[v] = P::load(b + v * W);
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r) {
          const V factor = P::splat(row[r][i]);
          for (int v = 0; v < vectors; ++v) sums[r][v] += factor * weights[v];
        }
      }
    };
    if (factors.first.elements) add(factors.first);
    add(factors.then);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) P::store(out + r * out_stride + v * W, sums[r][v]);
  }
  template <int vectors, int rows = rows_for(vectors)>
  static void multiply_some(int count, const Factors& factors, const S* b, const Summand& begin, S* out,
                            int64_t out_stride) {
    if (count == rows) return multiply<vectors, rows>(factors, b, begin, out, out_stride);
    if constexpr (rows > 1) multiply_some<vectors, rows - 1>(count, factors, b, begin, out, out_stride);
  }

  // Multiply a single row. Several partial sums are used, because with a single sum each multiply-add would have to
  // wait for the previous one.
  template <int vectors>
  static void multiply_row(const Factors& factors, const S* b, const Summand& begin, S* out) {
    constexpr int parts = vectors == 1 ? 8 : 4, line = 64 / sizeof(S);
    V sums[parts][vectors] = {};
    const auto add = [&](const Rows& a) __attribute__((always_inline)) {
      const auto step = [&](int64_t i, V(&to)[vectors]) __attribute__((always_inline)) {
        const V factor = P::splat(a.of[i]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) to[v] += factor * P::load(b + v * W);
        b += vectors * W;
      };
      int64_t i = 0;
      for (; i + parts <= a.elements; i += parts) {
#pragma GCC unroll 8
        for (int at = 0; at < parts * vectors * W; at += line) __builtin_prefetch(b + ahead_of_row * vectors * W + at);
#pragma GCC unroll 8
        for (int part = 0; part < parts; ++part) step(i + part, sums[part]);
      }
      for (; i < a.elements; ++i) step(i, sums[0]);
    };
    if (factors.first.elements) add(factors.first);
    add(factors.then);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
#pragma GCC unroll 8
      for (int n = parts / 2; n > 0; n /= 2)
#pragma GCC unroll 8
        for (int part = 0; part < n; ++part) sums[part][v] += sums[part + n][v];
      P::store(out + v * W, begin.at(0, v) + sums[0][v]);
    }
  }

  // ---- with weights in place

  static S total(V v) {
    S part[W];
    P::store(part, v);
    for (int n = W / 2; n > 0; n /= 2)
      for (int i = 0; i < n; ++i) part[i] += part[i + n];
    return part[0];
  }
  // Prefetch distance in elements of a weight row. Rows are contiguous, but the hardware prefetcher does not cross 4 KB
  // pages.
  static constexpr int64_t rows_ahead = 128;

  // Set out[r][v][lane] to the dot product of row r of `a` with the row of weights that belongs to vector v and the
  // lane. The rows of weights are used in place.
  template <int vectors, int rows>
  static void dot(const S* a, int64_t row_stride, const S* const* weights, int64_t stride, int64_t k, int64_t lanes,
                  S* out) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      V sums[rows][vectors] = {};
      const auto add = [&](int64_t i, const auto&... n) {
        V factors[rows];
        for (int r = 0; r < rows; ++r) factors[r] = load(a + r * row_stride + i, n...);
        for (int v = 0; v < vectors; ++v) {
          const S* place = weights[v] + lane * stride + i;
          __builtin_prefetch(place + rows_ahead);
          const V weight = load(place, n...);
          for (int r = 0; r < rows; ++r) sums[r][v] += factors[r] * weight;
        }
      };
      int64_t i = 0;
      for (; i + W <= k; i += W) add(i);
      if (i < k) add(i, k - i);
      for (int r = 0; r < rows; ++r)
        for (int v = 0; v < vectors; ++v) out[(r * vectors + v) * W + lane] = total(sums[r][v]);
    }
  }
  template <int vectors, int rows = 4>
  static void dot_some(int count, const S* a, int64_t row_stride, const S* const* weights, int64_t stride, int64_t k,
                       int64_t lanes, S* out) {
    if (count == rows) return dot<vectors, rows>(a, row_stride, weights, stride, k, lanes, out);
    if constexpr (rows > 1) dot_some<vectors, rows - 1>(count, a, row_stride, weights, stride, k, lanes, out);
  }
};

}  // namespace mpsgraph::cpu
