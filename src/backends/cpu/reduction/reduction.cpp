// Reductions: sum, product, minimum, maximum, `and`, `or`, argmin, and argmax. Minimum and maximum exist with and
// without NaN propagation.
//
// Reduced axes remain with size 1. Over no elements, a sum is 0, a product 1, and a maximum -inf (or the lowest
// integer). Minima and maxima without NaN propagation ignore NaN unless all elements are NaN; those with propagation
// return NaN if any element is NaN. Like numpy, argmin and argmax return the first occurrence, and the first NaN if
// there is one.

#include "backends/cpu/reduction/reduction.h"

#include <algorithm>
#include <complex>
#include <limits>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/reduction/row_reductions.h"
#include "backends/cpu/wide_kernels.h"

namespace mpsgraph::cpu {
namespace {

// The type in which the results of blocks are accumulated in sums and products.
template <class T>
using TotalOf = std::conditional_t<is_complex_type<T>, std::complex<double>,
                                   std::conditional_t<is_float_type<T>, double, uint64_t>>;

template <class T>
struct Sum {
  static_assert(!std::is_integral_v<T> || std::is_unsigned_v<T>, "pass signed integers as unsigned ones, which wrap");
  static constexpr Reduction vector_kind = Reduction::sum;
  using Item = T;
  // integers wrap in blocks exactly as in the result
  using Block = std::conditional_t<std::is_integral_v<T>, T, Accumulate<T>>;
  using Total = std::conditional_t<std::is_integral_v<T>, T, TotalOf<T>>;
  static Block identity() { return 0; }
  static T empty() { return T(0); }
  static void add(Block& block, T x) { block = static_cast<Block>(block + static_cast<Block>(x)); }
  static void merge(Total& total, Total x) { total = static_cast<Total>(total + x); }
  static Value<T> value(Total total) { return static_cast<Value<T>>(total); }
  static T result(Total total) { return T(value(total)); }
};

template <class T>
struct Product {
  static constexpr Reduction vector_kind = Reduction::product;
  using Item = T;
  using Block = Accumulate<T>;
  using Total = TotalOf<T>;
  static Block identity() { return 1; }
  static T empty() { return T(1); }
  static void add(Block& block, T x) { block *= static_cast<Block>(x); }
  static void merge(Total& total, Total x) { total *= x; }
  static Value<T> value(Total total) { return static_cast<Value<T>>(total); }
  static T result(Total total) { return T(value(total)); }
};

template <class T>
Value<T> infinite(bool negative) {
  using V = Value<T>;
  if constexpr (is_float_type<T>)
    return negative ? -std::numeric_limits<V>::infinity() : std::numeric_limits<V>::infinity();
  else
    return negative ? std::numeric_limits<V>::lowest() : std::numeric_limits<V>::max();
}

template <class T, bool is_maximum, bool propagates>
struct Extremum {
  static constexpr bool maximum = is_maximum, propagate = propagates;
  static constexpr Reduction vector_kind = maximum
                                               ? (propagate ? Reduction::maximum_propagate_nan : Reduction::maximum)
                                               : (propagate ? Reduction::minimum_propagate_nan : Reduction::minimum);
  using Item = T;
  using Block = Value<T>;
  using Total = Block;
  static Block identity() {
    if constexpr (is_float_type<T> && !propagate)
      return std::numeric_limits<Block>::quiet_NaN();  // a reduction over NaN only must return NaN
    else
      return infinite<T>(maximum);
  }
  static T empty() { return T(infinite<T>(maximum)); }
  static void add(Block& block, Block x) {
    const bool better = maximum ? x > block : x < block;
    if constexpr (is_float_type<T>)
      block = (better | (propagate ? x != x : block != block)) ? x : block;
    else
      block = better ? x : block;
  }
  static void merge(Total& total, Block x) { add(total, x); }
  static Value<T> value(Total total) { return total; }
  static T result(Total total) { return T(total); }
};
template <class T>
using Maximum = Extremum<T, true, false>;
template <class T>
using Minimum = Extremum<T, false, false>;
template <class T>  // integers have no NaN
using MaximumPropagateNan = Extremum<T, true, is_float_type<T>>;
template <class T>
using MinimumPropagateNan = Extremum<T, false, is_float_type<T>>;

// Bitwise `and` (if `all` is set) or bitwise `or` of integers. For bools, these are the logical operations.
template <class T, bool all>
struct Logical {
  using Item = T;
  using Block = T;
  using Total = T;
  static T identity() { return all ? static_cast<T>(~uint64_t{0}) : T(0); }
  static T empty() { return identity(); }
  static void add(T& block, T x) { block = static_cast<T>(all ? block & x : block | x); }
  static void merge(T& total, T x) { add(total, x); }
  static T result(T total) { return total; }
};
template <class T>
using And = Logical<T, true>;
template <class T>
using Or = Logical<T, false>;

ReducePlan plan_of(const Lowering& lowering, const Dims& dims) {
  const Ints& axes = lowering.attributes().integers("axes");
  std::vector<bool> reduced(dims.size(), axes.empty());
  for (int64_t axis : axes)
    reduced[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(dims.size()) : axis)] = true;
  return ReducePlan(dims, reduced);
}

// The loops of an operation Op, which provides: Item (type in memory), Total (type of partial results), Block
// (accumulator of inner loops), identity(), empty(), add(block, item), merge(total, block or total), and result(total).
// If Op defines vector_kind, tile functions run its inner loops in float32, with the widest available vectors.
template <class Op>
struct LoopsOf {
  using Item = typename Op::Item;
  using Block = typename Op::Block;
  using Total = typename Op::Total;
  static constexpr bool in_vectors = std::is_same_v<Item, float> && requires { Op::vector_kind; };
  // whether items are converted to float32, one tile at a time
  static constexpr bool widened = is_half_type<Item> && requires { Op::vector_kind; };
  static constexpr DType widened_from = std::is_same_v<Item, Half> ? DType::float16 : DType::bfloat16;
  static consteval bool has_rows() {
    if constexpr (has_row_extrema<Item>) return requires { Op::maximum; };
    return false;
  }
  static constexpr bool is_extremum = has_rows();
  static consteval bool sums_numbers() {
    if constexpr (has_number_sums<Item> && requires { Op::vector_kind; }) return Op::vector_kind == Reduction::sum;
    return false;
  }
  // Return whether totals have the same type and value as results, so that columns can be reduced directly in the
  // output.
  static consteval bool totals_are_results() { return is_extremum || (sums_numbers() && std::is_integral_v<Item>); }
  static consteval bool sums_halves() {
    if constexpr (widened) return Op::vector_kind == Reduction::sum;
    return false;
  }
  static constexpr int64_t items_per_block = 1024;
  static const Item* items(const std::byte* in) { return reinterpret_cast<const Item*>(in); }
  static Total* totals(std::byte* memory) { return reinterpret_cast<Total*>(memory); }
  static const Total* totals(const std::byte* memory) { return reinterpret_cast<const Total*>(memory); }

