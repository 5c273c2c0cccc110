// Determines which reductions can end a fused element-wise kernel, and how they traverse memory.
//
// A fused kernel computes its elements in row-major order. A reduction of these elements is cheap if it reduces all
// elements, whole rows, or whole columns.
#pragma once

#include <optional>
#include <vector>

#include "mpsgraph/core/graph.h"

namespace mpsgraph::compiler {

enum class ReductionShape : uint8_t { none, all, rows, columns };

inline bool is_reduction(const Operation& operation) {
  return operation.is({"reduction_sum", "reduction_product", "reduction_maximum", "reduction_minimum",
                       "reduction_maximum_propagate_nan", "reduction_minimum_propagate_nan"});
}

inline std::vector<bool> reduced_axes(const Operation& reduction) {
  const int rank = reduction.input(0)->type.shape.rank();
  const Ints& axes = reduction.attributes.integers("axes");
  std::vector<bool> reduced(rank, axes.empty());
  for (int64_t axis : axes) reduced[axis < 0 ? axis + rank : axis] = true;
  return reduced;
}

// Which axes a reduction covers, ignoring axes of size 1: `all` if every axis is reduced, `rows` if the kept axes come
// before the reduced axes, and `columns` if the reduced axes come first. nullopt if every axis is kept, or if kept and
// reduced axes alternate more than once.
inline std::optional<ReductionShape> reduction_shape(const Dims& dims, const std::vector<bool>& reduced) {
  std::vector<bool> runs;
  for (size_t i = 0; i < dims.size(); i++)
    if (dims[i] != 1 && (runs.empty() || runs.back() != reduced[i])) runs.push_back(reduced[i]);
  if (runs.empty() || (runs.size() == 1 && runs[0])) return ReductionShape::all;
  if (runs.size() == 2) return runs[0] ? ReductionShape::columns : ReductionShape::rows;
  return std::nullopt;
}

// Whether a reduction can end a fused element-wise kernel. The dtype must be float32, which is the dtype of the partial
// results. There must be few enough columns for the partial sums to stay in cache, and enough rows to keep all threads
// busy.
inline bool can_end_region(const Operation& reduction) {
  if (!is_reduction(reduction) || reduction.output()->type.dtype != DType::float32) return false;
  const Dims& dims = reduction.input(0)->type.shape.dims();
  if (element_count(dims) == 0) return false;
  const auto shape = reduction_shape(dims, reduced_axes(reduction));
  if (!shape) return false;
  const int64_t results = element_count(reduction.output()->type.shape.dims());
  if (*shape == ReductionShape::columns) return results <= 16384 && results <= element_count(dims) / 8;
  return *shape == ReductionShape::all || results >= 4;
}

}  // namespace mpsgraph::compiler
