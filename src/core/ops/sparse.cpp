// Operation family sparse: matrices that store only some of their elements.
//
// sparse_tensor(values, index0, index1) has values[e] at the row and column of entry e, and zeros elsewhere. Duplicate
// entries are summed. The storage format determines the meaning of the index operands:
//
//   COO: index0 columns, index1 rows
//   CSC: index0 rows, index1 where each column starts
//   CSR: index0 columns, index1 where each row starts
//
// The result has the type of a dense matrix, and every operation accepts it. Sparsity is a property of the storage: the
// compiler replaces matrix products with a sparse tensor, and the derivatives of such products, with operations that
// never materialize the zeros (fuse_sparse.cpp). Entries outside the matrix are ignored.
#include <string>

#include "core/ops/primitive.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

// Checks the index operands `first` and `first` + 1 against the number of entries, and returns the shape of the matrix.
Shape matrix_shape(const InferContext& c, size_t first, const Shape& entries) {
  const std::string& storage = c.attributes.string("storage");
  const Ints& shape = c.attributes.integers("shape");
  if (storage != "COO" && storage != "CSC" && storage != "CSR")
    c.graph_error(cat("storage must be COO, CSC or CSR, got '", storage, "'"));
  if (shape.size() != 2 || shape[0] < 0 || shape[1] < 0)
    c.shape_error(cat("a sparse tensor must have two static dimensions, got ", to_string(shape)));
  element_count(shape);  // throws ShapeError if the element count overflows
  for (size_t i = first; i < first + 2; ++i) {
    c.require_rank(i, 1);
    if (!is_integer(c.dtype(i)))
      c.dtype_error(cat("indices must be integers, got ", c.dtype(i), "; cast them to int32 first"));
  }
  const int64_t starts = storage == "CSC" ? shape[1] + 1 : shape[0] + 1;
  const Shape expected = storage == "COO" ? entries : Shape{starts};
  if (!compatible(c.shape(first), entries))
    c.shape_error(
        cat("indices and values must be equal in number, got indices ", c.shape(first), " for values ", entries));
  if (!compatible(c.shape(first + 1), expected))
    c.shape_error(
        cat(storage == "COO"   ? "the number of row indices must equal the number of values, so index1 must have shape "
            : storage == "CSC" ? "there must be one more column start than columns, so index1 must have shape "
                               : "there must be one more row start than rows, so index1 must have shape ",
            expected, ", got ", c.shape(first + 1)));
  return Shape(shape);
}

void require_numeric(const InferContext& c, size_t i) {
  if (c.dtype(i) == DType::boolean)
    c.dtype_error("values must be numeric, got bool: cast them to int32 or float32 first");
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

// Gradient of sparse_tensor: reads a dense matrix at the positions of the entries.
std::vector<TensorType> infer_sparse_tensor_gradient(const InferContext& c) {
  require_numeric(c, 0);
  const Shape entries = c.shape(1).ranked() ? c.shape(1) : Shape{-1};
  const Shape matrix = matrix_shape(c, 1, entries);
  if (!compatible(c.shape(0), matrix))
    c.shape_error(cat("incoming gradient must have the shape ", matrix, " of the sparse tensor, got ", c.shape(0)));
  return {{c.dtype(0), entries}};
}
void d_sparse_tensor_gradient(GradientContext& g) {
  if (g.needs(0)) g.set(0, g.graph().add("sparse_tensor", {g.incoming(), g.input(1), g.input(2)}, g.attributes()));
}

// ---- created by the compiler ----

// Product of a sparse matrix S and a dense matrix D. Operands: values, index0, index1 of S, and D. The result is S·D,
// or D·S if `dense_first` is set; S is transposed first if `transposed` is set.
std::vector<TensorType> infer_sparse_product(const InferContext& c) {
  const Shape stored = matrix_shape(c, 1, c.shape(0)), dense = c.shape(3);
  const bool transposed = c.attributes.boolean("transposed");
  const int64_t rows = stored[transposed ? 1 : 0], columns = stored[transposed ? 0 : 1];
  const bool dense_first = c.attributes.boolean("dense_first");
  if (dense.rank() != 2 || dense[dense_first ? 1 : 0] != (dense_first ? rows : columns))
    c.shape_error(cat("the inner dimensions of the sparse matrix ", stored, transposed ? " (transposed)" : "",
                      " and the dense matrix ", dense, " must be equal"));
  return {{c.dtype(0), dense_first ? Shape{dense[0], columns} : Shape{rows, dense[1]}}};
}

// Elements of the product a·bᵀ at the positions of sparse entries: for each entry with row i and column j, the dot
// product of row i of a and row j of b. Operands: a, b, index0, index1.
std::vector<TensorType> infer_sampled_product(const InferContext& c) {
  const Shape stored = matrix_shape(c, 2, c.shape(2));
  const Shape &a = c.shape(0), &b = c.shape(1);
  if (a.rank() != 2 || b.rank() != 2 || a[1] != b[1] || a[0] != stored[0] || b[0] != stored[1])
    c.shape_error(cat("the numbers of rows of the two operands must be the sizes of the sparse matrix ", stored,
                      ", and their numbers of columns must be equal, got ", a, " and ", b));
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