  static void empty(std::byte* out, int64_t n) { std::fill_n(reinterpret_cast<Item*>(out), n, Op::empty()); }
  static void begin(std::byte* memory, int64_t n) { std::fill_n(totals(memory), n, Total(Op::identity())); }

  static void run(const std::byte* from, int64_t n, int64_t runs, std::byte* to) {
    if constexpr (is_extremum)
      if (const RowReductions* rows = row_reductions()) {
        for (int64_t r = 0; r < runs; ++r) Op::merge(totals(to)[r], extremum(*rows, items(from) + r * n, n));
        return;
      }
    if constexpr (sums_numbers())
      if (const RowReductions* rows = row_reductions()) {
        for (int64_t r = 0; r < runs; ++r) sum(rows->sums<Item>(), items(from) + r * n, n, totals(to)[r]);
        return;
      }
    for (int64_t r = 0; r < runs; ++r) run(items(from) + r * n, n, totals(to)[r]);
  }
  template <class Sums>
  static void sum(const Sums& sums, const Item* x, int64_t n, Total& total) {
    const int64_t most = std::is_integral_v<Item> ? n : items_per_block;
    for (; n > 0; x += most, n -= most) Op::merge(total, sums.of_row(x, std::min(n, most)));
  }
  static Item extremum(const RowReductions& rows, const Item* x, int64_t n) {
    const auto& loops = rows.of<Item>();
    const auto [value, has_nan] = (Op::maximum ? loops.greatest : loops.least)(x, n);
    if (!has_nan) return value;
    const bool no_number = value == Op::empty() && std::all_of(x, x + n, [](Item y) { return y != y; });
    return Op::propagate || no_number ? std::numeric_limits<Item>::quiet_NaN() : value;
  }
  static void run(const Item* in, int64_t n, Total& total) {
    constexpr int64_t lanes = 16;
    while (n > 0) {
      const int64_t m = std::min(n, items_per_block);
      if constexpr (in_vectors) {
        float block = Op::identity();
        float_functions().reduce(Op::vector_kind)(&block, in, m);
        Op::merge(total, block);
      } else if constexpr (sums_halves()) {
        float block = 0;
        float_functions().sum_halves(&block, in, widened_from, m);
        Op::merge(total, block);
      } else if constexpr (widened) {
        alignas(64) float wide[items_per_block];
        const void* halves = in;
        cast_function(widened_from, DType::float32)(wide, &halves, m);
        float block = Op::identity();
        float_functions().reduce(Op::vector_kind)(&block, wide, m);
        Op::merge(total, block);
      } else {
        alignas(64) Block lane[lanes];
        std::fill(lane, lane + lanes, Op::identity());
        int64_t i = 0;
        for (; i + lanes <= m; i += lanes)
#pragma omp simd
          for (int64_t l = 0; l < lanes; ++l) Op::add(lane[l], in[i + l]);
        for (; i < m; ++i) Op::add(lane[0], in[i]);
        for (const Block& value : lane) Op::merge(total, value);
      }
      in += m, n -= m;
    }
  }

