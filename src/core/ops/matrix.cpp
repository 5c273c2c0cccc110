// Operation family matrix: matrix products.
//
//   matmul             C[..., m, n] = Σ_k A[..., m, k] B[..., k, n]
//   8-bit matmul       C[..., m, n] = Σ_k (A[..., m, k] - Z[..., m, 1]) (B[..., k, n] - Y[..., 1, n])
//   hamming distance   D[..., m, n] = Σ_k popcount(A[..., m, k] xor B[..., n, k])
//
// Leading axes broadcast as in numpy. A matmul accepts real and complex numbers, integers (which wrap), and bools
// (where the sum is a logical or). The 8-bit matmul subtracts the zero points Z and Y and accumulates in int32. The
// fourth operation of the family, attention, is in matrix_attention.cpp.
#include "core/definition.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

std::vector<TensorType> infer_product(const InferContext& c, DType dtype) {
  const Shape &a = c.shape(0), &b = c.shape(1);
  for (const Shape* shape : {&a, &b}) {
    if (shape->ranked() && shape->rank() < 2) {
      c.shape_error(cat("operands must have rank 2 or more, got ", a, " and ", b, ": use expand_dims for a vector"));
    }
  }
  if (!a.ranked() || !b.ranked()) return {{dtype, Shape()}};
  int64_t ka = a[a.rank() - 1], kb = b[b.rank() - 2];
  if (ka != kb && ka >= 0 && kb >= 0) {
    c.shape_error(cat("the last axis of ", a, " must equal the second-to-last axis of ", b, ", got ", ka, " and ", kb));
  }
  auto batch =
      broadcast(Shape(Dims(a.dims().begin(), a.dims().end() - 2)), Shape(Dims(b.dims().begin(), b.dims().end() - 2)));
  if (!batch)
    c.shape_error(cat("the leading axes of ", a, " and ", b,
                      " cannot be broadcast: dimensions, aligned from the last, must be equal or 1"));
  Dims dims = batch->dims();
  dims.push_back(a[a.rank() - 2]);
  dims.push_back(b[b.rank() - 1]);
  return {{dtype, Shape(dims)}};
}

std::vector<TensorType> infer_matrix_multiplication(const InferContext& c) {
  c.require_same_dtype();
  return infer_product(c, c.dtype(0));
}

// Derivative of matmul: dA = dC Bᵀ, dB = Aᵀ dC, where B and A are conjugated if complex. Each gradient is summed over
// the leading axes along which its operand was broadcast.
void d_matrix_multiplication(GradientContext& c) {
  Builder b(c.graph());
  Tensor *left = b.conjugate(c.input(0)), *right = b.conjugate(c.input(1)), *g = c.incoming();
  if (c.needs(0)) c.set(0, b.sum_to_like(b.matmul(g, b.swap_last_axes(right)), left));
  if (!c.needs(1)) return;
  // If one weight matrix is shared by a whole batch, compute its gradient with a single matmul over all rows instead of
  // one matmul per batch element and a sum.
  const Shape &l = left->shape(), &r = right->shape();
  if (l.ranked() && r.ranked() && r.rank() == 2 && l.rank() > 2 && r[0] > 0 && r[1] > 0) {
    Tensor* rows = b.reshape(g, {-1, r[1]});
    c.set(1, b.matmul(b.swap_last_axes(b.reshape(left, {-1, r[0]})), rows));
  } else {
    c.set(1, b.sum_to_like(b.matmul(b.swap_last_axes(left), g), right));
  }
}

std::vector<TensorType> infer_integer_product(const InferContext& c) {
  static constexpr const char* names[] = {"primary", "secondary", "primary's zero point", "secondary's zero point"};
  for (size_t i = 0; i < c.count(); ++i) {
    if (c.dtype(i) != DType::int8 && c.dtype(i) != DType::uint8)
      c.dtype_error(
          cat(names[i], " must be int8 or uint8, got ", c.dtype(i), ": use matrix_multiplication for other integers"));
    if (i < 2) continue;
    if (c.dtype(i) != c.dtype(i - 2))
      c.dtype_error(cat(names[i], " must have its operand's dtype (", c.dtype(i - 2), "), got ", c.dtype(i)));
    const Shape &zero = c.shape(i), &of = c.shape(i - 2);
    if (!zero.ranked() || !of.ranked()) continue;
    const int from_end = i == 2 ? 1 : 2;  // position of the summed axis, counted from the end
    const auto whole = broadcast(zero, of);
    if (!whole || whole->rank() != of.rank())
      c.shape_error(cat(names[i], " must broadcast to its operand ", of, ", got ", zero));
    if (zero.rank() >= from_end && zero[zero.rank() - from_end] > 1)
      c.shape_error(cat(names[i], " must have size 1 along the axis that is summed over, got ", zero));
  }
  return infer_product(c, DType::int32);
}

