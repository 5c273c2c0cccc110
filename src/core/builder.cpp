// The operations that Builder's methods compose.
#include "mpsgraph/core/builder.h"

#include <algorithm>
#include <limits>

namespace mpsgraph {

Tensor* Builder::scalar(DType dtype, double value) { return filled({dtype, Shape(Dims{})}, value); }

Tensor* Builder::scalar_like(Tensor* x, double value) { return scalar(x->dtype(), value); }

Tensor* Builder::filled(const TensorType& type, double value) {
  return graph_.add("constant", {}, {{"value", ConstantData::splat(type.dtype, type.shape.dims(), value)}});
}

Tensor* Builder::ints(const Ints& values) {
  return graph_.add("constant", {}, {{"value", ConstantData::of_ints(values)}});
}

Tensor* Builder::filled_like(Tensor* x, double value) {
  if (x->shape().known()) return filled(x->type, value);
  Tensor* shape = shape_of(x);
  return broadcast_to(scalar_like(x, value), shape);
}

Tensor* Builder::zeros_like(Tensor* x) { return x->type.history ? unary("history_empty", x) : filled_like(x, 0); }

Tensor* Builder::ones_like(Tensor* x) { return filled_like(x, 1); }

Tensor* Builder::unary(Kind kind, Tensor* x) { return graph_.add(kind, {x}); }

Tensor* Builder::binary(Kind kind, Tensor* a, Tensor* b) { return graph_.add(kind, {a, b}); }

Tensor* Builder::select(Tensor* predicate, Tensor* when_true, Tensor* when_false) {
  return graph_.add("select", {predicate, when_true, when_false});
}

Tensor* Builder::conjugate(Tensor* x) { return is_complex(x->dtype()) ? unary("conjugate", x) : x; }

Tensor* Builder::cast(Tensor* x, DType dtype) {
  return x->dtype() == dtype ? x : graph_.add("cast", {x}, {{"dtype", dtype}});
}

Tensor* Builder::sum(Tensor* x, const Ints& axes) { return graph_.add("reduction_sum", {x}, {{"axes", axes}}); }

Tensor* Builder::max(Tensor* x, const Ints& axes) { return graph_.add("reduction_maximum", {x}, {{"axes", axes}}); }

Tensor* Builder::mean(Tensor* x, const Ints& axes) { return graph_.add("mean", {x}, {{"axes", axes}}); }

Tensor* Builder::reduced_count(Tensor* x, const Ints& axes) {
  const Shape& shape = x->shape();
  bool known = shape.ranked() && (!axes.empty() || shape.known());
  double count = 1;
  if (known) {
    Ints all(axes);
    if (all.empty()) {
      for (int axis = 0; axis < shape.rank(); ++axis) all.push_back(axis);
    }
    for (int64_t axis : all) {
      const int64_t size = shape[static_cast<int>(axis < 0 ? axis + shape.rank() : axis)];
      known &= size >= 0;
      count *= static_cast<double>(size);
    }
  }
  if (known) return scalar_like(x, count);
  Tensor* sizes = shape_of(x);
  Tensor* product = axes.empty() ? graph_.add("reduction_product", {sizes}, {{"axes", Ints{}}}) : nullptr;
  // expand_dims inserts the axes one at a time, so that negative axes are valid even if the rank of x is unknown.
  for (int64_t axis : axes) {
    if (axis < -max_rank || axis >= max_rank)
      throw ShapeError(cat("axis must be from ", -max_rank, " to ", max_rank - 1, " for any rank, got ", axis));
    Tensor* size = graph_.add(
        "slice", {sizes},
        {{"starts", Ints{axis}}, {"ends", Ints{axis + 1}}, {"strides", Ints{1}}, {"end_mask", int64_t{axis == -1}}});
    product = product ? mul(product, size) : size;
  }
  return cast(reshape(product, Ints{}), x->dtype());
}

Tensor* Builder::shape_of(Tensor* x) {
  const Shape& shape = x->shape();
  constexpr int64_t limit = std::numeric_limits<int32_t>::max();
  // A known shape becomes an int32 constant, because shape_of returns int32. If a dimension does not fit into int32,
  // the constant is int64.
  if (!shape.known()) return graph_.add("shape_of", {x});
  const Dims& dims = shape.dims();
  if (std::any_of(dims.begin(), dims.end(), [](int64_t d) { return d > limit; })) return ints(dims);
  const std::vector<int32_t> narrow(dims.begin(), dims.end());
  return graph_.add(
      "constant", {},
      {{"value", ConstantData::copy(DType::int32, {static_cast<int64_t>(narrow.size())}, narrow.data())}});
}

Tensor* Builder::reshape(Tensor* x, Tensor* shape) { return graph_.add("reshape", {x, shape}); }

Tensor* Builder::reshape(Tensor* x, const Ints& shape) { return reshape(x, ints(shape)); }

Tensor* Builder::reshape_like(Tensor* x, Tensor* like) {
  return same_known_shape(x, like) ? x : reshape(x, shape_of(like));
}

Tensor* Builder::broadcast_to(Tensor* x, Tensor* shape) { return graph_.add("broadcast_to", {x, shape}); }

Tensor* Builder::broadcast_like(Tensor* x, Tensor* like) {
  return same_known_shape(x, like) ? x : broadcast_to(x, shape_of(like));
}

Tensor* Builder::transpose(Tensor* x, const Ints& permutation) {
  return graph_.add("transpose", {x}, {{"permutation", permutation}});
}

Tensor* Builder::sum_to_like(Tensor* x, Tensor* like) {
  return same_known_shape(x, like) ? x : graph_.add("broadcast_gradient", {x, shape_of(like)});
}

Tensor* Builder::matmul(Tensor* a, Tensor* b) { return binary("matrix_multiplication", a, b); }

Tensor* Builder::swap_last_axes(Tensor* x) {
  const int rank = x->shape().ranked() ? x->shape().rank() : 0;
  if (rank < 2)
    throw ShapeError(
        cat("swapping the last two axes requires a known rank of at least 2, got '", x->name(), "' of ", x->type));
  Ints permutation(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) permutation[static_cast<size_t>(i)] = i;
  std::swap(permutation[static_cast<size_t>(rank - 2)], permutation[static_cast<size_t>(rank - 1)]);
  return transpose(x, permutation);
}

bool Builder::same_known_shape(const Tensor* a, const Tensor* b) {
  return a->shape().known() && a->shape() == b->shape();
}

}  // namespace mpsgraph