  // Reduce columns with vectorized loops. Return false if this processor or this operation has none.
  static bool columns(const Item* in, int64_t stride, int64_t n, int64_t width, Block* block) {
    if constexpr (sums_numbers())
      if (const RowReductions* rows = row_reductions()) {
        rows->sums<Item>().add_columns(in, stride, n, width, block);
        return true;
      }
    if constexpr (is_extremum)
      if (const RowReductions* rows = row_reductions()) {
        const auto& loops = rows->of<Item>();
        (Op::maximum ? loops.greatest_of_columns : loops.least_of_columns)(in, stride, n, width, Op::propagate, block);
        return true;
      }
    return false;
  }
  static void rows(const std::byte* from, int64_t stride, int64_t n, int64_t width, std::byte* to) {
    const Item* in = items(from);
    alignas(64) Block block[ReducePlan::tile];
    std::fill(block, block + width, Op::identity());
    if constexpr (in_vectors) {
      float_functions().combine(Op::vector_kind)(block, in, stride, n, width);
    } else if constexpr (widened) {
      const TileFunction widen = cast_function(widened_from, DType::float32);
      const CombineFunction combine = float_functions().combine(Op::vector_kind);
      alignas(64) float wide[turned_elements];
      // Widen all rows at once, including the gaps between them, if they fit in `wide`; otherwise, widen one row at a
      // time.
      const int64_t together = n * stride <= turned_elements ? n : 1;
      for (int64_t r = 0; r < n; r += together) {
        const void* halves = in + r * stride;
        widen(wide, &halves, (together - 1) * stride + width);
        combine(block, wide, stride, together, width);
      }
    } else if (!columns(in, stride, n, width, block)) {
      for (int64_t r = 0; r < n; ++r, in += stride)
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) Op::add(block[i], in[i]);
    }
    Total* total = totals(to);
    for (int64_t i = 0; i < width; ++i) Op::merge(total[i], block[i]);
  }

