// ReducePlan and the engine of all reductions: sums, products, minima, and maxima over any axes.
//
// Axes are collapsed into outer kept axes, outer reduced axes, and one innermost axis, which is either kept (columns)
// or reduced (a run). The partition of the work depends only on sizes, never on the number of threads. Float sums are
// computed in blocks with totals in double, so results are accurate and reproducible. The engine does not depend on
// types; a few small loops (ReduceLoops) implement an operation for one type.
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
  // Return the size in bytes of the partial totals, which exist if the reduction is split into chunks.
  size_t scratch_bytes(size_t total) const { return chunks > 1 ? static_cast<size_t>(chunks * outputs) * total : 0; }

  // kept_offset returns the input position of the first item that contributes to a row of outputs. reduced_offset
  // returns the distance from that item to the one at the given flattened index over the outer reduced axes.
  int64_t kept_offset(int64_t row) const;
  int64_t reduced_offset(int64_t index) const;

  static constexpr int64_t tile = most_turned_rows;  // maximum number of columns accumulated together
  int64_t outputs = 1, reduced_count = 1;
  Dims kept, kept_strides, reduced, reduced_strides;
  int64_t columns = 1, run = 1, column_tiles = 1, chunks = 1;
};

// The loops of one operation for one item type. A total is a partial result.
struct ReduceLoops {
  static constexpr int64_t most_rows = 64;
  static constexpr size_t most_bytes = 16;  // maximum size of an item and of a total

  size_t item_bytes, total_bytes;
  void (*empty)(std::byte* out, int64_t n);  // writes the results of reductions over no items
  void (*begin)(std::byte* totals, int64_t n);
  // Reduce `runs` contiguous runs of n items each, each into its own total.
  void (*run)(const std::byte* in, int64_t n, int64_t runs, std::byte* totals);
  // Reduce up to `most_rows` rows of `width` items each, `stride` items apart: each column into a separate total.
  // `width` must be at most plan.tile.
  void (*rows)(const std::byte* in, int64_t stride, int64_t rows, int64_t width, std::byte* totals);
  // Like rows(), but write results instead of totals. The rows must contain all items of the columns. Null unless the
  // loop is vectorized, or totals have the same types and values as results.
  void (*whole)(const std::byte* in, int64_t stride, int64_t rows, int64_t width, std::byte* out);
  void (*merge)(std::byte* totals, const std::byte* more, int64_t n);
  void (*store)(const std::byte* totals, int64_t n, std::byte* out);  // converts totals to results
};

// Run a reduction; `scratch` must have plan.scratch_bytes(loops.total_bytes) bytes.
void reduce(const ReducePlan& plan, const ReduceLoops& loops, const std::byte* in, std::byte* out, std::byte* scratch);

}  // namespace mpsgraph::cpu
