// Loops of row_reductions.h.
// Instruction sets: avx2, avx512.

#include <bit>
#include <limits>
#include <type_traits>

#include "backends/cpu/reduction/row_reductions.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

template <class T>
struct Rows {
  static constexpr int W = lanes<T>;
  static constexpr bool floats = std::is_floating_point_v<T>;
  using V = Vector<T>;

  template <bool maximum>
  static RowExtremum<T> extremum(const T* x, int64_t n) {
    constexpr int chains = 4;  // independent chains hide the latency of comparisons
    using L = std::numeric_limits<T>;
    const T start = floats ? (maximum ? -L::infinity() : L::infinity()) : (maximum ? L::lowest() : L::max());
    const auto better = [](auto a, auto b) {  // returns the second operand if the first is NaN
      if constexpr (maximum)
        return a > b ? a : b;
      else
        return a < b ? a : b;
    };
    V best[chains];
    for (V& v : best) v = start - V{};
    LaneMask<V> nan{};
    const auto take = [&](V& into, V v) {
      if constexpr (floats) nan |= v != v;
      into = better(v, into);
    };
    int64_t i = 0;
    for (; i + chains * W <= n; i += chains * W)
      for (int c = 0; c < chains; ++c) take(best[c], load(x + i + c * W));
    for (; i + W <= n; i += W) take(best[0], load(x + i));
    const V all = better(better(best[0], best[1]), better(best[2], best[3]));
    RowExtremum<T> row{start, any(nan)};
    for (int l = 0; l < W; ++l) row.value = better(T(all[l]), row.value);
    for (; i < n; ++i) {
      row.has_nan |= x[i] != x[i];
      row.value = better(x[i], row.value);
    }
    return row;
  }

  static int64_t first(const T* x, int64_t n, T value) {
    const V wanted = value - V{};
    int64_t i = 0;
    for (; i + W <= n; i += W)
      if (const uint64_t found = bits_of(load(x + i) == wanted)) return i + std::countr_zero(found);
    while (i < n && !(x[i] == value)) ++i;
    return i;
  }

  // Reduce n rows to one: for each row and each column i, set result[i] to take(result[i], row[i]). The result is read
  // and written only once per four rows.
  template <class Take>
  static void rows_to_columns(const T* rows, int64_t stride, int64_t n, int64_t width, T* result, const Take& take) {
    const auto some = [&](auto count) {
      int64_t i = 0;
      for (; i + W <= width; i += W) {
        V v = load(result + i);
        for (int r = 0; r < count; ++r) v = take(v, load(rows + r * stride + i));
        store(result + i, v);
      }
      for (; i < width; ++i)
        for (int r = 0; r < count; ++r) result[i] = static_cast<T>(take(result[i], rows[r * stride + i]));
    };
    for (; n >= 4; n -= 4, rows += 4 * stride) some(std::integral_constant<int, 4>());
    for (; n > 0; --n, rows += stride) some(std::integral_constant<int, 1>());
  }

  template <bool maximum, bool propagates>
  static void columns_as(const T* rows, int64_t stride, int64_t n, int64_t width, T* best) {
    const auto take = [](auto block, auto x) {
      auto taken = maximum ? x > block : x < block;
      if constexpr (floats) taken = taken | (propagates ? x != x : block != block);
      return taken ? x : block;
    };
    rows_to_columns(rows, stride, n, width, best, take);
  }
  template <bool maximum>
  static void columns(const T* rows, int64_t stride, int64_t n, int64_t width, bool propagates, T* best) {
    (propagates ? columns_as<maximum, true> : columns_as<maximum, false>)(rows, stride, n, width, best);
  }

  static constexpr RowExtremaOf<T> loops{extremum<true>, extremum<false>, first, columns<true>, columns<false>};
};

template <class T>
struct Sums : Rows<T> {
  using typename Rows<T>::V;
  static constexpr int W = Rows<T>::W;

  static T of_row(const T* x, int64_t n) {
    constexpr int chains = 4;
    V sums[chains] = {};
    int64_t i = 0;
    for (; i + chains * W <= n; i += chains * W)
      for (int c = 0; c < chains; ++c) sums[c] += load(x + i + c * W);
    for (; i + W <= n; i += W) sums[0] += load(x + i);
    const V all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    T total = 0;
    for (int l = 0; l < W; ++l) total = static_cast<T>(total + all[l]);
    for (; i < n; ++i) total = static_cast<T>(total + x[i]);
    return total;
  }
  static void add_columns(const T* rows, int64_t stride, int64_t n, int64_t width, T* sums) {
    Rows<T>::rows_to_columns(rows, stride, n, width, sums, [](auto sum, auto x) { return sum + x; });
  }
  static constexpr NumberSums<T> loops{of_row, add_columns};
};

}  // namespace

constinit const RowReductions row_reductions{Rows<float>::loops,    Rows<double>::loops,   Rows<int32_t>::loops,
                                             Rows<int64_t>::loops,  Sums<uint8_t>::loops,  Sums<uint16_t>::loops,
                                             Sums<uint32_t>::loops, Sums<uint64_t>::loops, Sums<double>::loops};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
