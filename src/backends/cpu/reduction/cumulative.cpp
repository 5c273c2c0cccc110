// Cumulative sums, products, minima, and maxima: scans along one axis.
//
// A scan is serial along its axis, so several independent scans, called lanes, run together to hide the latency of
// their dependency chains. The lanes are adjacent columns if the axis is not the last one. Otherwise, they are adjacent
// rows, which are transposed tile by tile. Sums and products of floats are accumulated in double, and those along rows
// are vectorized (row_scans.h). Half precision is scanned in float32, and short integers in 32 bits where that gives
// the same result.

#include <functional>
#include <limits>
#include <utility>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/reduction/row_scans.h"
#include "backends/cpu/reduction/short_rows.h"
#include "backends/cpu/wide_kernels.h"

namespace mpsgraph::cpu {
namespace {

template <class T>
using Running =
    std::conditional_t<is_float_type<T>, double, std::conditional_t<is_complex_type<T>, std::complex<double>, T>>;

// A scan type provides: In and Out, the types in memory; State, the state of a lane; start(), value(state), and
// step(state, element, index). If rows may be split into pieces, it also provides append(state, state of the next
// piece).
template <class T>
struct RunningSum {
  using In = T;
  using Out = T;
  using State = Running<T>;
  State start() const { return 0; }
  Out value(const State& s) const { return static_cast<T>(s); }
  void step(State& s, In x, int64_t) const { s += static_cast<State>(x); }
  void append(State& s, const State& next) const { s += next; }
};

template <class T>
struct RunningProduct {
  using In = T;
  using Out = T;
  using State = Running<T>;
  State start() const { return 1; }
  Out value(const State& s) const { return static_cast<T>(s); }
  void step(State& s, In x, int64_t) const { s *= static_cast<State>(x); }
  void append(State& s, const State& next) const { s *= next; }
};

// Return the neutral element of the maximum: -infinity, or the lowest integer of type V.
template <class V>
constexpr V neutral() {
  using L = std::numeric_limits<V>;
  if constexpr (L::has_infinity)
    return -L::infinity();
  else
    return L::lowest();
}

template <class V>
bool takes_over(V best, V x) {
  if constexpr (std::is_floating_point_v<V>)
    return (x != x) | (x >= best);
  else
    return x >= best;
}

// A scan for the cumulative maximum in the given order.
template <class T>
struct RunningExtremum {
  using In = T;
  using Out = T;
  using State = T;
  Order<T> order;
  State start() const { return neutral<State>(); }
  Out value(const State& s) const { return order.turned(s); }
  void step(State& s, In x, int64_t) const { append(s, order.turned(x)); }
  void append(State& s, const State& next) const { s = takes_over(s, next) ? next : s; }
};

// A faster cumulative minimum or maximum for float32, the most common type. It compares floats directly, without an
// Order object.
template <bool maximum>
struct FloatExtremum {
  using In = float;
  using Out = float;
  using State = float;
  State start() const { return maximum ? neutral<float>() : -neutral<float>(); }
  Out value(const State& s) const { return s; }
  void step(State& s, In x, int64_t) const { append(s, x); }
  void append(State& s, const State& next) const { s = (next != next) | (maximum ? next >= s : next <= s) ? next : s; }
};

template <class T>
struct ArgExtremum {
  using In = T;
  using Out = int32_t;
  struct State {
    T x;
    int32_t index;
  };
  Order<T> order;
  State start() const { return {neutral<T>(), -1}; }
  Out value(const State& s) const { return s.index; }
  void step(State& s, In element, int64_t index) const {
    const T x = order.turned(element);
    const bool taken = takes_over(s.x, x);
    s.x = taken ? x : s.x;
    s.index = taken ? static_cast<int32_t>(index) : s.index;
  }
};

constexpr int64_t tile_columns = 64, tile_rows = 8;
// rows of up to this length are scanned one by one, because the processor overlaps the dependency chains of consecutive
// short rows anyway
constexpr int64_t short_row_of_scan = 16;

// Call f(first element, number of columns) for groups of columns of [outer, n, inner].
template <class F>
void for_columns(const AxisSplit& s, int64_t bytes, const F& f) {
  const int64_t tiles = (s.inner + tile_columns - 1) / tile_columns;
  parallel_for(s.outer * tiles, grain_for(s.n * std::min(s.inner, tile_columns) * bytes),
               [&](int64_t begin, int64_t end) {
                 for (int64_t unit = begin; unit < end; ++unit) {
                   const int64_t first = unit % tiles * tile_columns;
                   f(unit / tiles * s.n * s.inner + first, std::min(tile_columns, s.inner - first));
                 }
               });
}

// Call f(first element, number of rows) for groups of rows of [outer, n].
template <class F>
void for_rows(const AxisSplit& s, int64_t bytes, const F& f) {
  const int64_t groups = (s.outer + tile_rows - 1) / tile_rows;
  parallel_for(groups, grain_for(s.n * tile_rows * bytes), [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group)
      f(group * tile_rows * s.n, std::min(tile_rows, s.outer - group * tile_rows));
  });
}
// Call f(first element, number of elements) for pieces of a row, in scan order.
template <class F>
void for_tiles(int64_t n, bool reverse, const F& f) {
  for (int64_t k = 0; k < n; k += tile_columns) {
    if (k / tile_columns % 1024 == 1023) poll_run();
    const int64_t count = std::min(tile_columns, n - k);
    f(reverse ? n - k - count : k, count);
  }
}
// A few rows transposed into adjacent lanes, and back. The number of rows is small to avoid cache conflicts: rows that
// are a large power of two apart share a few lines of L1.
template <class T>
struct Tile {
  T lanes[tile_columns * tile_rows];

