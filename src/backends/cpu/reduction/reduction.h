// ReducePlan and the engine of all reductions: sums, extrema, products over any axes.
//
// Axes are collapsed to outer kept axes, outer reduced axes and one innermost axis, which is either
// kept (columns) or reduced (a run). How the work is cut depends on sizes alone, never on the number
// of threads, and float sums are blocked and totalled in double: results are accurate and repeatable.
#pragma once

#include <algorithm>
#include <vector>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/reduction/short_rows.h"
#include "backends/cpu/stitched/tile_functions.h"

namespace mpsgraph::cpu {

struct ReducePlan {
  ReducePlan(const Dims& dims, const std::vector<bool>& is_reduced);
  bool empty() const { return outputs == 0 || reduced_count == 0; }
  // Each output is the reduction of a row that lies at a stretch.
  bool is_rows() const { return chunks == 1 && run > 1 && reduced.empty() && kept.size() <= 1; }
  // Of totals, when the reduction is cut into chunks.
  size_t scratch_bytes(size_t total) const { return chunks > 1 ? static_cast<size_t>(chunks * outputs) * total : 0; }

  // Where a row of outputs begins in the source, and how much further a position of the reduced axes but the last run.
  int64_t kept_offset(int64_t row) const;
  int64_t reduced_offset(int64_t index) const;

  static constexpr int64_t tile = most_turned_rows;  // columns that are accumulated together
  int64_t outputs = 1, reduced_count = 1;
  Dims kept, kept_strides, reduced, reduced_strides;
  int64_t columns = 1, run = 1, column_tiles = 1, chunks = 1;
};

// What an operation brings: Item (in memory), Total (what partial results are kept in), Block (what the
// inner loops keep), identity(), empty(), add(block, item), merge(total, block or total), result(total). One that names
// a vector_kind has its inner loops over float32 done by the tile functions, in the widest vectors that are there.
template <class Op>
class Reducer {
 public:
  using Item = typename Op::Item;
  using Block = typename Op::Block;
  using Total = typename Op::Total;
  static constexpr bool in_vectors = std::is_same_v<Item, float> && requires { Op::vector_kind; };
  static constexpr bool widened = is_half_type<Item> && requires { Op::vector_kind; };  // to float32, a tile at a time
  static constexpr DType widened_from = std::is_same_v<Item, Half> ? DType::float16 : DType::bfloat16;

  static consteval bool sums_halves() {
    if constexpr (widened) return Op::vector_kind == Reduction::sum;
    return false;
  }

