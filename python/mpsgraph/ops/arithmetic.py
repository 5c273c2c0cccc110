"""Element-wise arithmetic on one operand: exponentials, roots, rounding, trigonometry, predicates, and bits.

Operations on two and three operands are in arithmetic_binary.py. Methods have MPSGraph's names in snake_case, with a
trailing underscore where the name is a Python keyword (`not_`).
"""

from __future__ import annotations

from ._family import Family, Tensor, TensorLike


class UnaryArithmetic(Family):
    """Graph methods for element-wise operations on one operand."""

    def identity(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Return x unchanged, as a new tensor.

        result = x.

        Args:
            x: Tensor or number of any dtype.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Gradient: the incoming gradient.

        Source: MPSGraph identityWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.identity(g.constant([1.0, 2.0]))).tolist()
            [1.0, 2.0]
        """
        return self._tensor("identity", [x], name)

    def exponent(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the natural exponential element-wise.

        result = e^x.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: incoming gradient * e^x.

        Source: MPSGraph exponentWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.exponent(g.constant([0.0]))).tolist()
            [1.0]
        """
        return self._tensor("exponent", [x], name)

    def exponent_base2(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Raise 2 to the power x element-wise.

        result = 2^x.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: incoming gradient * 2^x * ln 2.

        Source: MPSGraph exponentBase2WithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.exponent_base2(g.constant([3.0, -1.0]))).tolist()
            [8.0, 0.5]
        """
        return self._tensor("exponent_base2", [x], name)

    def exponent_base10(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Raise 10 to the power x element-wise.

        result = 10^x.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: incoming gradient * 10^x * ln 10.

        Source: MPSGraph exponentBase10WithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.exponent_base10(g.constant([0.0]))).tolist()
            [1.0]
        """
        return self._tensor("exponent_base10", [x], name)

    def logarithm(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the natural logarithm element-wise.

        result = ln x. Real x gives NaN below 0 and -inf at 0.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: incoming gradient / x.

        Source: MPSGraph logarithmWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.logarithm(g.constant([1.0]))).tolist()
            [0.0]
        """
        return self._tensor("logarithm", [x], name)

    def logarithm_base2(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the logarithm to base 2 element-wise.

        result = log2 x.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: incoming gradient / (x * ln 2).

        Source: MPSGraph logarithmBase2WithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.logarithm_base2(g.constant([8.0]))).tolist()
            [3.0]
        """
        return self._tensor("logarithm_base2", [x], name)

    def logarithm_base10(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the logarithm to base 10 element-wise.

        result = log10 x.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: incoming gradient / (x * ln 10).

        Source: MPSGraph logarithmBase10WithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.logarithm_base10(g.constant([1.0]))).tolist()
            [0.0]
        """
        return self._tensor("logarithm_base10", [x], name)

    def square(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Square x element-wise.

        result = x * x.

        Args:
            x: Tensor or number, floating-point, integer, or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point, integer, or complex.

        Gradient: incoming gradient * 2x.

        Source: MPSGraph squareWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.square(g.constant([3.0, -2.0]))).tolist()
            [9.0, 4.0]
        """
        return self._tensor("square", [x], name)

    def square_root(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the square root element-wise.

        result = sqrt(x). Real x gives NaN below 0.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: incoming gradient / (2 * sqrt(x)).

        Source: MPSGraph squareRootWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.square_root(g.constant([9.0]))).tolist()
            [3.0]
        """
        return self._tensor("square_root", [x], name)

    def reciprocal_square_root(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the reciprocal of the square root element-wise.

        result = 1 / sqrt(x).

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: -incoming gradient * x^(-3/2) / 2.

        Source: MPSGraph reciprocalSquareRootWithTensor:name: (macOS 15).

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.reciprocal_square_root(g.constant([4.0]))).tolist()
            [0.5]
        """
        return self._tensor("reciprocal_square_root", [x], name)

    def reverse_square_root(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the reciprocal of the square root element-wise, under MPSGraph's deprecated name.

        result = 1 / sqrt(x). Prefer `reciprocal_square_root`, which computes the same.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: -incoming gradient * x^(-3/2) / 2.

        Source: MPSGraph reverseSquareRootWithTensor:name: (deprecated; prefer reciprocal_square_root).

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.reverse_square_root(g.constant([4.0]))).tolist()
            [0.5]
        """
        return self._tensor("reverse_square_root", [x], name)

    def reciprocal(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the reciprocal element-wise.

        result = 1 / x.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: -incoming gradient / x^2.

        Source: MPSGraph reciprocalWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.reciprocal(g.constant([4.0]))).tolist()
            [0.25]
        """
        return self._tensor("reciprocal", [x], name)

    def negative(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Negate x element-wise.

        result = -x.

        Args:
            x: Tensor or number, floating-point, integer, or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point, integer, or complex.

        Gradient: the negated incoming gradient.

        Source: MPSGraph negativeWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.negative(g.constant([1.0, -2.0]))).tolist()
            [-1.0, 2.0]
        """
        return self._tensor("negative", [x], name)

    def sign(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the sign element-wise.

        result = -1 where x < 0, 0 where x = 0, and 1 where x > 0.

        Args:
            x: Tensor or number, floating-point or integer.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or integer.

        Gradient: zero.

        Source: MPSGraph signWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.sign(g.constant([-4.0, 0.0, 9.0]))).tolist()
            [-1.0, 0.0, 1.0]
        """
        return self._tensor("sign", [x], name)

    def signbit(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Return whether the sign bit is set, element-wise: True for negative numbers and for -0.0.

        result = sign bit of x, as bool.

        Args:
            x: Tensor or number, floating-point or integer.
            name: Name of the operation.

        Returns:
            A bool tensor with the shape of x.

        Raises:
            DTypeError: If x is not floating-point or integer.

        Gradient: none, because the result is bool.

        Source: MPSGraph signbitWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.signbit(g.constant([-0.0, 1.0]))).tolist()
            [True, False]
        """
        return self._tensor("signbit", [x], name)

    def ceil(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Round up element-wise.

        result = the smallest integer >= x.

        Args:
            x: Tensor or number, floating-point.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point.

        Gradient: zero.

        Source: MPSGraph ceilWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.ceil(g.constant([1.2, -1.2]))).tolist()
            [2.0, -1.0]
        """
        return self._tensor("ceil", [x], name)

    def floor(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Round down element-wise.

        result = the largest integer <= x.

        Args:
            x: Tensor or number, floating-point.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point.

        Gradient: zero.

        Source: MPSGraph floorWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.floor(g.constant([1.8, -1.2]))).tolist()
            [1.0, -2.0]
        """
        return self._tensor("floor", [x], name)

    def round(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Round to the nearest integer element-wise, with ties away from zero.

        result = sign(x) * floor(|x| + 1/2).

        Args:
            x: Tensor or number, floating-point.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point.

        Gradient: zero.

        Source: MPSGraph roundWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.round(g.constant([0.5, -1.5, 2.4]))).tolist()
            [1.0, -2.0, 2.0]
        """
        return self._tensor("round", [x], name)

    def rint(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Round to the nearest integer element-wise, with ties to even.

        result = rint(x).

        Args:
            x: Tensor or number, floating-point.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point.

        Gradient: zero.

        Source: MPSGraph rintWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.rint(g.constant([0.5, 1.5, 2.5]))).tolist()
            [0.0, 2.0, 2.0]
        """
        return self._tensor("rint", [x], name)

    def truncate(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Round toward zero element-wise.

        result = the integer part of x.

        Args:
            x: Tensor or number, floating-point.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point.

        Gradient: zero.

        Source: MPSGraph truncateWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.truncate(g.constant([1.8, -1.8]))).tolist()
            [1.0, -1.0]
        """
        return self._tensor("truncate", [x], name)

    def sin(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the sine of angles in radians, element-wise.

        result = sin x.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: incoming gradient * cos x.

        Source: MPSGraph sinWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.sin(g.constant([0.0]))).tolist()
            [0.0]
        """
        return self._tensor("sin", [x], name)

    def cos(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the cosine of angles in radians, element-wise.

        result = cos x.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: -incoming gradient * sin x.

        Source: MPSGraph cosWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.cos(g.constant([0.0]))).tolist()
            [1.0]
        """
        return self._tensor("cos", [x], name)

    def tan(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the tangent of angles in radians, element-wise.

        result = tan x.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: incoming gradient * (1 + tan^2 x).

        Source: MPSGraph tanWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.tan(g.constant([0.0]))).tolist()
            [0.0]
        """
        return self._tensor("tan", [x], name)

    def sinh(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the hyperbolic sine element-wise.

        result = (e^x - e^-x) / 2.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: incoming gradient * cosh x.

        Source: MPSGraph sinhWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.sinh(g.constant([0.0]))).tolist()
            [0.0]
        """
        return self._tensor("sinh", [x], name)

    def cosh(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the hyperbolic cosine element-wise.

        result = (e^x + e^-x) / 2.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: incoming gradient * sinh x.

        Source: MPSGraph coshWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.cosh(g.constant([0.0]))).tolist()
            [1.0]
        """
        return self._tensor("cosh", [x], name)

    def tanh(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the hyperbolic tangent element-wise.

        result = sinh x / cosh x.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: incoming gradient * (1 - tanh^2 x).

        Source: MPSGraph tanhWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.tanh(g.constant([0.0]))).tolist()
            [0.0]
        """
        return self._tensor("tanh", [x], name)

    def asin(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the arcsine element-wise, in radians.

        result = asin x. Real x gives a result in [-pi/2, pi/2], and NaN outside [-1, 1].

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: incoming gradient / sqrt(1 - x^2).

        Source: MPSGraph asinWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.asin(g.constant([0.0]))).tolist()
            [0.0]
        """
        return self._tensor("asin", [x], name)

    def acos(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the arccosine element-wise, in radians.

        result = acos x. Real x gives a result in [0, pi], and NaN outside [-1, 1].

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: -incoming gradient / sqrt(1 - x^2).

        Source: MPSGraph acosWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.acos(g.constant([1.0]))).tolist()
            [0.0]
        """
        return self._tensor("acos", [x], name)

    def atan(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the arctangent element-wise, in radians.

        result = atan x. Real x gives a result in [-pi/2, pi/2].

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: incoming gradient / (1 + x^2).

        Source: MPSGraph atanWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.atan(g.constant([0.0]))).tolist()
            [0.0]
        """
        return self._tensor("atan", [x], name)

    def asinh(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the inverse hyperbolic sine element-wise.

        result = ln(x + sqrt(x^2 + 1)).

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: incoming gradient / sqrt(x^2 + 1).

        Source: MPSGraph asinhWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.asinh(g.constant([0.0]))).tolist()
            [0.0]
        """
        return self._tensor("asinh", [x], name)

    def acosh(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the inverse hyperbolic cosine element-wise.

        result = ln(x + sqrt(x^2 - 1)). Real x gives NaN below 1.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: incoming gradient / sqrt(x^2 - 1).

        Source: MPSGraph acoshWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.acosh(g.constant([1.0]))).tolist()
            [0.0]
        """
        return self._tensor("acosh", [x], name)

    def atanh(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the inverse hyperbolic tangent element-wise.

        result = ln((1 + x) / (1 - x)) / 2. Real x gives NaN outside [-1, 1].

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: incoming gradient / (1 - x^2).

        Source: MPSGraph atanhWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.atanh(g.constant([0.0]))).tolist()
            [0.0]
        """
        return self._tensor("atanh", [x], name)

    def erf(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the Gauss error function element-wise.

        result = 2 / sqrt(pi) * the integral of e^(-t^2) for t from 0 to x.

        Args:
            x: Tensor or number, floating-point.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not floating-point.

        Gradient: incoming gradient * 2 / sqrt(pi) * e^(-x^2).

        Source: MPSGraph erfWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.erf(g.constant([0.0]))).tolist()
            [0.0]
        """
        return self._tensor("erf", [x], name)

    def not_(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the logical NOT element-wise.

        result = not x.

        Args:
            x: Bool tensor, or a bool.
            name: Name of the operation.

        Returns:
            A bool tensor with the shape of x.

        Raises:
            DTypeError: If x is not bool.

        Gradient: none, because the result is bool.

        Source: MPSGraph notWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.not_(g.constant([True, False]))).tolist()
            [False, True]
        """
        return self._tensor("not", [x], name)

    def is_infinite(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Return whether elements are positive or negative infinity.

        result = |x| == inf, as bool.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A bool tensor with the shape of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: none, because the result is bool.

        Source: MPSGraph isInfiniteWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.is_infinite(g.constant([1.0, float("inf")]))).tolist()
            [False, True]
        """
        return self._tensor("is_infinite", [x], name)

    def is_finite(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Return whether elements are finite: neither infinite nor NaN.

        result = |x| < inf, as bool.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A bool tensor with the shape of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: none, because the result is bool.

        Source: MPSGraph isFiniteWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.is_finite(g.constant([1.0, float("inf")]))).tolist()
            [True, False]
        """
        return self._tensor("is_finite", [x], name)

    def is_nan(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Return whether elements are NaN.

        result = x != x, as bool.

        Args:
            x: Tensor or number, floating-point or complex.
            name: Name of the operation.

        Returns:
            A bool tensor with the shape of x.

        Raises:
            DTypeError: If x is not floating-point or complex.

        Gradient: none, because the result is bool.

        Source: MPSGraph isNaNWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.is_nan(g.constant([1.0, float("nan")]))).tolist()
            [False, True]
        """
        return self._tensor("is_nan", [x], name)

    def bitwise_not(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Invert every bit element-wise.

        result = ~x.

        Args:
            x: Integer tensor, or an int.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not integer.

        Gradient: none, because integers are not differentiable.

        Source: MPSGraph bitwiseNOTWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.bitwise_not(g.constant([0, 5]))).tolist()
            [-1, -6]
        """
        return self._tensor("bitwise_not", [x], name)

    def bitwise_population_count(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Count the bits that are set in each element.

        result = popcount(x).

        Args:
            x: Integer tensor, or an int.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            DTypeError: If x is not integer.

        Gradient: none, because integers are not differentiable.

        Source: MPSGraph bitwisePopulationCountWithTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.bitwise_population_count(g.constant([0, 7]))).tolist()
            [0, 3]
        """
        return self._tensor("bitwise_population_count", [x], name)
