"""Arithmetic between real and complex numbers: absolute values, conjugates, parts, and complex tensors from parts.

All other arithmetic takes complex64 where it has a meaning (not in comparisons other than equality). The gradient of a
real loss L with respect to z = x + iy is dL/dx + i dL/dy, as in PyTorch and TensorFlow, so that z - rate * gradient
descends; JAX gives the conjugate.
"""

from __future__ import annotations

from ._family import Family, Tensor, TensorLike


class ComplexArithmetic(Family):
    """absolute, absolute_square, conjugate, real_part, imaginary_part, complex_tensor, planar_tensor."""

    def absolute(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Absolute value; the distance from 0 for complex numbers.

        result = |x|.
        Args: x, any shape, a float, integer or complex dtype; name, the operation's name. Result: x's shape and dtype,
        float32 for complex64. (MPSGraph's own keeps the complex dtype, with imaginary part 0.)
        Errors: DTypeError for bool.
        Gradient: incoming * sign(x); for complex x incoming * x / |x|, and 0 at 0.
        Source: MPSGraph absoluteWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.absolute(g.constant([-2.0, 3.0]))).tolist()
        [2.0, 3.0]
        >>> g.run({}, g.absolute(g.constant([3 + 4j]))).tolist()
        [5.0]
        """
        return self._tensor("absolute", [x], name)

    def absolute_square(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Squared magnitude, which for real numbers is x * x.

        result = |x|^2.
        Args: x, any shape, a float, integer or complex dtype; name, the operation's name. Result: x's shape and dtype,
        float32 for complex64. Errors: DTypeError for bool.
        Gradient: incoming * 2x. Source: MPSGraph absoluteSquareWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.absolute_square(g.constant([3 + 4j]))).tolist()
        [25.0]
        """
        return self._tensor("absolute_square", [x], name)

    def conjugate(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Complex conjugate, which for real numbers is x itself.

        result = real(x) - i imaginary(x).
        Args: x, any shape, any dtype; name, the operation's name. Result: x's shape and dtype. Errors: none.
        Gradient: conjugate of incoming. Source: MPSGraph conjugateWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.conjugate(g.constant([1 + 2j]))).tolist()
        [(1-2j)]
        """
        return self._tensor("conjugate", [x], name)

    def real_part(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Real part of complex numbers.

        result = real(x).
        Args: x, any shape, a complex dtype; name, the operation's name. Result: x's shape, float32 for complex64.
        Errors: DTypeError unless x is complex.
        Gradient: incoming, with imaginary part 0. Source: MPSGraph realPartOfTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.real_part(g.constant([1 + 2j]))).tolist()
        [1.0]
        """
        return self._tensor("real_part", [x], name)

    def imaginary_part(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Imaginary part of complex numbers.

        result = imaginary(x).
        Args: x, any shape, a complex dtype; name, the operation's name. Result: x's shape, float32 for complex64.
        Errors: DTypeError unless x is complex.
        Gradient: i * incoming. Source: MPSGraph imaginaryPartOfTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.imaginary_part(g.constant([1 + 2j]))).tolist()
        [2.0]
        """
        return self._tensor("imaginary_part", [x], name)

    def complex_tensor(self, real: TensorLike, imaginary: TensorLike, name: str | None = None) -> Tensor:
        """Complex numbers from their parts.

        result = real + i imaginary.
        Args: real, imaginary, shapes that broadcast, float32 or float64; name, the operation's name. Result: the
        broadcast shape, complex64 for float32. Errors: DTypeError, ShapeError.
        Gradient: the incoming gradient's real part to real, its imaginary part to imaginary.
        Source: MPSGraph complexTensorWithRealTensor:imaginaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.complex_tensor(g.constant([1.0, 2.0]), 3.0)).tolist()
        [(1+3j), (2+3j)]
        """
        return self._tensor("complex_tensor", [real, imaginary], name)

    def planar_tensor(self, x: Tensor, name: str | None = None) -> Tensor:
        """Real and imaginary parts as planes, side by side along the last axis.

        result[..., i] = real(x[..., i]), result[..., n + i] = imaginary(x[..., i]) with n elements in x's last axis;
        a real x as it is.
        Args: x, rank 1 or more when it is complex; name, the operation's name. Result: x's shape with the last axis
        doubled, float32 for complex64. Errors: ShapeError for a complex x of rank 0.
        Gradient: the planes put together again. Source: MPSGraph planarTensorWithComplexTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.planar_tensor(g.constant([1 + 2j, 3 + 4j]))).tolist()
        [1.0, 3.0, 2.0, 4.0]
        """
        return self._tensor("planar_tensor", [x], name)
