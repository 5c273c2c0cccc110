// Operation family matrix_inverse: the inverses of square matrices, batched over the leading axes.
//
// A singular matrix is not an error; its inverse contains infinities or NaN.
#include "core/ops/primitive.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

std::vector<TensorType> infer_matrix_inverse(const InferContext& c) {
  c.require_float(0);
  const Shape& source = c.shape(0);
  if (!source.ranked()) return {c.type(0)};
  if (source.rank() < 2) c.shape_error(cat("source must have rank 2 or more, got ", source));
  Dims dims = source.dims();
  int64_t &rows = dims[dims.size() - 2], &columns = dims[dims.size() - 1];
  if (rows >= 0 && columns >= 0 && rows != columns)
    c.shape_error(cat("source must hold square matrices, got ", source));
  rows = columns = std::max(rows, columns);
  return {{c.dtype(0), Shape(dims)}};
}

// Differential of the inverse Y of X: dY = -Y dX Y.
void d_matrix_inverse(GradientContext& g) {
  Builder b(g.graph());
  Tensor* turned = b.swap_last_axes(g.output());
  g.set(0, b.neg(b.matmul(b.matmul(turned, g.incoming()), turned)));
}

}  // namespace

const Family matrix_inverse_family("matrix_inverse", [] {
  define(primitive("matrix_inverse", 1, {}, infer_matrix_inverse, d_matrix_inverse));

  describe("matrix_inverse", "x", DTypeClass::floats, R"(
Invert square matrices, batched over the leading axes.

result @ x = x @ result = identity matrix.

Args:
    x: Floating-point tensor of shape (..., n, n).
Returns: A tensor with the shape and dtype of x. The result for a singular matrix contains infinities or NaN.
Raises:
    ShapeError: If the last two axes of x are not square.
    DTypeError: If x is not floating-point.
Gradient: -result^T @ incoming gradient @ result^T.
Source: MPSGraph inverseOfTensor:name:.
>>> g.run({}, g.matrix_inverse(g.constant([[2.0, 0.0], [0.0, 4.0]]))).tolist()
[[0.5, 0.0], [0.0, 0.25]])");
});

}  // namespace mpsgraph::ops
