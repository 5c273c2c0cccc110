// Sums, products, minima, and maxima over rows and columns of a tile, for tile_functions_float.simd.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/elementwise/tile_loops_float.h"
#include "backends/cpu/elementwise/vector_steps.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

struct Sum {
  static V apply(V a, V b) { return a + b; }
  static constexpr float start = 0.f;
};
struct Product {
  static V apply(V a, V b) { return a * b; }
  static constexpr float start = 1.f;
};

struct Minimum {
  static V apply(V a, V b) { return select(a != a, b, select(b != b, a, select(a < b, a, b))); }
};
struct Maximum {
  static V apply(V a, V b) { return select(a != a, b, select(b != b, a, select(a > b, a, b))); }
};
struct MinimumPropagateNaN {
  static V apply(V a, V b) { return select((a < b) | (a != a), a, b); }
};
struct MaximumPropagateNaN {
  static V apply(V a, V b) { return select((a > b) | (a != a), a, b); }
};

// Four accumulator vectors hide the latency of the operation. They are combined in a fixed order, so results are
// reproducible.
template <class F, class T = float>
void reduce_loop(float* accumulator, const T* x, int64_t n) {
  V s0 = splat(*accumulator), s1 = s0, s2 = s0, s3 = s0;
  constexpr bool starts = requires { F::start; };
  if constexpr (starts) s0 = s1 = s2 = s3 = splat(F::start);
  int64_t i = 0;
  for (; i + 4 * W <= n; i += 4 * W) {
    s0 = F::apply(s0, load(x + i));
    s1 = F::apply(s1, load(x + i + W));
    s2 = F::apply(s2, load(x + i + 2 * W));
    s3 = F::apply(s3, load(x + i + 3 * W));
  }
  for (; i + W <= n; i += W) s0 = F::apply(s0, load(x + i));
  if (i < n) {  // the initial values of the lanes after the last element do not change the result
    if constexpr (!std::is_same_v<T, float>)
      s1 = F::apply(s1, load(x + i, n - i));  // half precision is only summed
    else if constexpr (starts)
      s1 = F::apply(s1, load(x + i, n - i, splat(F::start)));
    else
      s1 = F::apply(s1, load(x + i, n - i, s1));
  }
  const float all = fold_lanes(F::apply(F::apply(s0, s1), F::apply(s2, s3)), F::apply);
  *accumulator = starts ? F::apply(splat(*accumulator), splat(all))[0] : all;
}
// Process four rows at a time, so that the accumulator is read and written once for all four.
template <class F>
void combine_loop(float* accumulator, const float* x, int64_t stride, int64_t rows, int64_t n) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * stride) {
    int64_t i = 0;
    for (; i + W <= n; i += W) {
      const V a = F::apply(load(x + i), load(x + stride + i));
      const V b = F::apply(load(x + 2 * stride + i), load(x + 3 * stride + i));
      store(accumulator + i, F::apply(load(accumulator + i), F::apply(a, b)));
    }
    for (; i < n; ++i) {
      const V a = F::apply(splat(x[i]), splat(x[stride + i]));
      const V b = F::apply(splat(x[2 * stride + i]), splat(x[3 * stride + i]));
      accumulator[i] = F::apply(splat(accumulator[i]), F::apply(a, b))[0];
    }
  }
  for (; r < rows; ++r, x += stride) {
    const void* in[2] = {accumulator, x};
    binary_loop<F, false, false>(accumulator, in, n);
  }
}
inline ReduceFunction reduce(Reduction r) {
  switch (r) {
    case Reduction::sum: return reduce_loop<Sum>;
    case Reduction::product: return reduce_loop<Product>;
    case Reduction::maximum: return reduce_loop<Maximum>;
    case Reduction::minimum: return reduce_loop<Minimum>;
    case Reduction::maximum_propagate_nan: return reduce_loop<MaximumPropagateNaN>;
    case Reduction::minimum_propagate_nan: return reduce_loop<MinimumPropagateNaN>;
  }
  return nullptr;
}
inline void sum_halves(float* accumulator, const void* x, DType half, int64_t n) {
#if !MPSGRAPH_IS_BASELINE
  if (half == DType::float16) return reduce_loop<Sum>(accumulator, static_cast<const Half*>(x), n);
  reduce_loop<Sum>(accumulator, static_cast<const BFloat16*>(x), n);
#else
  constexpr int64_t room = 512;
  float wide[room];
  for (int64_t i = 0; i < n; i += room) {
    const void* from = static_cast<const uint16_t*>(x) + i;
    cast_function(half, DType::float32)(wide, &from, std::min(room, n - i));
    reduce_loop<Sum>(accumulator, wide, std::min(room, n - i));
  }
#endif
}
inline CombineFunction combine(Reduction r) {
  switch (r) {
    case Reduction::sum: return combine_loop<Sum>;
    case Reduction::product: return combine_loop<Product>;
    case Reduction::maximum: return combine_loop<Maximum>;
    case Reduction::minimum: return combine_loop<Minimum>;
    case Reduction::maximum_propagate_nan: return combine_loop<MaximumPropagateNaN>;
    case Reduction::minimum_propagate_nan: return combine_loop<MinimumPropagateNaN>;
  }
  return nullptr;
}

