// Rotary embedding, which rotates pairs of elements of each row by angles. The compiler's pass fuse creates this
// operation. c and s hold the cosines and sines of the angles. With each row of x split into two halves, x = (a, b):
//
//   y = rotary_embedding(x, c, s)                        x c + (-b, a) s
//   its inverse, which is also its gradient              x c + (b', -a'), with (a', b') = x s
//
// c and s are broadcast over the leading axes. The axes of x and the axes of c and s are each permuted by their own
// permutation, which keeps the last axis in place. Su et al., "RoFormer", arXiv:2104.09864.
#include "core/definition.h"

namespace mpsgraph::ops {
namespace {

std::vector<TensorType> infer_rotary_embedding(const InferContext& c) {
  const Ints& permutation = c.attributes.integers("permutation");
  const Shape& source = c.shape(0);
  const auto rank = static_cast<size_t>(source.rank());
  if (rank == 0 || permutation.size() != rank || c.attributes.integers("angle_permutation").size() != rank)
    c.shape_error(cat("permutation and angle_permutation must have one entry per axis of the source ", source, ", got ",
                      to_string(permutation), " and ", to_string(c.attributes.integers("angle_permutation"))));
  if (source[source.rank() - 1] % 2 != 0)
    c.shape_error(cat("the last axis of the source must have even size, got ", source));
  Dims dims(rank);
  for (size_t i = 0; i < rank; ++i) dims[i] = source[static_cast<int>(permutation[i])];
  return {{c.dtype(0), Shape(dims)}};
}

}  // namespace

const Family fused_rotary_embedding_family("fused", [] {
  OperationDefinition d;
  d.name = "rotary_embedding";
  d.min_inputs = d.max_inputs = 3;
  d.attributes = {required("permutation", AttributeKind::integers),
                  required("angle_permutation", AttributeKind::integers), optional("inverse", false)};
  d.infer = infer_rotary_embedding;
  d.internal = true;
  define(std::move(d));
});

}  // namespace mpsgraph::ops
