// Family matrix_inverse: the inverses of square matrices, batched over the leading axes.
//
// The inverse of a singular matrix has elements that are infinite or no numbers; a run does not stop for data.
#include "core/ops/primitive.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

std::vector<TensorType> infer_matrix_inverse(const InferContext& c) {
  c.require_float(0);
  const Shape& source = c.shape(0);
  if (!source.ranked()) return {c.type(0)};
  if (source.rank() < 2) c.shape_error(cat("needs matrices, of rank 2 or more, came ", source));
  Dims dims = source.dims();
  int64_t &rows = dims[dims.size() - 2], &columns = dims[dims.size() - 1];
  if (rows >= 0 && columns >= 0 && rows != columns) c.shape_error(cat("matrices must be square, came ", source));
  rows = columns = std::max(rows, columns);
  return {{c.dtype(0), Shape(dims)}};
}

// With Y the inverse, dY = -Y dX Y.
void d_matrix_inverse(GradientContext& g) {
  Builder b(g.graph());
  Tensor* turned = b.swap_last_axes(g.output());
  g.set(0, b.neg(b.matmul(b.matmul(turned, g.incoming()), turned)));
}

}  // namespace

const Family matrix_inverse_family("matrix_inverse", [] {
  define(primitive("matrix_inverse", 1, {}, infer_matrix_inverse, d_matrix_inverse));
});

}  // namespace mpsgraph::ops