inline float dot(const float* a, const float* b, int64_t n) {
  V s0{}, s1{}, s2{}, s3{};
  int64_t i = 0;
  for (; i + 4 * W <= n; i += 4 * W) {
    // Prefetch the next row of the matrix, which follows in memory; the hardware prefetcher stops at the end of a page.
    for (int64_t line = 0; line < 4 * W; line += 16) __builtin_prefetch(a + i + 512 + line);
    s0 += load(a + i) * load(b + i);
    s1 += load(a + i + W) * load(b + i + W);
    s2 += load(a + i + 2 * W) * load(b + i + 2 * W);
    s3 += load(a + i + 3 * W) * load(b + i + 3 * W);
  }
  for (; i + W <= n; i += W) s0 += load(a + i) * load(b + i);
  if (i < n) {
    V x{}, y{};
    std::memcpy(&x, a + i, (n - i) * 4);
    std::memcpy(&y, b + i, (n - i) * 4);
    s1 += x * y;
  }
  const V sum = (s0 + s1) + (s2 + s3);
  float result = 0;
  for (int j = 0; j < W; j++) result += sum[j];
  return result;
}

constexpr int most_columns = W == 16 ? 8 : 4;  // maximum vectors per row; registers hold two sums for each vector

// Add `count` weighted rows of C vectors. Each column is summed in the same order, no matter how many columns are
// processed together.
template <int C>
void weighted_columns(float* sums, const float* factors, const float* rows, int64_t stride, int64_t count) {
  constexpr int sets = 2;
  V sum[sets][C] = {};
  int64_t i = 0;
  for (; i + sets <= count; i += sets)
    for (int s = 0; s < sets; ++s)
      for (int c = 0; c < C; ++c) sum[s][c] += load(rows + (i + s) * stride + c * W) * factors[i + s];
  for (; i < count; ++i)
    for (int c = 0; c < C; ++c) sum[0][c] += load(rows + i * stride + c * W) * factors[i];
  for (int c = 0; c < C; ++c) store(sums + c * W, sum[0][c] + sum[1][c]);
}
template <int C = most_columns>
void weighted_block(int64_t vectors, float* sums, const float* factors, const float* rows, int64_t stride,
                    int64_t count) {
  if constexpr (C > 1) {
    if (vectors < C) return weighted_block<C - 1>(vectors, sums, factors, rows, stride, count);
  }
  weighted_columns<C>(sums, factors, rows, stride, count);
}

// Add weighted rows with fewer columns than a vector has lanes. Whole vectors are loaded, including elements of the
// following row, as long as the load stays within the rows. Several independent sums hide the latency of the additions.
inline void weighted_rest(float* sums, const float* factors, const float* rows, int64_t stride, int64_t count,
                          int64_t n) {
  constexpr int chains = 4;
  const int64_t last = (count - 1) * stride + n - W, readable = last < 0 ? 0 : last / stride + 1;
  V parts[chains] = {};
  int64_t i = 0;
  for (; i + chains <= readable; i += chains)
    for (int c = 0; c < chains; ++c) parts[c] += factors[i + c] * load(rows + (i + c) * stride);
  float lanes[W];
  store(lanes, (parts[0] + parts[1]) + (parts[2] + parts[3]));
  for (int64_t j = 0; j < n; ++j) {
    sums[j] = lanes[j];
    for (int64_t rest = i; rest < count; ++rest) sums[j] += factors[rest] * rows[rest * stride + j];
  }
}
inline void weighted_sum(float* sums, const float* factors, const float* rows, int64_t stride, int64_t count,
                         int64_t n) {
  int64_t j = 0;
  while (j + W <= n) {
    const int64_t vectors = std::min<int64_t>((n - j) / W, most_columns);
    weighted_block(vectors, sums + j, factors, rows + j, stride, count);
    j += vectors * W;
  }
  if (j < n) weighted_rest(sums + j, factors, rows + j, stride, count, n - j);
}

}  // namespace
}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