  void read(const T* rows, int64_t distance, int64_t count, int64_t n) {
    if (count < tile_rows) std::fill_n(lanes, n * tile_rows, T{});
    turn_rows(rows, distance, count, n, lanes, tile_rows);
  }
  void write(T* rows, int64_t distance, int64_t count, int64_t n) const {
    turn_rows(lanes, tile_rows, n, count, rows, distance);
  }
};

// Call step(state, i, at) for each element i, in scan order, of each of `width` adjacent lanes. `state` is the lane's
// state, and `at` is the position of the element in memory.
template <class Width, class State, class Step>
void walk(Width width, State* state, const AxisSplit& s, bool reverse, const Step& step) {
  for (int64_t k = 0; k < s.n; ++k) {
    const int64_t i = reverse ? s.n - 1 - k : k;
#pragma omp simd
    for (int64_t l = 0; l < width; ++l) step(state[l], i, i * s.inner + l);
  }
}
// Call f(width) with a compile-time width for full tiles of the most common element types, so that the compiler
// vectorizes the loop.
template <class Element, class F>
void with_width(int64_t columns, const F& f) {
  if constexpr (std::is_same_v<Element, float> || std::is_same_v<Element, double> || std::is_same_v<Element, uint32_t>)
    if (columns == tile_columns) return f(std::integral_constant<int64_t, tile_columns>());
  f(columns);
}
using TileWidth = std::integral_constant<int64_t, tile_rows>;
AxisSplit split_of_tile() { return {{tile_columns, tile_rows}, 0}; }

// Scan adjacent lanes; `index` is the position along the scan axis of the first element in memory.
template <class S, class Width>
[[gnu::noinline]] void scan_lanes(const S& op, typename S::State* state, const AxisSplit& s, bool exclusive,
                                  bool reverse, Width width, int64_t index, const typename S::In* from,
                                  typename S::Out* to) {
  using State = typename S::State;
  if (exclusive)
    walk(width, state, s, reverse, [=](State& state, int64_t i, int64_t at) {
      const typename S::In element = from[at];  // the element is read before it is overwritten
      to[at] = op.value(state);
      op.step(state, element, index + i);
    });
  else
    walk(width, state, s, reverse, [=](State& state, int64_t i, int64_t at) {
      op.step(state, from[at], index + i);
      to[at] = op.value(state);
    });
}

// Scan `count` rows of n elements each, where count <= tile_rows. Rows begin `distance` elements apart. `state` holds
// tile_rows states, one per row.
template <class S>
void scan_rows(const S& op, typename S::State* state, int64_t n, int64_t distance, int64_t count, bool exclusive,
               bool reverse, const typename S::In* x, typename S::Out* y) {
  Tile<typename S::In> from;
  Tile<typename S::Out> to;
  AxisSplit tile = split_of_tile();
  for_tiles(n, reverse, [&](int64_t at, int64_t columns) {
    tile.n = columns;
    from.read(x + at, distance, count, columns);
    scan_lanes(op, state, tile, exclusive, reverse, TileWidth(), at, from.lanes, to.lanes);
    to.write(y + at, distance, count, columns);
  });
}

// Scan a long row in pieces that run as adjacent lanes. A first pass over the row computes the initial state of each
// piece. The partition depends only on the size of the row.
constexpr int64_t long_row = 1 << 14, pieces = 16;
static_assert(pieces % tile_rows == 0);

template <class S>
void scan_long(const S& op, int64_t n, bool exclusive, bool reverse, const typename S::In* x, typename S::Out* y) {
  using State = typename S::State;
  const int64_t size = n / pieces, rest = n - size * pieces;
  const int64_t first = reverse ? rest : 0;  // the remainder is scanned after the pieces
  State total[pieces], start[pieces + tile_rows];
  std::fill_n(total, pieces, op.start());
  const auto for_pieces = [&](const auto& f) {
    parallel_for(pieces / tile_rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin * tile_rows; p < end * tile_rows; p += tile_rows) f(p, first + p * size);
    });
  };
  for_pieces([&](int64_t piece, int64_t from) {
    Tile<typename S::In> lanes;
    AxisSplit tile = split_of_tile();
    for_tiles(size, reverse, [&](int64_t at, int64_t columns) {
      tile.n = columns;
      lanes.read(x + from + at, size, tile_rows, columns);
      walk(TileWidth(), total + piece, tile, reverse,
           [op, in = lanes.lanes](State& state, int64_t i, int64_t at) { op.step(state, in[at], i); });
    });
  });
  std::fill_n(start, pieces + tile_rows, op.start());
  for (int64_t k = 0; k < pieces; ++k) {
    start[k + 1] = start[k];
    op.append(start[k + 1], total[reverse ? pieces - 1 - k : k]);
  }
  for (int64_t k = 0; k < pieces; ++k) total[reverse ? pieces - 1 - k : k] = start[k];
  for_pieces([&](int64_t piece, int64_t from) {
    scan_rows(op, total + piece, size, size, tile_rows, exclusive, reverse, x + from, y + from);
  });
  const int64_t last = reverse ? 0 : n - rest;
  scan_rows(op, start + pieces, rest, rest, 1, exclusive, reverse, x + last, y + last);
}

