// Operation family non_zero: the positions of nonzero elements.
//
//   non_zero_indices(x, shape)    the indices of x's nonzero elements in row-major order, one per row
//
// The operand `shape` specifies the number of rows, which the Python interface computes by counting the nonzero
// elements; `Rest` in compiler/program.h explains how a run obtains that number. Surplus rows are filled with -1; if
// there are too few rows, the last indices are omitted.
#include "core/ops/indices.h"
#include "core/ops/primitive.h"
#include "core/ops/shape.h"

namespace mpsgraph::ops {
namespace {

std::vector<TensorType> infer_non_zero_indices(const InferContext& c) {
  for (int axis = 0; c.shape(0).ranked() && axis < c.shape(0).rank(); ++axis) require_countable(c, c.shape(0), axis);
  const Shape implied{-1, c.shape(0).ranked() ? c.shape(0).rank() : -1};
  return {{DType::int32, stated_shape(c, 1, implied)}};
}

}  // namespace

const Family non_zero_family("non_zero", [] {
  OperationDefinition d = primitive("non_zero_indices", 2, {}, infer_non_zero_indices, nullptr);
  d.gradient_is_zero = true;
  define(std::move(d));
});

}  // namespace mpsgraph::ops