  // Reduce columns directly into the results. There is only one block per column, so no separate totals are needed.
  static void whole(const std::byte* from, int64_t stride, int64_t n, int64_t width, std::byte* to) {
    if constexpr (in_vectors) {
      float* out = reinterpret_cast<float*>(to);
      std::fill_n(out, width, Op::identity());
      float_functions().combine(Op::vector_kind)(out, items(from), stride, n, width);
    }
    if constexpr (!in_vectors && totals_are_results()) {
      Item* out = reinterpret_cast<Item*>(to);
      std::fill_n(out, width, Op::identity());
      if (columns(items(from), stride, n, width, out)) return;
      for (int64_t r = 0; r < n; ++r)
        for (int64_t i = 0; i < width; ++i) Op::add(out[i], items(from)[r * stride + i]);
    }
  }

  static void merge(std::byte* memory, const std::byte* more, int64_t n) {
    for (int64_t i = 0; i < n; ++i) Op::merge(totals(memory)[i], totals(more)[i]);
  }

  // Convert totals to results. For half precision, a tile function does the rounding.
  static void store(const std::byte* memory, int64_t n, std::byte* to) {
    const Total* total = totals(memory);
    Item* out = reinterpret_cast<Item*>(to);
    if constexpr (widened) {
      float wide[ReducePlan::tile];
      const void* from = wide;
      const TileFunction round = cast_function(DType::float32, widened_from);
      for (int64_t begin = 0; begin < n; begin += ReducePlan::tile) {
        const int64_t count = std::min(ReducePlan::tile, n - begin);
        for (int64_t i = 0; i < count; ++i) wide[i] = Op::value(total[begin + i]);
        round(out + begin, &from, count);
      }
    } else {
      for (int64_t i = 0; i < n; ++i) out[i] = Op::result(total[i]);
    }
  }
};
template <class Op, class L = LoopsOf<Op>>
constexpr ReduceLoops reduce_loops = {
    sizeof(typename Op::Item),
    sizeof(typename Op::Total),
    L::empty,
    L::begin,
    L::run,
    L::rows,
    L::in_vectors || L::totals_are_results() ? L::whole : nullptr,
    L::merge,
    L::store,
};

std::unique_ptr<Kernel> reduction_kernel(Lowering& lowering, const ReduceLoops& loops) {
  const Operand in = lowering.input(0), out = lowering.output();
  const ReducePlan plan = plan_of(lowering, in.dims);
  const size_t bytes = plan.scratch_bytes(loops.total_bytes);
  const Slot scratch = bytes ? lowering.scratch(bytes) : -1;
  return kernel([plan, loops, x = in.slot, y = out.slot, scratch](Frame& f) {
    reduce(plan, loops, f.pointers[x], f.pointers[y], scratch < 0 ? nullptr : f.pointers[scratch]);
  });
}

template <template <class> class Op>
std::unique_ptr<Kernel> lower_number(Lowering& lowering) {
  return reduction_kernel(lowering, dispatch_number(lowering, lowering.input(0).dtype, [](auto type) {
                            return reduce_loops<Op<typename decltype(type)::type>>;
                          }));
}

template <template <class> class Op>
std::unique_ptr<Kernel> lower_algebraic(Lowering& lowering) {
  return reduction_kernel(lowering, dispatch_algebraic(lowering, lowering.input(0).dtype, [](auto type) {
                            return reduce_loops<Op<typename decltype(type)::type>>;
                          }));
}

template <template <class> class Op>
std::unique_ptr<Kernel> lower_logical(Lowering& lowering) {
  const DType dtype = lowering.input(0).dtype;
  if (dtype == DType::boolean) return reduction_kernel(lowering, reduce_loops<Op<bool>>);
  if (!is_integer(dtype)) unsupported(lowering, dtype);
  return reduction_kernel(lowering, dispatch_size(size_of(dtype), [](auto type) {
                            using T = typename decltype(type)::type;
                            return reduce_loops<Op<std::conditional_t<std::is_same_v<T, Item16>, uint64_t, T>>>;
                          }));
}

