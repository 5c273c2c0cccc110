// ReducePlan and the engine of all reductions: sums, extrema, products over any axes.
//
// Axes are collapsed to outer kept axes, outer reduced axes and one innermost axis, which is either
// kept (columns) or reduced (a run). How the work is cut depends on sizes alone, never on the number
// of threads, and float sums are blocked and totalled in double: results are accurate and repeatable.
// The engine knows no types: what an operation does to elements of one is a few small loops (ReduceLoops).
#pragma once

#include <cstddef>
#include <vector>

#include "backends/cpu/kernel.h"
#include "backends/cpu/reduction/short_rows.h"

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

// Of one operation and type of items. A total is what partial results are kept in.
struct ReduceLoops {
  static constexpr int64_t most_rows = 64;
  static constexpr size_t most_bytes = 16;  // of an item, and of a total

  size_t item_bytes, total_bytes;
  void (*empty)(std::byte* out, int64_t n);  // results of no items
  void (*begin)(std::byte* totals, int64_t n);
  // `runs` of n items, all side by side, each run into its total.
  void (*run)(const std::byte* in, int64_t n, int64_t runs, std::byte* totals);
  // At most `most_rows` rows of `width` items, `stride` items apart, each column into its total; width <= plan.tile.
  void (*rows)(const std::byte* in, int64_t stride, int64_t rows, int64_t width, std::byte* totals);
  // The same where these are all of a column's items, straight to the results, which are the same; or null.
  void (*whole)(const std::byte* in, int64_t stride, int64_t rows, int64_t width, std::byte* out);
  void (*merge)(std::byte* totals, const std::byte* more, int64_t n);
  void (*store)(const std::byte* totals, int64_t n, std::byte* out);  // as results
};

// `scratch`: plan.scratch_bytes(loops.total_bytes).
void reduce(const ReducePlan& plan, const ReduceLoops& loops, const std::byte* in, std::byte* out, std::byte* scratch);

}  // namespace mpsgraph::cpu
