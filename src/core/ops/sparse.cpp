// Family sparse: matrices of which only some elements are stored.
//
//   sparse_tensor(values, index0, index1): values[e] at its row and column, zero elsewhere; equal places add up
//     COO: index0 columns, index1 rows          CSC: index0 rows, index1 where each column starts
//                                               CSR: index0 columns, index1 where each row starts
//
// The result has the type of a dense matrix, and every operation takes it. Being sparse is how it is stored: the
// compiler gives products with it, and their derivatives, to operations that never make the zeros (fuse_sparse.cpp). An
// entry that lies outside of the matrix counts for nothing.
#include <string>

#include "core/ops/primitive.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

// The checks of indices, operands `first` and the one behind, of entries that are as many as operand 0 has elements
// (when `entries`) and the shape of the matrix.
Shape matrix_shape(const InferContext& c, size_t first, const Shape& entries) {
  const std::string& storage = c.attributes.string("storage");
  const Ints& shape = c.attributes.integers("shape");
  if (storage != "COO" && storage != "CSC" && storage != "CSR")
    c.graph_error(cat("storage can be COO, CSC or CSR, came '", storage, "'"));
  if (shape.size() != 2 || shape[0] < 0 || shape[1] < 0)
    c.shape_error(cat("a sparse tensor has two dimensions that are known, came ", to_string(shape)));
  element_count(shape);  // ShapeError for more than there can be: starts are one more than rows or columns
  for (size_t i = first; i < first + 2; ++i) {
    c.require_rank(i, 1);
    if (!is_integer(c.dtype(i)))
      c.dtype_error(cat("indices must be integers, came ", c.dtype(i), "; cast them to int32 first"));
  }
  const int64_t starts = storage == "CSC" ? shape[1] + 1 : shape[0] + 1;
  const Shape expected = storage == "COO" ? entries : Shape{starts};
  if (!compatible(c.shape(first), entries))
    c.shape_error(cat("there are ", entries, " values, but indices ", c.shape(first)));
  if (!compatible(c.shape(first + 1), expected))
    c.shape_error(cat(storage == "COO" ? "row indices must be as many as values, " : "starts must be one more than ",
                      storage == "COO"   ? ""
                      : storage == "CSC" ? "columns, "
                                         : "rows, ",
                      expected, ", came ", c.shape(first + 1)));
  return Shape(shape);
}

void require_numeric(const InferContext& c, size_t i) {
  if (c.dtype(i) == DType::boolean)
    c.dtype_error("takes numbers, values are bool: cast them to int32 or float32 first");
}

std::vector<TensorType> infer_sparse_tensor(const InferContext& c) {
  require_numeric(c, 0);
  c.require_rank(0, 1);
  return {{c.dtype(0), matrix_shape(c, 1, c.shape(0).ranked() ? c.shape(0) : Shape{-1})}};
}
void d_sparse_tensor(GradientContext& g) {
  if (g.needs(0))
    g.set(0, g.graph().add("sparse_tensor_gradient", {g.incoming(), g.input(1), g.input(2)}, g.attributes()));
}

// What a dense matrix has at the places of the entries.
std::vector<TensorType> infer_sparse_tensor_gradient(const InferContext& c) {
  require_numeric(c, 0);
  const Shape entries = c.shape(1).ranked() ? c.shape(1) : Shape{-1};
  const Shape matrix = matrix_shape(c, 1, entries);
  if (!compatible(c.shape(0), matrix))
    c.shape_error(cat("the incoming gradient is ", c.shape(0), ", the sparse tensor ", matrix));
  return {{c.dtype(0), entries}};
}
void d_sparse_tensor_gradient(GradientContext& g) {
  if (g.needs(0)) g.set(0, g.graph().add("sparse_tensor", {g.incoming(), g.input(1), g.input(2)}, g.attributes()));
}

// ---- made by the compiler ----

// values, index0, index1, dense: S·D, or D·S when `dense_first`; with S transposed when `transposed`.
std::vector<TensorType> infer_sparse_product(const InferContext& c) {
  const Shape stored = matrix_shape(c, 1, c.shape(0)), dense = c.shape(3);
  const bool transposed = c.attributes.boolean("transposed");
  const int64_t rows = stored[transposed ? 1 : 0], columns = stored[transposed ? 0 : 1];
  const bool dense_first = c.attributes.boolean("dense_first");
  if (dense.rank() != 2 || dense[dense_first ? 1 : 0] != (dense_first ? rows : columns))
    c.shape_error(cat("sparse ", stored, transposed ? ", transposed," : "", " and dense ", dense, " have no product"));
  return {{c.dtype(0), dense_first ? Shape{dense[0], columns} : Shape{rows, dense[1]}}};
}

// a, b, index0, index1: the products of row i of a and row j of b for each entry's row i and column j.
std::vector<TensorType> infer_sampled_product(const InferContext& c) {
  const Shape stored = matrix_shape(c, 2, c.shape(2));
  const Shape &a = c.shape(0), &b = c.shape(1);
  if (a.rank() != 2 || b.rank() != 2 || a[1] != b[1] || a[0] != stored[0] || b[0] != stored[1])
    c.shape_error(cat("rows of ", a, " and of ", b, " do not make ", stored));
  return {{c.dtype(0), c.shape(2)}};
}

}  // namespace

const Family sparse_family("sparse", [] {
  const std::vector<AttributeSpec> attributes{optional("storage", std::string("COO")),
                                              required("shape", AttributeKind::integers)};
  define(primitive("sparse_tensor", 3, attributes, infer_sparse_tensor, d_sparse_tensor));
  OperationDefinition gradient =
      primitive("sparse_tensor_gradient", 3, attributes, infer_sparse_tensor_gradient, d_sparse_tensor_gradient);
  gradient.internal = true;
  define(std::move(gradient));

  std::vector<AttributeSpec> of_product = attributes;
  of_product.push_back(optional("transposed", false));
  of_product.push_back(optional("dense_first", false));
  OperationDefinition product = primitive("sparse_matrix_multiplication", 4, of_product, infer_sparse_product, nullptr);
  product.internal = true;
  define(std::move(product));
  OperationDefinition sampled =
      primitive("sampled_matrix_multiplication", 4, attributes, infer_sampled_product, nullptr);
  sampled.internal = true;
  define(std::move(sampled));
});

}  // namespace mpsgraph::ops
