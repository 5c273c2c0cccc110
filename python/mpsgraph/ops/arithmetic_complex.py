"""Operations between real and complex numbers: magnitudes, conjugates, parts, and complex tensors built from parts.

Other arithmetic operations accept complex operands where that makes sense; the only comparisons that do are equal and
not_equal. The gradient of a real loss L with respect to z = x + iy is dL/dx + i dL/dy, as in PyTorch and TensorFlow, so
that a step to z - rate * gradient decreases L; JAX returns the conjugate.
"""

from __future__ import annotations

from ._family import Family, Tensor, TensorLike


class ComplexArithmetic(Family):
    """Graph methods for absolute values, conjugates, real and imaginary parts, and complex tensors built from parts."""

    def absolute(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the absolute value element-wise; for complex numbers, the magnitude.

        result = |x|. MPSGraph itself returns a complex tensor with imaginary part 0 for complex x.

        Args:
            x: Tensor or number, floating-point, integer, or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape of x and its dtype, or the matching real dtype for complex x (float32 for
            complex64).

        Raises:
            DTypeError: If x is bool.

        Gradient: incoming gradient * sign(x); for complex x, incoming gradient * x / |x|, and 0 at 0.

        Source: MPSGraph absoluteWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.absolute(g.constant([-2.0, 3.0]))).tolist()
            [2.0, 3.0]
            >>> g.run({}, g.absolute(g.constant([3 + 4j]))).tolist()
            [5.0]
        """
        return self._tensor("absolute", [x], name)

    def absolute_square(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the squared magnitude element-wise; for real numbers, x * x.

        result = |x|^2.

        Args:
            x: Tensor or number, floating-point, integer, or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape of x and its dtype, or the matching real dtype for complex x (float32 for
            complex64).

        Raises:
            DTypeError: If x is bool.

        Gradient: incoming gradient * 2x.

        Source: MPSGraph absoluteSquareWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.absolute_square(g.constant([3 + 4j]))).tolist()
            [25.0]
        """
        return self._tensor("absolute_square", [x], name)

    def conjugate(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the complex conjugate element-wise; a real x is returned unchanged.

        result = real(x) - i imaginary(x).

        Args:
            x: Tensor or number of any dtype.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Gradient: the conjugate of the incoming gradient.

        Source: MPSGraph conjugateWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.conjugate(g.constant([1 + 2j]))).tolist()
            [(1-2j)]
        """
        return self._tensor("conjugate", [x], name)

    def real_part(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Return the real part of complex numbers.

        result = real(x).

        Args:
            x: Complex tensor or number.
            name: Name of the operation.

        Returns:
            A tensor with the shape of x and the matching real dtype (float32 for complex64).

        Raises:
            DTypeError: If x is not complex.

        Gradient: the incoming gradient, with imaginary part 0.

        Source: MPSGraph realPartOfTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.real_part(g.constant([1 + 2j]))).tolist()
            [1.0]
        """
        return self._tensor("real_part", [x], name)

    def imaginary_part(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Return the imaginary part of complex numbers.

        result = imaginary(x).

        Args:
            x: Complex tensor or number.
            name: Name of the operation.

        Returns:
            A tensor with the shape of x and the matching real dtype (float32 for complex64).

        Raises:
            DTypeError: If x is not complex.

        Gradient: i * incoming gradient.

        Source: MPSGraph imaginaryPartOfTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.imaginary_part(g.constant([1 + 2j]))).tolist()
            [2.0]
        """
        return self._tensor("imaginary_part", [x], name)

    def complex_tensor(self, real: TensorLike, imaginary: TensorLike, name: str | None = None) -> Tensor:
        """Build complex numbers from their real and imaginary parts.

        result = real + i imaginary.

        Args:
            real: Tensor or number, float32 or float64.
            imaginary: Tensor or number with the dtype of real and a shape that broadcasts with it.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape: complex64 for float32 parts, complex128 for float64 parts.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not float32 or float64.

        Gradient: the real part of the incoming gradient to real, and its imaginary part to imaginary.

        Source: MPSGraph complexTensorWithRealTensor:imaginaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.complex_tensor(g.constant([1.0, 2.0]), 3.0)).tolist()
            [(1+3j), (2+3j)]
        """
        return self._tensor("complex_tensor", [real, imaginary], name)

    def planar_tensor(self, x: Tensor, name: str | None = None) -> Tensor:
        """Lay out the real and imaginary parts of x next to each other along the last axis.

        result[..., i] = real(x[..., i]) and result[..., n + i] = imaginary(x[..., i]), where n is the size of the last
        axis of x. A real x is returned unchanged.

        Args:
            x: Tensor of any dtype; a complex tensor must have rank 1 or higher.
            name: Name of the operation.

        Returns:
            For complex x, a tensor with the last axis twice as long and the matching real dtype (float32 for
            complex64).

        Raises:
            ShapeError: If x is complex and has rank 0.

        Gradient: the incoming gradient, reassembled into complex numbers.

        Source: MPSGraph planarTensorWithComplexTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.planar_tensor(g.constant([1 + 2j, 3 + 4j]))).tolist()
            [1.0, 3.0, 2.0, 4.0]
        """
        return self._tensor("planar_tensor", [x], name)