template <class S>
void scan(const S& op, const AxisSplit& s, bool exclusive, bool reverse, const typename S::In* x, typename S::Out* y) {
  using State = typename S::State;
  if constexpr (requires(State state) { op.append(state, state); }) {
    if (s.inner == 1 && s.n >= long_row && s.outer < tile_rows) {
      for (int64_t row = 0; row < s.outer; ++row) scan_long(op, s.n, exclusive, reverse, x + row * s.n, y + row * s.n);
      return;
    }
  }
  if (s.inner > 1) {
    for_columns(s, sizeof(typename S::In), [&](int64_t first, int64_t count) {
      State state[tile_columns];
      std::fill_n(state, count, op.start());
      with_width<typename S::In>(
          count, [&](auto width) { scan_lanes(op, state, s, exclusive, reverse, width, 0, x + first, y + first); });
    });
    return;
  }
  if (s.n <= short_row_of_scan) {
    const auto short_row = [&](const typename S::In* in, typename S::Out* out) {
      State state = op.start();
      for (int64_t k = 0; k < s.n; ++k) {
        const int64_t i = reverse ? s.n - 1 - k : k;
        const typename S::In element = in[i];
        const State before = state;
        op.step(state, element, i);
        out[i] = op.value(exclusive ? before : state);
      }
    };
    parallel_for(s.outer, grain_for(s.n * static_cast<int64_t>(sizeof(typename S::In))),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t row = begin; row < end; ++row) short_row(x + row * s.n, y + row * s.n);
                 });
    return;
  }
  for_rows(s, sizeof(typename S::In), [&](int64_t first, int64_t count) {
    State state[tile_rows];
    std::fill_n(state, tile_rows, op.start());
    scan_rows(op, state, s.n, s.n, count, exclusive, reverse, x + first, y + first);
  });
}

