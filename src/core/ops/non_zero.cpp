// Family non_zero: where the elements are that are not zero.
//
//   non_zero_indices(x, shape)    row by row the indices of x's elements that are not zero, in row-major order
// The shape states how many there are, which the Python face counts; see Rest in compiler/program.h for how a run
// learns it. Where it states more rows than there are, the others are -1; where fewer, the last ones are left out.
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