// The extrema of adjacent columns and their positions. Rows are processed in order, and the first occurrence wins.
template <class T>
struct ArgExtrema {
  using V = Value<T>;
  static constexpr int64_t tile = 256;

  // Add row r. Rows must be added in order, starting from row 0.
  void add(const Order<T>& order, const T* row, int64_t width, int32_t r) {
    const Order<T> turn = order;
    if (r == 0) {
      for (int64_t i = 0; i < width; ++i) best[i] = turn.turned(row[i]), index[i] = 0;
      return;
    }
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const V x = turn.turned(row[i]);
      bool better = x > best[i];
      if constexpr (is_float_type<T>) better |= (x != x) & (best[i] == best[i]);
      best[i] = better ? x : best[i];
      index[i] = better ? r : index[i];
    }
  }

  V best[tile];
  int32_t index[tile];
};

// Compute argmin or argmax of adjacent columns.
template <class T>
void arg_extremum(const Order<T>& order, const T* in, int32_t* out, const AxisSplit& s) {
  constexpr int64_t tile = ArgExtrema<T>::tile;
  const int64_t tiles = (s.inner + tile - 1) / tile;
  parallel_for(s.outer * tiles, grain_for(s.n * std::min(s.inner, tile)), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t outer = unit / tiles, column = unit % tiles * tile, width = std::min(tile, s.inner - column);
      const T* rows = in + outer * s.n * s.inner + column;
      ArgExtrema<T> extrema;
      for (int64_t r = 0; r < s.n; ++r) extrema.add(order, rows + r * s.inner, width, static_cast<int32_t>(r));
      std::copy_n(extrema.index, width, out + outer * s.inner + column);
    }
  });
}

// Compute argmin or argmax of short contiguous rows, which are transposed a few at a time.
template <class T>
void arg_extremum_of_short_rows(const Order<T>& order, const T* in, int32_t* out, int64_t rows, int64_t n) {
  const int64_t most = std::min(turned_rows(n), ArgExtrema<T>::tile), tiles = (rows + most - 1) / most;
  parallel_for(tiles, grain_for(most * n), [&](int64_t begin, int64_t end) {
    T turned[turned_elements];
    for (int64_t first = begin * most, last = std::min(rows, end * most); first < last; first += most) {
      const int64_t count = std::min(most, last - first);
      turn_rows(in + first * n, n, count, n, turned, most);
      ArgExtrema<T> extrema;
      for (int64_t i = 0; i < n; ++i) extrema.add(order, turned + i * most, count, static_cast<int32_t>(i));
      std::copy_n(extrema.index, count, out + first);
    }
  });
}

// Compute argmin or argmax of long rows in interleaved lanes. The last elements of a row do not always fill all lanes.
template <class T>
void arg_extremum_of_long_rows(const Order<T>& order, const T* in, int32_t* out, int64_t rows, int64_t n) {
  using V = Value<T>;
  constexpr int64_t lanes = 32;
  parallel_for(rows, grain_for(n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* x = in + row * n;
      ArgExtrema<T> extrema;
      for (int64_t i = 0; i * lanes < n; ++i)
        extrema.add(order, x + i * lanes, std::min(lanes, n - i * lanes), static_cast<int32_t>(i));
      V best = extrema.best[0];
      int64_t place = extrema.index[0] * lanes;
      for (int64_t l = 1; l < std::min(lanes, n); ++l) {
        const int64_t at = extrema.index[l] * lanes + l;
        const V y = extrema.best[l];
        const bool nan = y != y, best_nan = best != best;
        const bool equal = nan || best_nan ? nan && best_nan : y == best;
        if (equal ? at < place : nan || (!best_nan && y > best)) best = y, place = at;
      }
      out[row] = static_cast<int32_t>(place);
    }
  });
}

