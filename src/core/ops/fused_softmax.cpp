// Softmax operations created by the compiler's pass fuse: the gradient computed from the softmax result, and
// cross-entropies whose labels are class indices.
//
//   d = softmax_gradient_of_result(g, s)                 s (g - Σ g s)
//   l = class_cross_entropy(x, i)                        softmax_cross_entropy(x, one_hot(i))
//   d = class_cross_entropy_gradient(u, x, i)            the gradient of l with respect to x, times u
//
// A class index that is out of range means that there is no label: the loss and its gradient are 0.
#include "core/definition.h"
#include "core/ops/shape.h"

namespace mpsgraph::ops {
namespace {

void require_classes(const InferContext& c, size_t x) {
  const Shape &shape = c.shape(x), &classes = c.shape(x + 1);
  const int axis = c.axis(c.attributes.integer("axis"), shape.rank());
  if (!is_integer(c.dtype(x + 1)) || classes.elements() * shape[axis] != shape.elements())
    c.shape_error(cat("class indices must be integers, one for each loss computed from logits ", c.type(x), ", got ",
                      c.type(x + 1)));
}

std::vector<TensorType> infer_gradient_of_result(const InferContext& c) {
  if (c.type(0) != c.type(1))
    c.shape_error(cat("incoming gradient must have the type ", c.type(1), " of the result, got ", c.type(0)));
  return {c.type(1)};
}

std::vector<TensorType> infer_class_cross_entropy(const InferContext& c) {
  require_classes(c, 0);
  if (c.attributes.string("reduction") != "none") return {{c.dtype(0), Shape(Dims{})}};
  Dims dims = c.shape(0).dims();
  dims[c.axis(c.attributes.integer("axis"), c.shape(0).rank())] = 1;
  return {{c.dtype(0), Shape(dims)}};
}

std::vector<TensorType> infer_class_cross_entropy_gradient(const InferContext& c) {
  require_classes(c, 1);
  return {c.type(1)};
}

void define_softmax(Kind name, int operands, bool of_loss, Infer infer) {
  OperationDefinition d;
  d.name = name;
  d.min_inputs = d.max_inputs = operands;
  d.attributes = {optional("axis", int64_t{-1})};
  if (of_loss) d.attributes.push_back(optional("reduction", std::string("none")));
  d.infer = std::move(infer);
  d.internal = true;
  define(std::move(d));
}

}  // namespace

const Family fused_softmax_family("fused", [] {
  define_softmax("softmax_gradient_of_result", 2, false, infer_gradient_of_result);
  define_softmax("class_cross_entropy", 2, true, infer_class_cross_entropy);
  define_softmax("class_cross_entropy_gradient", 3, true, infer_class_cross_entropy_gradient);
});

}  // namespace mpsgraph::ops