  static void run(const ReducePlan& plan, const Item* in, Item* out, Total* scratch) {
    if (plan.reduced_count == 0) return std::fill(out, out + plan.outputs, Op::empty());
    if (plan.outputs == 0) return;
    if (plan.is_rows() && plan.run <= short_row) return run_short_rows(plan, in, out);
    if (plan.is_rows()) {
      parallel_for(plan.outputs, grain_for(plan.run), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          Total total(Op::identity());
          reduce_run(in + row * plan.run, plan.run, total);
          out[row] = Op::result(total);
        }
      });
      return;
    }
    const int64_t rows = plan.outputs / plan.columns, units = rows * plan.column_tiles * plan.chunks;
    const int64_t cost = plan.reduced_count / plan.chunks * std::min(plan.columns, plan.tile);
    parallel_for(units, grain_for(cost), [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t chunk = unit % plan.chunks, tile = unit / plan.chunks % plan.column_tiles;
        const int64_t row = unit / plan.chunks / plan.column_tiles, column = tile * plan.tile;
        const int64_t width = std::min(plan.tile, plan.columns - column);
        const int64_t first = plan.reduced_count * chunk / plan.chunks,
                      last = plan.reduced_count * (chunk + 1) / plan.chunks;
        const int64_t at = row * plan.columns + column;
        Total total[ReducePlan::tile];
        std::fill(total, total + width, Total(Op::identity()));
        reduce_unit(plan, in + plan.kept_offset(row) + column, width, first, last, total);
        if (plan.chunks > 1)
          std::copy(total, total + width, scratch + chunk * plan.outputs + at);
        else
          store(total, width, out + at);
      }
    });
    if (plan.chunks == 1) return;
    for (int64_t i = 0; i < plan.outputs; ++i)
      for (int64_t chunk = 1; chunk < plan.chunks; ++chunk) Op::merge(scratch[i], scratch[chunk * plan.outputs + i]);
    store(scratch, plan.outputs, out);
  }

 private:
  // Totals as results. Compiled once for all that have some; the halves are rounded by a tile function.
  [[gnu::noinline]] static void store(const Total* total, int64_t n, Item* out) {
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

  static void run_short_rows(const ReducePlan& plan, const Item* in, Item* out) {
    const int64_t n = plan.run, most = turned_rows(n), tiles = (plan.outputs + most - 1) / most;
    parallel_for(tiles, grain_for(most * n), [&](int64_t begin, int64_t end) {
      using Turned = std::conditional_t<widened, float, Item>;
      Turned turned[turned_elements];
      for (int64_t first = begin * most, last = std::min(plan.outputs, end * most); first < last; first += most) {
        const int64_t count = std::min(most, last - first);
        if constexpr (widened) {
          float wide[turned_elements];
          const void* from = in + first * n;
          cast_function(widened_from, DType::float32)(wide, &from, count * n);
          turn_rows(wide, n, count, n, turned, most);
        } else {
          turn_rows(in + first * n, n, count, n, turned, most);
        }
        Block block[ReducePlan::tile];
        std::fill(std::begin(block), std::end(block), Op::identity());
        if constexpr (in_vectors || widened) {
          float_functions().combine(Op::vector_kind)(block, turned, most, n, count);
        } else {
          for (int64_t i = 0; i < n; ++i)
#pragma omp simd
            for (int64_t r = 0; r < count; ++r) Op::add(block[r], turned[i * most + r]);
        }
        Total total[ReducePlan::tile];
        for (int64_t r = 0; r < count; ++r) {
          total[r] = Total(Op::identity());
          Op::merge(total[r], block[r]);
        }
        store(total, count, out + first);
      }
    });
  }

  // Reduced positions [first, last) of one tile into total[width].
  static void reduce_unit(const ReducePlan& plan, const Item* in, int64_t width, int64_t first, int64_t last,
                          Total* total) {
    if (plan.run > 1) {
      while (first < last) {
        const int64_t skip = first % plan.run, n = std::min(plan.run - skip, last - first);
        reduce_run(in + plan.reduced_offset(first / plan.run) + skip, n, *total);
        first += n;
      }
      return;
    }
    constexpr int64_t rows_per_block = 64;
    const int64_t inner = plan.reduced.empty() ? 1 : plan.reduced.back();
    const int64_t stride = plan.reduced.empty() ? 0 : plan.reduced_strides.back();
    while (first < last) {  // rows of one innermost reduced axis, a block at a time
      const int64_t n = std::min({inner - first % inner, last - first, rows_per_block});
      const Item* rows = in + plan.reduced_offset(first);
      Block block[ReducePlan::tile];
      std::fill(block, block + width, Op::identity());
      if constexpr (in_vectors) {
        float_functions().combine(Op::vector_kind)(block, rows, stride, n, width);
      } else if constexpr (widened) {
        const TileFunction widen = cast_function(widened_from, DType::float32);
        float wide[ReducePlan::tile];
        for (int64_t r = 0; r < n; ++r, rows += stride) {
          const void* in = rows;
          widen(wide, &in, width);
          float_functions().combine(Op::vector_kind)(block, wide, 0, 1, width);
        }
      } else {
        for (int64_t r = 0; r < n; ++r, rows += stride)
#pragma omp simd
          for (int64_t i = 0; i < width; ++i) Op::add(block[i], rows[i]);
      }
      for (int64_t i = 0; i < width; ++i) Op::merge(total[i], block[i]);
      first += n;
    }
  }

  [[gnu::noinline]] static void reduce_run(const Item* in, int64_t n, Total& total) {
    constexpr int64_t lanes = 16, items_per_block = 1024;
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
        float wide[items_per_block];
        const void* from = in;
        cast_function(widened_from, DType::float32)(wide, &from, m);
        float block = Op::identity();
        float_functions().reduce(Op::vector_kind)(&block, wide, m);
        Op::merge(total, block);
      } else {
        Block lane[lanes];
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
};

}  // namespace mpsgraph::cpu