// Decomposition of the 8-bit integer matmul. The difference of an 8-bit number and its zero point needs at most nine
// bits including the sign, so int32 holds it exactly.
std::vector<Tensor*> integer_product_parts(Builder& b, const std::vector<Tensor*>& in, const Attributes&) {
  const auto operand = [&](size_t i) {
    Tensor* x = b.cast(in[i], DType::int32);
    return in.size() > i + 2 ? b.sub(x, b.cast(in[i + 2], DType::int32)) : x;
  };
  Tensor* secondary = operand(1);
  return {b.matmul(operand(0), secondary)};
}

std::vector<TensorType> infer_hamming_distance(const InferContext& c) {
  const DType dtype = c.attributes.dtype("dtype");
  if (dtype != DType::uint32 && dtype != DType::uint16)
    c.dtype_error(cat("the result's dtype must be uint32 or uint16, got ", dtype));
  if (!is_integer(c.dtype(0)))
    c.dtype_error(cat("operands must be integers, because their bits are compared, got ", c.dtype(0)));
  c.require_same_dtype();
  const Shape &a = c.shape(0), &b = c.shape(1);
  for (const Shape* shape : {&a, &b})
    if (shape->ranked() && shape->rank() < 2)
      c.shape_error(cat("operands must have rank 2 or more, got ", a, " and ", b, ": use expand_dims for a vector"));
  if (!a.ranked() || !b.ranked()) return {{dtype, Shape()}};
  const int64_t ka = a.dims().back(), kb = b.dims().back();
  if (ka != kb && ka >= 0 && kb >= 0)
    c.shape_error(cat("the last axes of ", a, " and ", b, " must be equal, got ", ka, " and ", kb));
  const auto batch =
      broadcast(Shape(Dims(a.dims().begin(), a.dims().end() - 2)), Shape(Dims(b.dims().begin(), b.dims().end() - 2)));
  if (!batch)
    c.shape_error(cat("the leading axes of ", a, " and ", b,
                      " cannot be broadcast: dimensions, aligned from the last, must be equal or 1"));
  Dims dims = batch->dims();
  dims.push_back(a[a.rank() - 2]);
  dims.push_back(b[b.rank() - 2]);
  return {{dtype, Shape(dims)}};
}

}  // namespace

const Family matrix_family("matrix", [] {
  OperationDefinition d;
  d.name = "matrix_multiplication";
  d.min_inputs = d.max_inputs = 2;
  d.infer = infer_matrix_multiplication;
  d.gradient = d_matrix_multiplication;
  define(std::move(d));

  OperationDefinition integers;
  integers.name = "integer_matrix_multiplication";
  integers.min_inputs = 2;
  integers.max_inputs = 4;
  integers.infer = infer_integer_product;
  integers.decompose = integer_product_parts;
  integers.gradient_is_zero = true;
  define(std::move(integers));

  OperationDefinition hamming;
  hamming.name = "hamming_distance";
  hamming.min_inputs = hamming.max_inputs = 2;
  hamming.attributes = {optional("dtype", DType::uint32)};
  hamming.infer = infer_hamming_distance;
  hamming.gradient_is_zero = true;
  define(std::move(hamming));

  describe("matrix_multiplication", "primary, secondary", DTypeClass::algebraic, R"(
Multiply matrices over the last two axes, batched over the leading axes.

result[..., i, j] = sum over k of primary[..., i, k] * secondary[..., k, j]. Integer results are exact and wrap
around in two's complement; for bool operands, the result is whether both are True for any k.

Args:
    primary: Tensor of shape (..., m, k) and rank 2 or higher.
    secondary: Tensor of shape (..., k, n) and rank 2 or higher, with the dtype of primary and leading axes that
        broadcast with it.
Returns: A tensor of shape (..., m, n) with the dtype of the operands.
Raises:
    ShapeError: If an operand has a rank below 2, the sizes k differ, or the leading axes do not broadcast.
    DTypeError: If the dtypes differ.
Gradient: incoming gradient @ secondary^T to primary and primary^T @ incoming gradient to secondary, with
complex operands conjugated, summed over broadcast axes.
Source: MPSGraph matrixMultiplicationWithPrimaryTensor:secondaryTensor:name:, which multiplies real numbers; on
the Metal device, integer products are composed of products of bytes.
>>> g.run({}, g.matrix_multiplication(g.constant([[1.0, 2.0]]), g.constant([[3.0], [4.0]]))).tolist()
[[11.0]])");
});

}  // namespace mpsgraph::ops
