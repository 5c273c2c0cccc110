// Part of pass fuse: computes matmuls with sparse tensors, and sparse gradients of matmuls, without the zeros.
//
//   %s = sparse_tensor(%v, %i, %j);  %p = matrix_multiplication(%s, %d)
//     ->  %p = sparse_matrix_multiplication(%v, %i, %j, %d)                     also %s transposed, or on the right
//   %p = matrix_multiplication(%a, %b);  %g = sparse_tensor_gradient(%p, %i, %j)
//     ->  %g = sampled_matrix_multiplication(%a, transpose of %b, %i, %j)
#include "compiler/passes.h"
#include "core/definition.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::compiler {
namespace {

bool computed_sparsely(const Tensor* x) {
  const DType dtype = x->dtype();
  return x->shape().rank() == 2 && (dtype == DType::float32 || dtype == DType::float64 || is_complex(dtype));
}

struct SparseOperand {
  const Operation* tensor = nullptr;
  bool transposed = false;
};
SparseOperand sparse_operand(const Tensor* x) {
  if (x->operation->is("sparse_tensor")) return {x->operation};
  const Tensor* before = untransposed(x);
  return before && before->operation->is("sparse_tensor") ? SparseOperand{before->operation, true} : SparseOperand{};
}

Rewriter::Replacement product(Rewriter& r, const Operation& op) {
  if (!computed_sparsely(op.output())) return {};
  for (size_t side : {0, 1}) {
    const SparseOperand sparse = sparse_operand(op.input(side));
    if (!sparse.tensor || op.input(1 - side)->shape().rank() != 2) continue;
    Attributes attributes = sparse.tensor->attributes;
    attributes.set("transposed", sparse.transposed);
    attributes.set("dense_first", side == 1);
    std::vector<Tensor*> inputs = r.now(sparse.tensor->inputs);
    inputs.push_back(r.now(op.input(1 - side)));
    return std::vector<Tensor*>{r.create(op, "sparse_matrix_multiplication", inputs, attributes)->output()};
  }
  return {};
}

Rewriter::Replacement sampled_product(Rewriter& r, const Operation& op) {
  const Operation& made_by = *op.input(0)->operation;
  if (!made_by.is("matrix_multiplication") || !computed_sparsely(op.input(0))) return {};
  const Tensor *a = made_by.input(0), *b = made_by.input(1);
  if (a->shape().rank() != 2 || b->shape().rank() != 2) return {};
  const Tensor* rows = untransposed(b);
  Tensor* turned =
      rows ? r.now(const_cast<Tensor*>(rows)) : Builder(r.graph()).transpose(r.now(made_by.input(1)), {1, 0});
  const std::vector<Tensor*> inputs{r.now(made_by.input(0)), turned, r.now(op.input(1)), r.now(op.input(2))};
  return std::vector<Tensor*>{r.create(op, "sampled_matrix_multiplication", inputs, op.attributes)->output()};
}

}  // namespace

const Tensor* untransposed(const Tensor* x) {
  const Operation& op = *x->operation;
  return op.is("transpose") && x->shape().rank() == 2 && op.attributes.integers("permutation") == Ints{1, 0}
             ? op.input(0)
             : nullptr;
}

void fuse_sparse(Program& program) {
  const auto wanted = [](const Operation& op) { return op.is({"sparse_tensor", "sparse_tensor_gradient"}); };
  if (!any_operation(program, wanted)) return;
  rewrite(program, [](Rewriter& r, const Operation& op) -> Rewriter::Replacement {
    if (op.is("matrix_multiplication")) return product(r, op);
    return op.is("sparse_tensor_gradient") ? sampled_product(r, op) : std::nullopt;
  });
}

}  // namespace mpsgraph::compiler
