"""Arithmetic on one operand: exponentials, roots, rounding, trigonometry, tests of numbers, bits.

All are element-wise: result[i] depends on x[i] only. The two- and three-operand half of the family is in
arithmetic_binary.py. Names are MPSGraph's in snake_case; a Python keyword gets a trailing underscore (`not_`).
"""

from __future__ import annotations

from ._family import Family, Tensor, TensorLike


class UnaryArithmetic(Family):
    """Element-wise operations on one tensor."""

    def identity(self, x: TensorLike, name: str | None = None) -> Tensor:
        """x itself, as an operation of its own.

        result = x.
        Args: x, any shape, any dtype; name, the operation's name. Result: x's shape and dtype. Errors: none.
        Gradient: incoming. Source: MPSGraph identityWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.identity(g.constant([1.0, 2.0]))).tolist()
        [1.0, 2.0]
        """
        return self._tensor("identity", [x], name)

    def exponent(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Natural exponential.

        result = e^x.
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: incoming * e^x. Source: MPSGraph exponentWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.exponent(g.constant([0.0]))).tolist()
        [1.0]
        """
        return self._tensor("exponent", [x], name)

    def exponent_base2(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Power of two.

        result = 2^x.
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: incoming * 2^x * ln 2. Source: MPSGraph exponentBase2WithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.exponent_base2(g.constant([3.0, -1.0]))).tolist()
        [8.0, 0.5]
        """
        return self._tensor("exponent_base2", [x], name)

    def exponent_base10(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Power of ten.

        result = 10^x.
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: incoming * 10^x * ln 10. Source: MPSGraph exponentBase10WithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.exponent_base10(g.constant([0.0]))).tolist()
        [1.0]
        """
        return self._tensor("exponent_base10", [x], name)

    def logarithm(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Natural logarithm.

        result = ln x; NaN below 0, -inf at 0.
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: incoming / x. Source: MPSGraph logarithmWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.logarithm(g.constant([1.0]))).tolist()
        [0.0]
        """
        return self._tensor("logarithm", [x], name)

    def logarithm_base2(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Logarithm to base 2.

        result = log2 x.
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: incoming / (x * ln 2). Source: MPSGraph logarithmBase2WithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.logarithm_base2(g.constant([8.0]))).tolist()
        [3.0]
        """
        return self._tensor("logarithm_base2", [x], name)

    def logarithm_base10(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Logarithm to base 10.

        result = log10 x.
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: incoming / (x * ln 10). Source: MPSGraph logarithmBase10WithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.logarithm_base10(g.constant([1.0]))).tolist()
        [0.0]
        """
        return self._tensor("logarithm_base10", [x], name)

    def square(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Square.

        result = x * x.
        Args: x, any shape, a float, integer or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a float, integer or complex dtype.
        Gradient: incoming * 2x. Source: MPSGraph squareWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.square(g.constant([3.0, -2.0]))).tolist()
        [9.0, 4.0]
        """
        return self._tensor("square", [x], name)

    def square_root(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Square root.

        result = sqrt(x); NaN below 0.
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: incoming / (2 * sqrt(x)). Source: MPSGraph squareRootWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.square_root(g.constant([9.0]))).tolist()
        [3.0]
        """
        return self._tensor("square_root", [x], name)

    def reciprocal_square_root(self, x: TensorLike, name: str | None = None) -> Tensor:
        """One over the square root.

        result = 1 / sqrt(x).
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: -incoming * x^(-3/2) / 2. Source: MPSGraph reciprocalSquareRootWithTensor:name: (macOS 15).

        >>> g = mg.Graph()
        >>> g.run({}, g.reciprocal_square_root(g.constant([4.0]))).tolist()
        [0.5]
        """
        return self._tensor("reciprocal_square_root", [x], name)

    def reverse_square_root(self, x: TensorLike, name: str | None = None) -> Tensor:
        """One over the square root, under its older name.

        result = 1 / sqrt(x).
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: -incoming * x^(-3/2) / 2.
        Source: MPSGraph reverseSquareRootWithTensor:name: (deprecated; prefer reciprocal_square_root).

        >>> g = mg.Graph()
        >>> g.run({}, g.reverse_square_root(g.constant([4.0]))).tolist()
        [0.5]
        """
        return self._tensor("reverse_square_root", [x], name)

    def reciprocal(self, x: TensorLike, name: str | None = None) -> Tensor:
        """One over x.

        result = 1 / x.
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: -incoming / x^2. Source: MPSGraph reciprocalWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.reciprocal(g.constant([4.0]))).tolist()
        [0.25]
        """
        return self._tensor("reciprocal", [x], name)

    def negative(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Negation.

        result = -x.
        Args: x, any shape, a float, integer or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a float, integer or complex dtype.
        Gradient: -incoming. Source: MPSGraph negativeWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.negative(g.constant([1.0, -2.0]))).tolist()
        [-1.0, 2.0]
        """
        return self._tensor("negative", [x], name)

    def sign(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Sign.

        result = -1 below 0, 0 at 0, 1 above 0.
        Args: x, any shape, a float or integer dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a float or integer dtype.
        Gradient: zero. Source: MPSGraph signWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.sign(g.constant([-4.0, 0.0, 9.0]))).tolist()
        [-1.0, 0.0, 1.0]
        """
        return self._tensor("sign", [x], name)

    def signbit(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Is the sign bit set? True for negative numbers and for -0.0.

        result = x's sign bit, as bool.
        Args: x, any shape, a float or integer dtype; name, the operation's name. Result: bool tensor of x's shape.
        Errors: DTypeError unless x has a float or integer dtype.
        Gradient: none, the result is bool. Source: MPSGraph signbitWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.signbit(g.constant([-0.0, 1.0]))).tolist()
        [True, False]
        """
        return self._tensor("signbit", [x], name)

    def ceil(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Round up.

        result = the smallest whole number >= x.
        Args: x, any shape, a floating-point dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point dtype.
        Gradient: zero. Source: MPSGraph ceilWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.ceil(g.constant([1.2, -1.2]))).tolist()
        [2.0, -1.0]
        """
        return self._tensor("ceil", [x], name)

    def floor(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Round down.

        result = the largest whole number <= x.
        Args: x, any shape, a floating-point dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point dtype.
        Gradient: zero. Source: MPSGraph floorWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.floor(g.constant([1.8, -1.2]))).tolist()
        [1.0, -2.0]
        """
        return self._tensor("floor", [x], name)

    def round(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Round to the nearest whole number, halves away from zero.

        result = sign(x) * floor(|x| + 1/2).
        Args: x, any shape, a floating-point dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point dtype.
        Gradient: zero. Source: MPSGraph roundWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.round(g.constant([0.5, -1.5, 2.4]))).tolist()
        [1.0, -2.0, 2.0]
        """
        return self._tensor("round", [x], name)

    def rint(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Round to the nearest whole number, halves to the even one.

        result = rint(x).
        Args: x, any shape, a floating-point dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point dtype.
        Gradient: zero. Source: MPSGraph rintWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.rint(g.constant([0.5, 1.5, 2.5]))).tolist()
        [0.0, 2.0, 2.0]
        """
        return self._tensor("rint", [x], name)

    def truncate(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Round toward zero.

        result = the whole part of x.
        Args: x, any shape, a floating-point dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point dtype.
        Gradient: zero. Source: MPSGraph truncateWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.truncate(g.constant([1.8, -1.8]))).tolist()
        [1.0, -1.0]
        """
        return self._tensor("truncate", [x], name)

    def sin(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Sine of an angle in radians.

        result = sin x.
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: incoming * cos x. Source: MPSGraph sinWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.sin(g.constant([0.0]))).tolist()
        [0.0]
        """
        return self._tensor("sin", [x], name)

    def cos(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Cosine of an angle in radians.

        result = cos x.
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: -incoming * sin x. Source: MPSGraph cosWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.cos(g.constant([0.0]))).tolist()
        [1.0]
        """
        return self._tensor("cos", [x], name)

    def tan(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Tangent of an angle in radians.

        result = tan x.
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: incoming * (1 + tan^2 x). Source: MPSGraph tanWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.tan(g.constant([0.0]))).tolist()
        [0.0]
        """
        return self._tensor("tan", [x], name)

    def sinh(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Hyperbolic sine.

        result = (e^x - e^-x) / 2.
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: incoming * cosh x. Source: MPSGraph sinhWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.sinh(g.constant([0.0]))).tolist()
        [0.0]
        """
        return self._tensor("sinh", [x], name)

    def cosh(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Hyperbolic cosine.

        result = (e^x + e^-x) / 2.
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: incoming * sinh x. Source: MPSGraph coshWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.cosh(g.constant([0.0]))).tolist()
        [1.0]
        """
        return self._tensor("cosh", [x], name)

    def tanh(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Hyperbolic tangent.

        result = sinh x / cosh x.
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: incoming * (1 - tanh^2 x). Source: MPSGraph tanhWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.tanh(g.constant([0.0]))).tolist()
        [0.0]
        """
        return self._tensor("tanh", [x], name)

    def asin(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Arc sine in radians.

        result = asin x, in [-pi/2, pi/2]; NaN outside [-1, 1].
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: incoming / sqrt(1 - x^2). Source: MPSGraph asinWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.asin(g.constant([0.0]))).tolist()
        [0.0]
        """
        return self._tensor("asin", [x], name)

    def acos(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Arc cosine in radians.

        result = acos x, in [0, pi]; NaN outside [-1, 1].
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: -incoming / sqrt(1 - x^2). Source: MPSGraph acosWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.acos(g.constant([1.0]))).tolist()
        [0.0]
        """
        return self._tensor("acos", [x], name)

    def atan(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Arc tangent in radians.

        result = atan x, in [-pi/2, pi/2].
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: incoming / (1 + x^2). Source: MPSGraph atanWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.atan(g.constant([0.0]))).tolist()
        [0.0]
        """
        return self._tensor("atan", [x], name)

    def asinh(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Inverse hyperbolic sine.

        result = ln(x + sqrt(x^2 + 1)).
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: incoming / sqrt(x^2 + 1). Source: MPSGraph asinhWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.asinh(g.constant([0.0]))).tolist()
        [0.0]
        """
        return self._tensor("asinh", [x], name)

    def acosh(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Inverse hyperbolic cosine.

        result = ln(x + sqrt(x^2 - 1)); NaN below 1.
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: incoming / sqrt(x^2 - 1). Source: MPSGraph acoshWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.acosh(g.constant([1.0]))).tolist()
        [0.0]
        """
        return self._tensor("acosh", [x], name)

    def atanh(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Inverse hyperbolic tangent.

        result = ln((1 + x) / (1 - x)) / 2; NaN outside [-1, 1].
        Args: x, any shape, a floating-point or complex dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: incoming / (1 - x^2). Source: MPSGraph atanhWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.atanh(g.constant([0.0]))).tolist()
        [0.0]
        """
        return self._tensor("atanh", [x], name)

    def erf(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Gauss error function.

        result = 2 / sqrt(pi) * integral of e^(-t^2) for t from 0 to x.
        Args: x, any shape, a floating-point dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has a floating-point dtype.
        Gradient: incoming * 2 / sqrt(pi) * e^(-x^2). Source: MPSGraph erfWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.erf(g.constant([0.0]))).tolist()
        [0.0]
        """
        return self._tensor("erf", [x], name)

    def not_(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Logical negation.

        result = not x.
        Args: x, any shape, bool; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has dtype bool.
        Gradient: none, the result is bool. Source: MPSGraph notWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.not_(g.constant([True, False]))).tolist()
        [False, True]
        """
        return self._tensor("not", [x], name)

    def is_infinite(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Is x plus or minus infinity?

        result = |x| == inf, as bool.
        Args: x, any shape, a floating-point or complex dtype; name. Result: bool tensor of x's shape.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: none, the result is bool. Source: MPSGraph isInfiniteWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.is_infinite(g.constant([1.0, float("inf")]))).tolist()
        [False, True]
        """
        return self._tensor("is_infinite", [x], name)

    def is_finite(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Is x neither infinite nor NaN?

        result = |x| < inf, as bool.
        Args: x, any shape, a floating-point or complex dtype; name. Result: bool tensor of x's shape.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: none, the result is bool. Source: MPSGraph isFiniteWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.is_finite(g.constant([1.0, float("inf")]))).tolist()
        [True, False]
        """
        return self._tensor("is_finite", [x], name)

    def is_nan(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Is x not a number?

        result = x != x, as bool.
        Args: x, any shape, a floating-point or complex dtype; name. Result: bool tensor of x's shape.
        Errors: DTypeError unless x has a floating-point or complex dtype.
        Gradient: none, the result is bool. Source: MPSGraph isNaNWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.is_nan(g.constant([1.0, float("nan")]))).tolist()
        [False, True]
        """
        return self._tensor("is_nan", [x], name)

    def bitwise_not(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Every bit inverted.

        result = ~x.
        Args: x, any shape, an integer dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has an integer dtype.
        Gradient: none, integers have no gradient. Source: MPSGraph bitwiseNOTWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.bitwise_not(g.constant([0, 5]))).tolist()
        [-1, -6]
        """
        return self._tensor("bitwise_not", [x], name)

    def bitwise_population_count(self, x: TensorLike, name: str | None = None) -> Tensor:
        """The number of bits that are set.

        result = popcount(x).
        Args: x, any shape, an integer dtype; name, the operation's name. Result: x's shape and dtype.
        Errors: DTypeError unless x has an integer dtype.
        Gradient: none, integers have no gradient. Source: MPSGraph bitwisePopulationCountWithTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.bitwise_population_count(g.constant([0, 7]))).tolist()
        [0, 3]
        """
        return self._tensor("bitwise_population_count", [x], name)