template <class S>
std::unique_ptr<Kernel> scan_kernel(const S& op, const Lowering& lowering, const Operand& x, const Operand& y) {
  const AxisSplit s(x.dims, lowering.attributes().integer("axis"));
  return kernel([op, s, exclusive = lowering.attributes().boolean("exclusive"),
                 reverse = lowering.attributes().boolean("reverse"), x = x.slot, y = y.slot](Frame& f) {
    scan(op, s, exclusive, reverse, f.at<const typename S::In>(x), f.at<typename S::Out>(y));
  });
}

// Scan a long row in pieces; the totals of the pieces determine their initial states.
template <class T, class Combine>
void scan_pieces(const RowScan<T>& scan, const Combine& combine, typename RowScan<T>::State before, int64_t n,
                 bool exclusive, bool reverse, const T* x, T* y) {
  typename RowScan<T>::State start[pieces];
  const int64_t size = n / pieces;
  const auto range = [&](int64_t p) { return std::pair(p * size, p + 1 == pieces ? n : (p + 1) * size); };
  parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) start[p] = scan.total(x + range(p).first, range(p).second - range(p).first);
  });
  for (int64_t k = 0; k < pieces; ++k) {
    auto& piece = start[reverse ? pieces - 1 - k : k];
    const auto with = combine(before, piece);
    piece = std::exchange(before, with);
  }
  parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const auto [first, last] = range(p);
      scan.running(start[p], x + first, last - first, exclusive, reverse, y + first);
    }
  });
}

template <class T, class Combine>
std::unique_ptr<Kernel> row_scan_kernel(Lowering& lowering, const AxisSplit& s, const RowScan<T>& scan,
                                        const Combine& combine, typename RowScan<T>::State neutral) {
  lowering.may_share(0, 0);
  return kernel([s, scan, combine, neutral, exclusive = lowering.attributes().boolean("exclusive"),
                 reverse = lowering.attributes().boolean("reverse"), x = lowering.input(0).slot,
                 y = lowering.output().slot](Frame& f) {
    const T* from = f.at<const T>(x);
    T* to = f.at<T>(y);
    if (s.n >= long_row && s.outer < tile_rows) {
      for (int64_t row = 0; row < s.outer; ++row)
        scan_pieces(scan, combine, neutral, s.n, exclusive, reverse, from + row * s.n, to + row * s.n);
      return;
    }
    parallel_for(s.outer, grain_for(s.n * static_cast<int64_t>(sizeof(T))), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        scan.running(neutral, from + row * s.n, s.n, exclusive, reverse, to + row * s.n);
    });
  });
}

