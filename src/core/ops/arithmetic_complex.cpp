// Operations between real and complex numbers: absolute values, conjugates, real and imaginary parts, and complex
// tensors built from parts.
//
// The gradient of a real L with respect to z = x + iy is dL/dx + i dL/dy, so that the step z - rate * gradient
// decreases L. For an analytic function, which includes most of arithmetic.cpp, this gradient is the incoming gradient
// times the conjugate of the function's derivative. The functions in this file are not analytic and have their own
// rules for complex operands.
#include "core/ops/elementwise.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

// Inference for |z| and |z|²: the result is real whether z is real or complex.
std::vector<TensorType> infer_magnitude(const InferContext& c) {
  require(c, 0, DTypeClass::algebraic);
  return {{real_type(c.dtype(0)), c.shape(0)}};
}

// The direction of x: x / |x|, or 0 where x is 0.
Tensor* direction(Builder& b, Tensor* x, Tensor* magnitude) {
  if (!is_complex(x->dtype())) return b.unary("sign", x);
  return b.binary("division_no_nan", x, b.cast(magnitude, x->dtype()));
}

void d_absolute(GradientContext& c) {
  Builder b(c.graph());
  Tensor* x = c.input(0);
  Tensor* slope = direction(b, x, c.output());
  c.set(0, b.mul(b.cast(c.incoming(), x->dtype()), slope));
}

void d_absolute_square(GradientContext& c) {
  Builder b(c.graph());
  Tensor* x = c.input(0);
  Tensor* slope = b.mul(x, 2.0);
  c.set(0, b.mul(b.cast(c.incoming(), x->dtype()), slope));
}

std::vector<TensorType> infer_conjugate(const InferContext& c) { return {c.type(0)}; }
void d_conjugate(GradientContext& c) { c.set(0, Builder(c.graph()).conjugate(c.incoming())); }

std::vector<TensorType> infer_part(const InferContext& c) {
  require(c, 0, DTypeClass::complexes);
  return {{real_type(c.dtype(0)), c.shape(0)}};
}

void d_real_part(GradientContext& c) { c.set(0, Builder(c.graph()).cast(c.incoming(), c.input(0)->dtype())); }

void d_imaginary_part(GradientContext& c) {
  Builder b(c.graph());
  c.set(0, b.binary("complex_tensor", b.scalar_like(c.incoming(), 0), c.incoming()));
}

std::vector<TensorType> infer_complex_tensor(const InferContext& c) {
  c.require_same_dtype();
  const std::optional<DType> result = is_float(c.dtype(0)) ? complex_type(c.dtype(0)) : std::nullopt;
  if (!result)
    c.dtype_error(cat("operands must be float32 (giving complex64) or float64 (giving complex128), got ", c.dtype(0),
                      ": cast them to float32 first"));
  return {{*result, broadcast_shapes(c)}};
}

void d_complex_tensor(GradientContext& c) {
  Builder b(c.graph());
  if (c.needs(0)) c.set(0, b.sum_to_like(b.unary("real_part", c.incoming()), c.input(0)));
  if (c.needs(1)) c.set(1, b.sum_to_like(b.unary("imaginary_part", c.incoming()), c.input(1)));
}

// planar_tensor: all real parts, then all imaginary parts, concatenated along the last axis. Real tensors pass through
// unchanged.
std::vector<TensorType> infer_planar_tensor(const InferContext& c) {
  const Shape& shape = c.shape(0);
  if (!is_complex(c.dtype(0)) || !shape.ranked()) return {{real_type(c.dtype(0)), shape}};
  if (shape.rank() == 0)
    c.shape_error("operand must have at least one axis to concatenate the parts along, got rank 0: reshape it first");
  Dims dims = shape.dims();
  if (dims.back() > 0) dims.back() *= 2;
  return {{real_type(c.dtype(0)), Shape(dims)}};
}

std::vector<Tensor*> decompose_planar_tensor(Builder& b, const std::vector<Tensor*>& inputs, const Attributes&) {
  Tensor* x = inputs[0];
  if (!is_complex(x->dtype())) return {b.unary("identity", x)};
  return {b.graph().add("concat", {b.unary("real_part", x), b.unary("imaginary_part", x)}, {{"axis", int64_t{-1}}})};
}

}  // namespace

