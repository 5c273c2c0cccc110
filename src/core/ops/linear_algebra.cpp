// Operation family linear_algebra: band_part, which keeps a band around the main diagonal of matrices and sets the rest
// to zero.
//
//   result[..., i, j] = x[..., i, j] where i - j <= num_lower and j - i <= num_upper, else 0
//
// If num_lower or num_upper is -1, the whole lower or upper triangle is kept.
#include "core/ops/primitive.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

std::vector<TensorType> infer_band_part(const InferContext& c) {
  if (c.shape(0).ranked() && c.shape(0).rank() < 2)
    c.shape_error(cat("operand must have rank 2 or more, got ", c.shape(0)));
  return {c.type(0)};
}

// band_part is linear and its own transpose.
void d_band_part(GradientContext& g) { g.set(0, g.add_alike("band_part", {g.incoming()}, g.attributes())); }

}  // namespace

const Family linear_algebra_family("linear_algebra", [] {
  OperationDefinition d =
      primitive("band_part", 1, {optional("num_lower", int64_t{-1}), optional("num_upper", int64_t{-1})},
                infer_band_part, d_band_part);
  d.tensor_attributes = {"num_lower", "num_upper"};
  d.infer_unvalued = infer_band_part;
  define(std::move(d));

  describe("band_part", "x, num_lower: required, num_upper: required", DTypeClass::any, R"(
Set the elements of matrices outside a band around the diagonal to zero.

result[..., i, j] = x[..., i, j] where i - j <= num_lower and j - i <= num_upper, and 0 elsewhere.

Args:
    x: Tensor of any dtype and of rank 2 or higher.
    num_lower: Number of diagonals to keep below the main one, an int or an integer tensor; -1 keeps all.
    num_upper: Number of diagonals to keep above the main one, an int or an integer tensor; -1 keeps all.
        band_part(x, -1, 0) is the lower triangle.
Raises:
    ShapeError: If x has a rank below 2.
    DTypeError: If num_lower or num_upper is a tensor that is not integer.
Gradient: band_part of the incoming gradient.
Source: MPSGraph bandPartWithTensor:numLower:numUpper:name: and …numLowerTensor:numUpperTensor:name:.
>>> g.run({}, g.band_part(g.constant([[1, 2, 3], [4, 5, 6], [7, 8, 9]]), 0, 1)).tolist()
[[1, 2, 0], [0, 5, 6], [0, 0, 9]])");
});

}  // namespace mpsgraph::ops
