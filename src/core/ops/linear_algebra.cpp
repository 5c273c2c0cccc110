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
});

}  // namespace mpsgraph::ops
