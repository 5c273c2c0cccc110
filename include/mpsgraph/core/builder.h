// Builder: short functions for the operations that gradient rules, decompositions, and compiler passes add.
//
// Each function calls Graph::add with the attributes filled in. Numbers become constants with the dtype of the other
// operand. The builder is independent of gradient rules and kernels.
#pragma once

#include <string_view>
#include <vector>

#include "mpsgraph/core/graph.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

// Adds operations to a graph, with one function per common operation.
class MPSGRAPH_API Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}
  Graph& graph() const { return graph_; }

  // ---- constants ----
  Tensor* scalar(DType dtype, double value);            // rank 0
  Tensor* scalar_like(Tensor* x, double value);         // rank 0, with x's dtype
  Tensor* filled(const TensorType& type, double value); // the shape must be static
  Tensor* ints(const Ints& values);                     // int64[n], for shape operands
  // Return a filled constant, or a broadcast to shape_of(x) if the shape is dynamic.
  Tensor* zeros_like(Tensor* x);
  Tensor* ones_like(Tensor* x);
  Tensor* filled_like(Tensor* x, double value);

  // ---- element-wise operations ----
  Tensor* unary(Kind kind, Tensor* x);
  Tensor* binary(Kind kind, Tensor* a, Tensor* b);
  Tensor* add(Tensor* a, Tensor* b) { return binary(a->type.history ? Kind("history_addition") : "addition", a, b); }
  Tensor* sub(Tensor* a, Tensor* b) { return binary("subtraction", a, b); }
  Tensor* mul(Tensor* a, Tensor* b) { return binary("multiplication", a, b); }
  Tensor* div(Tensor* a, Tensor* b) { return binary("division", a, b); }
  Tensor* add(Tensor* a, double b) { return add(a, scalar_like(a, b)); }
  Tensor* sub(Tensor* a, double b) { return sub(a, scalar_like(a, b)); }
  Tensor* mul(Tensor* a, double b) { return mul(a, scalar_like(a, b)); }
  Tensor* div(Tensor* a, double b) { return div(a, scalar_like(a, b)); }
  Tensor* sub(double a, Tensor* b) { return sub(scalar_like(b, a), b); }
  Tensor* div(double a, Tensor* b) { return div(scalar_like(b, a), b); }
  Tensor* neg(Tensor* x) { return unary("negative", x); }
  Tensor* select(Tensor* predicate, Tensor* when_true, Tensor* when_false);
  Tensor* conjugate(Tensor* x);                         // returns x itself if it is real
  Tensor* cast(Tensor* x, DType dtype);                 // returns x itself if it has this dtype

  // ---- reductions, which keep reduced axes with size 1; empty axes mean all axes ----
  Tensor* sum(Tensor* x, const Ints& axes = {});
  Tensor* max(Tensor* x, const Ints& axes = {});
  Tensor* mean(Tensor* x, const Ints& axes = {});
  // Returns the number of elements that a reduction of x over `axes` combines into each result, as a rank-0 tensor with
  // x's dtype.
  Tensor* reduced_count(Tensor* x, const Ints& axes);

  // ---- shapes ----
  // Returns the shape of x as int32: a constant if the shape is static, otherwise an operation `shape_of`.
  Tensor* shape_of(Tensor* x);
  Tensor* reshape(Tensor* x, Tensor* shape);
  Tensor* reshape(Tensor* x, const Ints& shape);
  Tensor* reshape_like(Tensor* x, Tensor* like);        // returns x itself if both shapes are static and equal
  Tensor* broadcast_to(Tensor* x, Tensor* shape);
  Tensor* broadcast_like(Tensor* x, Tensor* like);      // returns x itself if both shapes are static and equal
  Tensor* transpose(Tensor* x, const Ints& permutation);
  // Returns the gradient of broadcasting `like` to x's shape: x summed over the axes that were broadcast.
  Tensor* sum_to_like(Tensor* x, Tensor* like);

  Tensor* matmul(Tensor* a, Tensor* b);
  Tensor* swap_last_axes(Tensor* x);                    // the rank must be known and at least 2

 private:
  static bool same_known_shape(const Tensor* a, const Tensor* b);
  Graph& graph_;
};

}  // namespace mpsgraph
