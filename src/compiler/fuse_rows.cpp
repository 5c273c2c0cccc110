// Part of pass fuse: a single row times a matrix that is converted from narrower elements, such as quantized weights.
//
//   %w = multiplication(cast(%q), %s)       ->     %y = fused_matrix_multiplication(%x, %q, %s)
//   %y = matrix_multiplication(%x, %w)
//
// The product takes as long as reading the matrix, so a kernel converts the elements while it reads them. Otherwise
// each run would write the converted matrix to memory and read it again. The kernel also applies scales %s, and zero
// points subtracted from the elements, if they are the same for a whole column. It applies them to each element: with
// scales behind the product, its sums could overflow, and zero points there would turn infinite results into NaN. With
// more rows, the conversion takes a smaller part of the time, and stays.
#include "compiler/passes.h"
#include "core/definition.h"
#include "core/wide.h"

namespace mpsgraph::compiler {
namespace {

// The right operand of a product: (elements - zero) * scale, possibly transposed.
struct NarrowMatrix {
  const Tensor* elements = nullptr;  // null if the operand is computed in another way
  const Tensor *zero = nullptr, *scale = nullptr;
  bool transposed = false;
};

// Whether `to` represents all elements of the narrower dtype `from` exactly, and kernels can convert them.
bool widens(DType from, DType to) {
  if (from == DType::int8 || from == DType::uint8) return to == DType::float32 || is_half(to);
  return is_half(from) && to == DType::float32;
}

// Whether a parameter has one element, or one per column of the matrix that it is applied to.
bool is_by_column(const Tensor& parameter, const Shape& matrix, bool transposed) {
  const Shape& shape = parameter.shape();
  if (shape.elements() == 1) return shape.rank() <= 2;
  const int axis = transposed ? 0 : 1;  // of the columns
  if (shape.elements() != matrix[axis] || shape.rank() > 2) return false;
  return shape[shape.rank() - 1] == (transposed ? 1 : matrix[1]);
}

NarrowMatrix narrow_matrix(const Operation& product) {
  const Shape &row = product.input(0)->shape(), &matrix = product.input(1)->shape();
  const DType dtype = product.output()->dtype();
  if (row.rank() < 2 || matrix.rank() != 2 || row.elements() == 0 || row.elements() != row[row.rank() - 1] ||
      matrix.elements() == 0)
    return {};
  NarrowMatrix found;
  for (const Tensor* x = product.input(1);;) {
    const Operation& op = *x->operation;
    const auto applied = [&](size_t side) {
      return op.input(side)->type == x->type && is_by_column(*op.input(1 - side), x->shape(), found.transposed);
    };
    if (const Tensor* before = found.transposed ? nullptr : untransposed(x)) {
      found.transposed = true;
      x = before;
    } else if (op.is("cast") && widens(op.input(0)->dtype(), dtype) && x->dtype() == dtype) {
      if (found.zero && is_half(op.input(0)->dtype())) return {};
      found.elements = op.input(0);
      if (const Tensor* turned = found.transposed ? nullptr : untransposed(found.elements))
        found.elements = turned, found.transposed = true;
      return found;
    } else if (dtype == DType::float32 && op.is("multiplication") && !found.scale && !found.zero &&
               (applied(0) || applied(1))) {
      const size_t side = applied(0) ? 0 : 1;
      found.scale = op.input(1 - side);
      x = op.input(side);
    } else if (dtype == DType::float32 && op.is("subtraction") && !found.zero && applied(0)) {
      found.zero = op.input(1);
      x = op.input(0);
    } else {
      return {};
    }
  }
}

Rewriter::Replacement narrow_product(Rewriter& r, const Operation& op) {
  if (!op.is("matrix_multiplication")) return {};
  const NarrowMatrix found = narrow_matrix(op);
  if (!found.elements) return {};
  std::vector<Tensor*> operands = {r.now(op.input(0)), r.now(found.elements)};
  for (const Tensor* parameter : {found.zero, found.scale})
    if (parameter) operands.push_back(r.now(parameter));
  return std::vector<Tensor*>{r.create(op, "fused_matrix_multiplication", operands,
                                       {{"transpose_b", found.transposed},
                                        {"has_zero", found.zero != nullptr},
                                        {"has_scale", found.scale != nullptr}})
                                  ->output()};
}

}  // namespace

void fuse_rows(Program& program) {
  if (any_operation(program, [](const Operation& op) {
        return op.is("matrix_multiplication") && narrow_matrix(op).elements != nullptr;
      }))
    rewrite(program, narrow_product);
}

}  // namespace mpsgraph::compiler