const Family arithmetic_complex_family("arithmetic", [] {
  define(elementwise("absolute", "x: number", DTypeClass::algebraic, R"(
Compute the absolute value element-wise; for complex numbers, the magnitude.

result = |x|. MPSGraph itself returns a complex tensor with imaginary part 0 for complex x.

Returns: A tensor with the shape of x and its dtype, or the matching real dtype for complex x (float32 for
complex64).
Gradient: incoming gradient * sign(x); for complex x, incoming gradient * x / |x|, and 0 at 0.
Source: MPSGraph absoluteWithTensor:name:.
>>> g.run({}, g.absolute(g.constant([-2.0, 3.0]))).tolist()
[2.0, 3.0]
>>> g.run({}, g.absolute(g.constant([3 + 4j]))).tolist()
[5.0])",
                     infer_magnitude, d_absolute));
  define(elementwise("absolute_square", "x: number", DTypeClass::algebraic, R"(
Compute the squared magnitude element-wise; for real numbers, x * x.

result = |x|^2.

Returns: A tensor with the shape of x and its dtype, or the matching real dtype for complex x (float32 for
complex64).
Gradient: incoming gradient * 2x.
Source: MPSGraph absoluteSquareWithTensor:name:.
>>> g.run({}, g.absolute_square(g.constant([3 + 4j]))).tolist()
[25.0])",
                     infer_magnitude, d_absolute_square));
  define(elementwise("conjugate", "x: number", DTypeClass::any, R"(
Compute the complex conjugate element-wise; a real x is returned unchanged.

result = real(x) - i imaginary(x).

Gradient: the conjugate of the incoming gradient.
Source: MPSGraph conjugateWithTensor:name:.
>>> g.run({}, g.conjugate(g.constant([1 + 2j]))).tolist()
[(1-2j)])",
                     infer_conjugate, d_conjugate));
  define(elementwise("real_part", "x: number", DTypeClass::complexes, R"(
Return the real part of complex numbers.

result = real(x).

Returns: A tensor with the shape of x and the matching real dtype (float32 for complex64).
Gradient: the incoming gradient, with imaginary part 0.
Source: MPSGraph realPartOfTensor:name:.
>>> g.run({}, g.real_part(g.constant([1 + 2j]))).tolist()
[1.0])",
                     infer_part, d_real_part));
  define(elementwise("imaginary_part", "x: number", DTypeClass::complexes, R"(
Return the imaginary part of complex numbers.

result = imaginary(x).

Returns: A tensor with the shape of x and the matching real dtype (float32 for complex64).
Gradient: i * incoming gradient.
Source: MPSGraph imaginaryPartOfTensor:name:.
>>> g.run({}, g.imaginary_part(g.constant([1 + 2j]))).tolist()
[2.0])",
                     infer_part, d_imaginary_part));
  define(elementwise("complex_tensor", "real: number, imaginary: number", DTypeClass::floats, R"(
Build complex numbers from their real and imaginary parts.

result = real + i imaginary.

Args:
    real: Tensor or number, float32 or float64.
Returns: A tensor of the broadcast shape: complex64 for float32 parts, complex128 for float64 parts.
Raises:
    ShapeError: If the shapes do not broadcast.
    DTypeError: If the dtypes differ or are not float32 or float64.
Gradient: the real part of the incoming gradient to real, and its imaginary part to imaginary.
Source: MPSGraph complexTensorWithRealTensor:imaginaryTensor:name:.
>>> g.run({}, g.complex_tensor(g.constant([1.0, 2.0]), 3.0)).tolist()
[(1+3j), (2+3j)])",
                     infer_complex_tensor, d_complex_tensor));
  OperationDefinition planar = elementwise("planar_tensor", "x", DTypeClass::any, R"(
Lay out the real and imaginary parts of x next to each other along the last axis.

result[..., i] = real(x[..., i]) and result[..., n + i] = imaginary(x[..., i]), where n is the size of the last
axis of x. A real x is returned unchanged.

Args:
    x: Tensor of any dtype; a complex tensor must have rank 1 or higher.
Returns: For complex x, a tensor with the last axis twice as long and the matching real dtype (float32 for
complex64).
Raises:
    ShapeError: If x is complex and has rank 0.
Gradient: the incoming gradient, reassembled into complex numbers.
Source: MPSGraph planarTensorWithComplexTensor:name:.
>>> g.run({}, g.planar_tensor(g.constant([1 + 2j, 3 + 4j]))).tolist()
[1.0, 3.0, 2.0, 4.0])",
                                           infer_planar_tensor, {});
  planar.elementwise = planar.gradient_is_zero = false;
  planar.decompose = decompose_planar_tensor;
  define(std::move(planar));
});

}  // namespace mpsgraph::ops