// Return the vectorized sums and products of rows. Return null if this processor has none, or if the scan does not run
// along rows.
const RowScans* scans_along(const AxisSplit& s, const Lowering& lowering) {
  return s.inner != 1 || lowering.reference_only() ? nullptr : row_scans();
}
std::unique_ptr<Kernel> row_sums(Lowering& lowering) {
  const AxisSplit s(lowering.input(0).dims, lowering.attributes().integer("axis"));
  const RowScans* scans = scans_along(s, lowering);
  if (!scans) return nullptr;
  switch (lowering.input(0).dtype) {
    case DType::float32: return row_scan_kernel(lowering, s, scans->sum_of_floats, std::plus<>(), 0);
    case DType::float64: return row_scan_kernel(lowering, s, scans->sum_of_doubles, std::plus<>(), 0);
    case DType::int32:
    case DType::uint32: return row_scan_kernel(lowering, s, scans->sum_of_uint32, std::plus<>(), 0);
    case DType::int64:
    case DType::uint64: return row_scan_kernel(lowering, s, scans->sum_of_uint64, std::plus<>(), 0);
    default: return nullptr;
  }
}
std::unique_ptr<Kernel> row_products(Lowering& lowering) {
  const AxisSplit s(lowering.input(0).dims, lowering.attributes().integer("axis"));
  const RowScans* scans = scans_along(s, lowering);
  if (!scans || lowering.input(0).dtype != DType::float32) return nullptr;
  return row_scan_kernel(lowering, s, scans->product_of_floats, std::multiplies<>(), 1);
}

// Short integers are not widened here: an exclusive scan starts with the lowest or highest value of the element type,
// and a wider type has different limits.
template <bool maximum>
std::unique_ptr<Kernel> lower_extremum(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  if (const DType wide = wide_float(x.dtype); wide != x.dtype)
    return widened_kernel(lowering, x.dtype, wide, lower_extremum<maximum>);
  lowering.may_share(0, 0);
  if (x.dtype == DType::float32) return scan_kernel(FloatExtremum<maximum>(), lowering, x, y);
  if (x.dtype == DType::float64) return scan_kernel(RunningExtremum<double>{{x.dtype, !maximum}}, lowering, x, y);
  const auto lower = [&](auto type) {
    using T = typename decltype(type)::type;
    return scan_kernel(RunningExtremum<T>{{x.dtype, !maximum}}, lowering, x, y);
  };
  if (!is_integer(x.dtype)) unsupported(lowering, x.dtype);
  switch (size_of(x.dtype)) {
    case 1: return lower(Type<uint8_t>());
    case 2: return lower(Type<uint16_t>());
    case 4: return lower(Type<uint32_t>());
    default: return lower(Type<uint64_t>());
  }
}

// Signed integers are scanned as unsigned ones, whose sums and products have the same bits.
template <template <class> class S>
std::unique_ptr<Kernel> lower_algebraic_scan(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  if (const DType wide = wide_integer(wide_float(x.dtype)); wide != x.dtype)
    return widened_kernel(lowering, x.dtype, wide, lower_algebraic_scan<S>);
  lowering.may_share(0, 0);
  switch (x.dtype) {
    case DType::float32: return scan_kernel(S<float>(), lowering, x, y);
    case DType::float64: return scan_kernel(S<double>(), lowering, x, y);
    case DType::complex64: return scan_kernel(S<std::complex<float>>(), lowering, x, y);
    case DType::complex128: return scan_kernel(S<std::complex<double>>(), lowering, x, y);
    case DType::int32:
    case DType::uint32: return scan_kernel(S<uint32_t>(), lowering, x, y);
    case DType::int64:
    case DType::uint64: return scan_kernel(S<uint64_t>(), lowering, x, y);
    default: unsupported(lowering, x.dtype);
  }
}

std::unique_ptr<Kernel> lower_sum(Lowering& lowering) {
  if (auto rows = row_sums(lowering)) return rows;
  return lower_algebraic_scan<RunningSum>(lowering);
}
std::unique_ptr<Kernel> lower_product(Lowering& lowering) {
  if (auto rows = row_products(lowering)) return rows;
  return lower_algebraic_scan<RunningProduct>(lowering);
}