template <class T>
void arg_extremum_of_all(DType dtype, bool opposite, const AxisSplit& s, bool of_rows, const std::byte* in,
                         int32_t* out) {
  const Order<T> order(dtype, opposite);
  const T* x = reinterpret_cast<const T*>(in);
  if (!of_rows)
    arg_extremum<T>(order, x, out, s);
  else if (is_short_row(s.n, sizeof(T)))
    arg_extremum_of_short_rows<T>(order, x, out, s.outer, s.n);
  else
    arg_extremum_of_long_rows<T>(order, x, out, s.outer, s.n);
}

// Compute argmin or argmax of long rows: find the extremum with vectors, and then its first position. NaN counts as the
// extremum.
template <class T, bool maximum>
std::unique_ptr<Kernel> arg_extremum_of_rows(const RowReductions& extrema, const AxisSplit& s, Slot in, Slot out) {
  return kernel([loops = extrema.of<T>(), s, in, out](Frame& f) {
    parallel_for(s.outer, grain_for(s.n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* x = f.at<const T>(in) + row * s.n;
        const auto [value, has_nan] = (maximum ? loops.greatest : loops.least)(x, s.n);
        const int64_t place =
            has_nan ? std::find_if(x, x + s.n, [](T y) { return y != y; }) - x : loops.first(x, s.n, value);
        f.at<int32_t>(out)[row] = static_cast<int32_t>(place);
      }
    });
  });
}

template <bool maximum>
std::unique_ptr<Kernel> lower_arg(Lowering& lowering) {
  const Operand in = lowering.input(0), out = lowering.output();
  // Converting float16 element by element during the search costs more than converting it in a separate pass. This does
  // not hold for bfloat16.
  if (in.dtype == DType::float16) return widened_kernel(lowering, in.dtype, DType::float32, lower_arg<maximum>);
  const AxisSplit split(in.dims, lowering.attributes().integer("axis"));
  if (split.n == 0 && out.elements() > 0)
    throw ShapeError(cat("[", lowering.operation().kind(), "] the axis must have at least one element, got shape ",
                         to_string(in.dims), lowering.operation().where()));
  const bool of_rows = split.inner == 1 && !lowering.reference_only();
  const RowReductions* extrema = row_reductions();
  if (extrema && of_rows && !is_short_row(split.n, size_of(in.dtype))) switch (in.dtype) {
      case DType::float32: return arg_extremum_of_rows<float, maximum>(*extrema, split, in.slot, out.slot);
      case DType::float64: return arg_extremum_of_rows<double, maximum>(*extrema, split, in.slot, out.slot);
      case DType::int32: return arg_extremum_of_rows<int32_t, maximum>(*extrema, split, in.slot, out.slot);
      case DType::int64: return arg_extremum_of_rows<int64_t, maximum>(*extrema, split, in.slot, out.slot);
      default: break;
    }
  const auto run = dispatch_order(lowering, in.dtype, [](auto type) {
    using T = typename decltype(type)::type;
    return arg_extremum_of_all<std::conditional_t<std::is_same_v<T, Half>, float, T>>;
  });
  return kernel([run, dtype = in.dtype, split, of_rows, in = in.slot, out = out.slot](Frame& f) {
    run(dtype, !maximum, split, of_rows, f.at<std::byte>(in), f.at<int32_t>(out));
  });
}

}  // namespace

const Kernels reduction_kernels("reduction", [] {
  define_kernel("reduction_sum", lower_algebraic<Sum>);
  define_kernel("reduction_product", lower_algebraic<Product>);
  define_kernel("reduction_maximum", lower_number<Maximum>);
  define_kernel("reduction_minimum", lower_number<Minimum>);
  define_kernel("reduction_maximum_propagate_nan", lower_number<MaximumPropagateNan>);
  define_kernel("reduction_minimum_propagate_nan", lower_number<MinimumPropagateNan>);
  define_kernel("reduction_and", lower_logical<And>);
  define_kernel("reduction_or", lower_logical<Or>);
  define_kernel("reduction_arg_maximum", lower_arg<true>);
  define_kernel("reduction_arg_minimum", lower_arg<false>);
});

}  // namespace mpsgraph::cpu
