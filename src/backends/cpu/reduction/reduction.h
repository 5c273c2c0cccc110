// ReducePlan and the engine of all reductions: sums, products, minima, and maxima over any axes.
//
// Axes are collapsed into outer kept axes, outer reduced axes, and one innermost axis, which is either kept (columns)
// or reduced (a run). The partition of the work depends only on sizes, never on the number of threads, and float sums
// are computed in blocks with totals in double, so results are accurate and reproducible. The engine does not depend on
// types: what an operation does to elements is a few small loops (ReduceLoops).
#pragma once

#include <cstddef>
#include <vector>

#include "backends/cpu/kernel.h"
#include "backends/cpu/reduction/short_rows.h"

namespace mpsgraph::cpu {

struct ReducePlan {
  ReducePlan(const Dims& dims, const std::vector<bool>& is_reduced);
  bool empty() const { return outputs == 0 || reduced_count == 0; }
  // Return whether each output is the reduction of one contiguous row.
  bool is_rows() const { return chunks == 1 && run > 1 && reduced.empty() && kept.size() <= 1; }
  // Size of the partial totals, if the reduction is split into chunks.
  size_t scratch_bytes(size_t total) const { return chunks > 1 ? static_cast<size_t>(chunks * outputs) * total : 0; }

  // Offset in the source of a row of outputs, and of an index over the reduced axes, excluding the innermost run.
  int64_t kept_offset(int64_t row) const;
  int64_t reduced_offset(int64_t index) const;

  static constexpr int64_t tile = most_turned_rows;  // columns accumulated together
  int64_t outputs = 1, reduced_count = 1;
  Dims kept, kept_strides, reduced, reduced_strides;
  int64_t columns = 1, run = 1, column_tiles = 1, chunks = 1;
};

// The loops of one operation on one item type. Totals are partial results.
struct ReduceLoops {
  static constexpr int64_t most_rows = 64;
  static constexpr size_t most_bytes = 16;  // per item and per total

  size_t item_bytes, total_bytes;
  void (*empty)(std::byte* out, int64_t n);  // results over no items
  void (*begin)(std::byte* totals, int64_t n);
  // Reduce `runs` contiguous runs of n items each, each into its own total.
  void (*run)(const std::byte* in, int64_t n, int64_t runs, std::byte* totals);
  // Reduce up to `most_rows` rows of `width` items, `stride` items apart, each column into its own total; width <=
  // plan.tile.
  void (*rows)(const std::byte* in, int64_t stride, int64_t rows, int64_t width, std::byte* totals);
  // Like rows(), if these are all items of the columns, but write the results directly; null if totals and results
  // differ.
  void (*whole)(const std::byte* in, int64_t stride, int64_t rows, int64_t width, std::byte* out);
  void (*merge)(std::byte* totals, const std::byte* more, int64_t n);
  void (*store)(const std::byte* totals, int64_t n, std::byte* out);  // converts totals to results
};

// Run a reduction; `scratch` must have plan.scratch_bytes(loops.total_bytes) bytes.
void reduce(const ReducePlan& plan, const ReduceLoops& loops, const std::byte* in, std::byte* out, std::byte* scratch);

}  // namespace mpsgraph::cpu