std::unique_ptr<Kernel> lower_arg_extremum(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  if (const DType wide = wide_integer(wide_float(x.dtype)); wide != x.dtype)
    return widened_kernel(lowering, x.dtype, wide, lower_arg_extremum);
  const bool opposite = !lowering.attributes().boolean("maximum");
  switch (x.dtype) {
    case DType::float32: return scan_kernel(ArgExtremum<float>{{x.dtype, opposite}}, lowering, x, y);
    case DType::float64: return scan_kernel(ArgExtremum<double>{{x.dtype, opposite}}, lowering, x, y);
    case DType::int32:
    case DType::uint32: return scan_kernel(ArgExtremum<uint32_t>{{x.dtype, opposite}}, lowering, x, y);
    case DType::int64:
    case DType::uint64: return scan_kernel(ArgExtremum<uint64_t>{{x.dtype, opposite}}, lowering, x, y);
    default: unsupported(lowering, x.dtype);
  }
}

std::unique_ptr<Kernel> lower_recurrence(Lowering& lowering) {
  const Operand a = lowering.input(0), b = lowering.input(1), y = lowering.output();
  if (const DType wide = wide_float(y.dtype); wide != y.dtype)
    return widened_kernel(lowering, y.dtype, wide, lower_recurrence);
  const AxisSplit s(y.dims, lowering.attributes().integer("axis"));
  lowering.may_share(0, 0);
  lowering.may_share(0, 1);
  const bool reverse = lowering.attributes().boolean("reverse");
  const auto lower = [&](auto type) {
    using T = typename decltype(type)::type;
    using State = Running<T>;
    const auto lanes = [reverse](auto width, State* states, const AxisSplit& of, const T* factor, const T* term,
                                 T* to) {
      walk(width, states, of, reverse, [=](State& state, int64_t, int64_t at) {
        const auto scale = static_cast<State>(factor[at]);
        const auto next = static_cast<State>(term[at]) + scale * state;
        to[at] = static_cast<T>(state);
        state = next;
      });
    };
    return kernel([s, reverse, lanes, a = a.slot, b = b.slot, y = y.slot](Frame& f) {
      const T *factors = f.at<const T>(a), *terms = f.at<const T>(b);
      T* to = f.at<T>(y);
      if (s.inner > 1) {
        for_columns(s, 2 * sizeof(T), [&](int64_t first, int64_t count) {
          State states[tile_columns] = {};
          with_width<T>(count,
                        [&](auto width) { lanes(width, states, s, factors + first, terms + first, to + first); });
        });
        return;
      }
      for_rows(s, 2 * sizeof(T), [&](int64_t first, int64_t count) {
        Tile<T> factor, term;
        State states[tile_rows] = {};
        AxisSplit tile = split_of_tile();
        for_tiles(s.n, reverse, [&](int64_t at, int64_t columns) {
          tile.n = columns;
          factor.read(factors + first + at, s.n, count, columns);
          term.read(terms + first + at, s.n, count, columns);
          lanes(TileWidth(), states, tile, factor.lanes, term.lanes, term.lanes);
          term.write(to + first + at, s.n, count, columns);
        });
      });
    });
  };
  switch (y.dtype) {
    case DType::float32: return lower(Type<float>());
    case DType::float64: return lower(Type<double>());
    case DType::complex64: return lower(Type<std::complex<float>>());
    case DType::complex128: return lower(Type<std::complex<double>>());
    default: unsupported(lowering, y.dtype);
  }
}

}  // namespace

const Kernels cumulative_kernels("cumulative", [] {
  define_kernel("cumulative_sum", lower_sum);
  define_kernel("cumulative_product", lower_product);
  define_kernel("cumulative_minimum", lower_extremum<false>);
  define_kernel("cumulative_maximum", lower_extremum<true>);
  define_kernel("cumulative_arg_extremum", lower_arg_extremum);
  define_kernel("cumulative_recurrence", lower_recurrence);
});

}  // namespace mpsgraph::cpu
