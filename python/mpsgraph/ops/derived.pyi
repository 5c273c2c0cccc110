"""Signatures of the Graph methods that are derived from the schema of operations.

`make stubs` writes this file.
"""

from collections.abc import Sequence

from ._family import AttributeLike, Axes, DTypeLike, Family, ShapeLike, Tensor, TensorLike
from ._padding import Padding
from .pooling_descriptors import Window

class Derived(Family):
    def relu(self, x: Tensor, name: str | None = None) -> Tensor:
        """Apply the rectified linear unit element-wise.

        result = max(x, 0).
        """
    def relu_gradient(self, incoming: Tensor, source: Tensor, name: str | None = None) -> Tensor:
        """Compute the gradient of relu with respect to its source.

        result = source > 0 ? incoming : 0.
        """
    def sigmoid(self, x: Tensor, name: str | None = None) -> Tensor:
        """Apply the logistic function element-wise.

        result = 1 / (1 + e^-x).
        """
    def sigmoid_gradient(self, incoming: Tensor, source: Tensor, name: str | None = None) -> Tensor:
        """Compute the gradient of sigmoid with respect to its source.

        result = incoming * s * (1 - s), where s = sigmoid(source).
        """
    def leaky_relu(self, x: Tensor, alpha: TensorLike = 0.01, name: str | None = None) -> Tensor:
        """Apply the leaky rectified linear unit, which is linear with slope `alpha` below 0.

        result = x > 0 ? x : alpha * x.
        """
    def leaky_relu_gradient(
        self, incoming: Tensor, source: Tensor, alpha: TensorLike = 0.01, name: str | None = None
    ) -> Tensor:
        """Compute the gradient of leaky_relu with respect to its source.

        result = incoming * (source >= 0 ? 1 : alpha). PyTorch uses the slope alpha at 0.
        """
    def softmax(self, x: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """Normalize values along an axis into positive weights that sum to 1.

        result = e^(x - m) / sum(e^(x - m)), where m = max(x). The sum and the maximum are along `axis`; subtracting m
        prevents overflow.
        """
    def softmax_gradient(self, incoming: Tensor, source: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """Compute the gradient of softmax with respect to its source.

        result = s * (incoming - sum(incoming * s)), where s = softmax(source) and sums are along `axis`.
        """
    def log_softmax(self, x: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """Compute the logarithm of softmax without overflow or loss of small probabilities.

        result = x - m - ln(sum(e^(x - m))), where m = max(x). The sum and the maximum are along `axis`.
        """
    def log_softmax_gradient(self, incoming: Tensor, source: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """Compute the gradient of log_softmax with respect to its source.

        result = incoming - softmax(source) * sum(incoming), where the sum and softmax are along `axis`.
        """
    def identity(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Return x unchanged, as a new tensor.

        result = x.
        """
    def exponent(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the natural exponential element-wise.

        result = e^x.
        """
    def exponent_base2(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Raise 2 to the power x element-wise.

        result = 2^x.
        """
    def exponent_base10(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Raise 10 to the power x element-wise.

        result = 10^x.
        """
    def logarithm(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the natural logarithm element-wise.

        result = ln x. Real x gives NaN below 0 and -inf at 0.
        """
    def logarithm_base2(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the logarithm to base 2 element-wise.

        result = log2 x.
        """
    def logarithm_base10(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the logarithm to base 10 element-wise.

        result = log10 x.
        """
    def square(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Square x element-wise.

        result = x * x.
        """
    def square_root(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the square root element-wise.

        result = sqrt(x). Real x gives NaN below 0.
        """
    def reciprocal_square_root(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the reciprocal of the square root element-wise.

        result = 1 / sqrt(x).
        """
    def reverse_square_root(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the reciprocal of the square root element-wise, under MPSGraph's deprecated name.

        result = 1 / sqrt(x). Prefer `reciprocal_square_root`, which computes the same.
        """
    def reciprocal(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the reciprocal element-wise.

        result = 1 / x.
        """
    def negative(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Negate x element-wise.

        result = -x.
        """
    def sign(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the sign element-wise.

        result = -1 where x < 0, 0 where x = 0, and 1 where x > 0.
        """
    def signbit(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Return whether the sign bit is set, element-wise: True for negative numbers and for -0.0.

        result = sign bit of x, as bool.
        """
    def ceil(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Round up element-wise.

        result = the smallest integer >= x.
        """
    def floor(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Round down element-wise.

        result = the largest integer <= x.
        """
    def round(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Round to the nearest integer element-wise, with ties away from zero.

        result = sign(x) * floor(|x| + 1/2).
        """
    def rint(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Round to the nearest integer element-wise, with ties to even.

        result = rint(x).
        """
    def truncate(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Round toward zero element-wise.

        result = the integer part of x.
        """
    def sin(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the sine of angles in radians, element-wise.

        result = sin x.
        """
    def cos(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the cosine of angles in radians, element-wise.

        result = cos x.
        """
    def tan(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the tangent of angles in radians, element-wise.

        result = tan x.
        """
    def sinh(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the hyperbolic sine element-wise.

        result = (e^x - e^-x) / 2.
        """
    def cosh(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the hyperbolic cosine element-wise.

        result = (e^x + e^-x) / 2.
        """
    def tanh(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the hyperbolic tangent element-wise.

        result = sinh x / cosh x.
        """
    def asin(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the arcsine element-wise, in radians.

        result = asin x. Real x gives a result in [-pi/2, pi/2], and NaN outside [-1, 1].
        """
    def acos(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the arccosine element-wise, in radians.

        result = acos x. Real x gives a result in [0, pi], and NaN outside [-1, 1].
        """
    def atan(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the arctangent element-wise, in radians.

        result = atan x. Real x gives a result in [-pi/2, pi/2].
        """
    def asinh(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the inverse hyperbolic sine element-wise.

        result = ln(x + sqrt(x^2 + 1)).
        """
    def acosh(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the inverse hyperbolic cosine element-wise.

        result = ln(x + sqrt(x^2 - 1)). Real x gives NaN below 1.
        """
    def atanh(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the inverse hyperbolic tangent element-wise.

        result = ln((1 + x) / (1 - x)) / 2. Real x gives NaN outside [-1, 1].
        """
    def erf(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the Gauss error function element-wise.

        result = 2 / sqrt(pi) * the integral of e^(-t^2) for t from 0 to x.
        """
    def not_(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the logical NOT element-wise.

        result = not x.
        """
    def is_infinite(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Return whether elements are positive or negative infinity.

        result = |x| == inf, as bool.
        """
    def is_finite(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Return whether elements are finite: neither infinite nor NaN.

        result = |x| < inf, as bool.
        """
    def is_nan(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Return whether elements are NaN.

        result = x != x, as bool.
        """
    def bitwise_not(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Invert every bit element-wise.

        result = ~x.
        """
    def bitwise_population_count(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Count the bits that are set in each element.

        result = popcount(x).
        """
    def addition(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Add two operands element-wise.

        result = primary + secondary.
        """
    def subtraction(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Subtract secondary from primary element-wise.

        result = primary - secondary.
        """
    def multiplication(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Multiply two operands element-wise.

        result = primary * secondary.
        """
    def division(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Divide primary by secondary element-wise; integer quotients are rounded toward zero.

        result = primary / secondary.
        """
    def division_no_nan(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Divide primary by secondary element-wise, returning 0 where the divisor is 0.

        result = secondary == 0 ? 0 : primary / secondary.
        """
    def modulo(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the remainder with the sign of the dividend element-wise, as C's fmod does.

        result = primary - secondary * truncate(primary / secondary).
        """
    def floor_modulo(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the remainder with the sign of the divisor element-wise, as Python's % does.

        result = primary - secondary * floor(primary / secondary).
        """
    def power(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Raise primary to the power secondary element-wise.

        result = primary^secondary.
        """
    def minimum(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Return the smaller of two operands element-wise; if one is NaN, return the other.

        result = min(primary, secondary).
        """
    def maximum(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Return the larger of two operands element-wise; if one is NaN, return the other.

        result = max(primary, secondary).
        """
    def minimum_with_nan_propagation(
        self, primary: TensorLike, secondary: TensorLike, name: str | None = None
    ) -> Tensor:
        """Return the smaller of two operands element-wise, or NaN if either is NaN.

        result = min(primary, secondary).
        """
    def maximum_with_nan_propagation(
        self, primary: TensorLike, secondary: TensorLike, name: str | None = None
    ) -> Tensor:
        """Return the larger of two operands element-wise, or NaN if either is NaN.

        result = max(primary, secondary).
        """
    def atan2(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the angle of the point (secondary, primary) element-wise, in radians in [-pi, pi].

        result = atan2(primary, secondary).
        """
    def equal(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Return whether the operands are equal, element-wise.

        result = primary == secondary, as bool.
        """
    def not_equal(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Return whether the operands differ, element-wise.

        result = primary != secondary, as bool.
        """
    def less_than(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Return whether primary is less than secondary, element-wise.

        result = primary < secondary, as bool.
        """
    def less_than_or_equal_to(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Return whether primary is less than or equal to secondary, element-wise.

        result = primary <= secondary, as bool.
        """
    def greater_than(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Return whether primary is greater than secondary, element-wise.

        result = primary > secondary, as bool.
        """
    def greater_than_or_equal_to(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Return whether primary is greater than or equal to secondary, element-wise.

        result = primary >= secondary, as bool.
        """
    def logical_and(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the logical AND element-wise: True where both operands are true.

        result = primary and secondary.
        """
    def logical_or(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the logical OR element-wise: True where at least one operand is true.

        result = primary or secondary.
        """
    def logical_nand(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the logical NAND element-wise: True where at least one operand is false.

        result = not (primary and secondary).
        """
    def logical_nor(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the logical NOR element-wise: True where both operands are false.

        result = not (primary or secondary).
        """
    def logical_xor(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the logical XOR element-wise: True where exactly one operand is true.

        result = primary != secondary.
        """
    def logical_xnor(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the logical XNOR element-wise: True where the operands are equal.

        result = primary == secondary.
        """
    def bitwise_and(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the bitwise AND element-wise.

        result = primary & secondary.
        """
    def bitwise_or(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the bitwise OR element-wise.

        result = primary | secondary.
        """
    def bitwise_xor(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the bitwise XOR element-wise.

        result = primary ^ secondary.
        """
    def bitwise_left_shift(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Shift bits to the left element-wise.

        result = primary << secondary.
        """
    def bitwise_right_shift(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Shift bits to the right element-wise; signed integers keep their sign.

        result = primary >> secondary.
        """
    def select(
        self, predicate: Tensor, when_true: TensorLike, when_false: TensorLike, name: str | None = None
    ) -> Tensor:
        """Choose between two tensors element-wise.

        result = predicate ? when_true : when_false. Both operands are computed, but a NaN in the operand that is not
        chosen does not reach the result.
        """
    def clamp(self, x: TensorLike, minimum: TensorLike, maximum: TensorLike, name: str | None = None) -> Tensor:
        """Limit x to the range from minimum to maximum element-wise.

        result = min(max(x, minimum), maximum). NaN in x stays NaN; a NaN bound does not limit x.
        """
    def absolute(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the absolute value element-wise; for complex numbers, the magnitude.

        result = |x|. MPSGraph itself returns a complex tensor with imaginary part 0 for complex x.
        """
    def absolute_square(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the squared magnitude element-wise; for real numbers, x * x.

        result = |x|^2.
        """
    def conjugate(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Compute the complex conjugate element-wise; a real x is returned unchanged.

        result = real(x) - i imaginary(x).
        """
    def real_part(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Return the real part of complex numbers.

        result = real(x).
        """
    def imaginary_part(self, x: TensorLike, name: str | None = None) -> Tensor:
        """Return the imaginary part of complex numbers.

        result = imaginary(x).
        """
    def complex_tensor(self, real: TensorLike, imaginary: TensorLike, name: str | None = None) -> Tensor:
        """Build complex numbers from their real and imaginary parts.

        result = real + i imaginary.
        """
    def planar_tensor(self, x: Tensor, name: str | None = None) -> Tensor:
        """Lay out the real and imaginary parts of x next to each other along the last axis.

        result[..., i] = real(x[..., i]) and result[..., n + i] = imaginary(x[..., i]), where n is the size of the last
        axis of x. A real x is returned unchanged.
        """
    def convolution2d(
        self,
        source: Tensor,
        weights: Tensor,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        padding: Padding = 'TF_VALID',
        data_layout: str = 'NHWC',
        weights_layout: str = 'HWIO',
        name: str | None = None,
    ) -> Tensor:
        """Compute a two-dimensional convolution (a cross-correlation, as usual in machine learning).

        result[n, y, x, o] = sum over i, j, c of
        source[n, y * stride_y + i * dilation_y - top, x * stride_x + j * dilation_x - left, c] * weights[i, j, c, o].
        """
    def convolution2d_data_gradient(
        self,
        incoming: Tensor,
        weights: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        padding: Padding = 'TF_VALID',
        data_layout: str = 'NHWC',
        weights_layout: str = 'HWIO',
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of convolution2d with respect to its source.

        result[n, y, x, c] = sum of incoming * weights over all uses of source[n, y, x, c] in the convolution.
        """
    def convolution2d_weights_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        padding: Padding = 'TF_VALID',
        data_layout: str = 'NHWC',
        weights_layout: str = 'HWIO',
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of convolution2d with respect to its weights.

        result[i, j, c, o] = sum of incoming * source over all uses of weights[i, j, c, o] in the convolution.
        """
    def convolution3d(
        self,
        source: Tensor,
        weights: Tensor,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        padding: Padding = 'TF_VALID',
        data_layout: str = 'NDHWC',
        weights_layout: str = 'DHWIO',
        name: str | None = None,
    ) -> Tensor:
        """Compute a three-dimensional convolution (a cross-correlation): convolution2d with an additional depth axis.

        result[n, z, y, x, o] = sum over h, i, j, c of
        source[n, z * stride_z + h * dilation_z - front, y * stride_y + ..., x * ..., c] * weights[h, i, j, c, o].
        """
    def convolution3d_data_gradient(
        self,
        incoming: Tensor,
        weights: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        padding: Padding = 'TF_VALID',
        data_layout: str = 'NDHWC',
        weights_layout: str = 'DHWIO',
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of convolution3d with respect to its source.

        This operation also serves as the transposed convolution over three axes.

        result[n, z, y, x, c] = sum of incoming * weights over all uses of source[n, z, y, x, c] in the convolution.
        """
    def convolution3d_weights_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        padding: Padding = 'TF_VALID',
        data_layout: str = 'NDHWC',
        weights_layout: str = 'DHWIO',
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of convolution3d with respect to its weights.

        result[h, i, j, c, o] = sum of incoming * source over all uses of weights[h, i, j, c, o] in the convolution.
        """
    def depthwise_convolution2d(
        self,
        source: Tensor,
        weights: Tensor,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        padding: Padding = 'TF_VALID',
        data_layout: str = 'NHWC',
        weights_layout: str = 'HWIO',
        name: str | None = None,
    ) -> Tensor:
        """Convolve each channel of an image separately.

        result[n, y, x, c * M + m] = sum over i, j of
        source[n, y * stride_y + i * dilation_y - top, x * stride_x + ..., c] * weights[i, j, c, m].
        """
    def depthwise_convolution2d_data_gradient(
        self,
        incoming: Tensor,
        weights: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        padding: Padding = 'TF_VALID',
        data_layout: str = 'NHWC',
        weights_layout: str = 'HWIO',
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of depthwise_convolution2d with respect to its source.

        result[n, y, x, c] = sum of incoming * weights over all uses of source[n, y, x, c] in the convolution.
        """
    def depthwise_convolution2d_weights_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        padding: Padding = 'TF_VALID',
        data_layout: str = 'NHWC',
        weights_layout: str = 'HWIO',
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of depthwise_convolution2d with respect to its weights.

        result[i, j, c, m] = sum of incoming * source over all uses of weights[i, j, c, m] in the convolution.
        """
    def depthwise_convolution3d(
        self,
        source: Tensor,
        weights: Tensor,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        padding: Padding = 'TF_VALID',
        channel_dimension_index: int = -4,
        name: str | None = None,
    ) -> Tensor:
        """Convolve each channel of a volume separately.

        result[..., c * M + m, z, y, x] = sum over h, i, j of
        source[..., c, z * stride_z + h * dilation_z - front, y * ..., x * ...] * weights[c * M + m, h, i, j].
        """
    def depthwise_convolution3d_data_gradient(
        self,
        incoming: Tensor,
        weights: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        padding: Padding = 'TF_VALID',
        channel_dimension_index: int = -4,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of depthwise_convolution3d with respect to its source.

        result[..., c, z, y, x] = sum of incoming * weights over all uses of source[..., c, z, y, x] in the convolution.
        """
    def depthwise_convolution3d_weights_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        padding: Padding = 'TF_VALID',
        channel_dimension_index: int = -4,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of depthwise_convolution3d with respect to its weights.

        result[c, h, i, j] = sum of incoming * source over all uses of weights[c, h, i, j] in the convolution.
        """
    def convolution_transpose2d(
        self,
        source: Tensor,
        weights: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        padding: Padding = 'TF_VALID',
        data_layout: str = 'NHWC',
        weights_layout: str = 'HWIO',
        name: str | None = None,
    ) -> Tensor:
        """Compute a transposed two-dimensional convolution.

        With a stride above 1, a transposed convolution enlarges an image, and a convolution with that stride shrinks
        it.

        This is convolution2d_data_gradient: its arguments describe the forward convolution, from output_shape to the
        shape of source. It computes

            result[n, y * stride_y + i * dilation_y - top, x * stride_x + ..., c] +=
                source[n, y, x, o] * weights[i, j, c, o]
        """
    def convolution_transpose2d_data_gradient(
        self,
        incoming: Tensor,
        weights: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        padding: Padding = 'TF_VALID',
        data_layout: str = 'NHWC',
        weights_layout: str = 'HWIO',
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of convolution_transpose2d with respect to its source, which is a forward convolution.

        result = convolution2d(incoming, weights).
        """
    def convolution_transpose2d_weights_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        output_shape: ShapeLike,
        *,
        strides: int | Sequence[int] = 1,
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        padding: Padding = 'TF_VALID',
        data_layout: str = 'NHWC',
        weights_layout: str = 'HWIO',
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of convolution_transpose2d with respect to its weights.

        result[i, j, c, o] = sum of incoming * source over all uses of weights[i, j, c, o]. This is
        convolution2d_weights_gradient with incoming and source exchanged.
        """
    def cumulative_sum(
        self, x: Tensor, axis: int | Tensor, exclusive: bool = False, reverse: bool = False, name: str | None = None
    ) -> Tensor:
        """Compute the cumulative sum along an axis.

        result_i = x_0 + ... + x_i; with `exclusive`, x_0 + ... + x_(i-1), starting with 0.
        """
    def cumulative_product(
        self, x: Tensor, axis: int | Tensor, exclusive: bool = False, reverse: bool = False, name: str | None = None
    ) -> Tensor:
        """Compute the cumulative product along an axis.

        result_i = x_0 * ... * x_i; with `exclusive`, x_0 * ... * x_(i-1), starting with 1.
        """
    def cumulative_minimum(
        self, x: Tensor, axis: int | Tensor, exclusive: bool = False, reverse: bool = False, name: str | None = None
    ) -> Tensor:
        """Compute the cumulative minimum along an axis; from the first NaN on, results are NaN.

        result_i = min(x_0, ..., x_i); with `exclusive`, min(x_0, ..., x_(i-1)), starting with infinity or the largest
        integer of the dtype.
        """
    def cumulative_maximum(
        self, x: Tensor, axis: int | Tensor, exclusive: bool = False, reverse: bool = False, name: str | None = None
    ) -> Tensor:
        """Compute the cumulative maximum along an axis; from the first NaN on, results are NaN.

        result_i = max(x_0, ..., x_i); with `exclusive`, max(x_0, ..., x_(i-1)), starting with -infinity or the lowest
        integer of the dtype.
        """
    def gather(
        self,
        updates: Tensor,
        indices: Tensor,
        axis: int = 0,
        batch_dimensions: int = 0,
        name: str | None = None,
        *,
        out_of_range: str = 'zeros',
    ) -> Tensor:
        """Select slices of a tensor along an axis by index.

        result[b..., o..., i..., r...] = updates[b..., o..., indices[b..., i...], r...], with the index at position
        `axis`.
        """
    def gather_gradient(
        self,
        incoming: Tensor,
        indices: Tensor,
        input_shape: ShapeLike,
        axis: int = 0,
        batch_dimensions: int = 0,
        name: str | None = None,
        *,
        out_of_range: str = 'zeros',
    ) -> Tensor:
        """Compute the gradient of gather with respect to its updates, by adding slices at their indices.

        result = zeros of input_shape, with each slice of incoming added at its index.
        """
    def gather_nd(
        self,
        updates: Tensor,
        indices: Tensor,
        batch_dimensions: int = 0,
        name: str | None = None,
        *,
        out_of_range: str = 'zeros',
    ) -> Tensor:
        """Select slices of a tensor by index vectors.

        result[b..., i..., r...] = updates[b..., indices[b..., i..., 0], indices[b..., i..., 1], ..., r...].
        """
    def gather_along_axis(
        self,
        axis: int | Tensor,
        updates: Tensor,
        indices: Tensor,
        name: str | None = None,
        *,
        out_of_range: str = 'zeros',
    ) -> Tensor:
        """Select elements of a tensor along an axis, with a separate index for each element of the result.

        result[..., i, ...] = updates[..., indices[..., i, ...], ...], with the index at position `axis`.
        """
    def one_hot(
        self,
        indices: Tensor,
        depth: int,
        axis: int = -1,
        dtype: DTypeLike = 'float32',
        on_value: float = 1.0,
        off_value: float = 0.0,
        name: str | None = None,
        *,
        out_of_range: str = 'zeros',
    ) -> Tensor:
        """Convert indices to one-hot vectors along a new axis.

        result[..., k, ...] = k == indices[...] ? on_value : off_value, where k is the index along the new axis.
        """
    def band_part(self, x: Tensor, num_lower: int | Tensor, num_upper: int | Tensor, name: str | None = None) -> Tensor:
        """Set the elements of matrices outside a band around the diagonal to zero.

        result[..., i, j] = x[..., i, j] where i - j <= num_lower and j - i <= num_upper, and 0 elsewhere.
        """
    def softmax_cross_entropy(
        self, source: Tensor, labels: Tensor, axis: int = -1, reduction: str = 'sum', name: str | None = None
    ) -> Tensor:
        """Compute the cross-entropy between labels and the softmax of source, in nats.

        loss = -sum along `axis` of labels * log_softmax(source). The result is the losses, their sum, or their mean.
        """
    def softmax_cross_entropy_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        labels: Tensor,
        axis: int = -1,
        reduction: str = 'sum',
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of softmax_cross_entropy with respect to its source.

        result = incoming * (softmax(source) * sum(labels) - labels), divided by the number of losses if reduction is
        "mean".
        """
    def matrix_multiplication(self, primary: Tensor, secondary: Tensor, name: str | None = None) -> Tensor:
        """Multiply matrices over the last two axes, batched over the leading axes.

        result[..., i, j] = sum over k of primary[..., i, k] * secondary[..., k, j]. Integer results are exact and wrap
        around in two's complement; for bool operands, the result is whether both are True for any k.
        """
    def matrix_inverse(self, x: Tensor, name: str | None = None) -> Tensor:
        """Invert square matrices, batched over the leading axes.

        result @ x = x @ result = identity matrix.
        """
    def read(self, variable: Tensor, name: str | None = None) -> Tensor:
        """Read the value of a variable at this point in the order of creation."""
    def mean(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Compute the mean over axes.

        result = sum of x over `axes` / number of elements summed. The reduced axes stay, with size 1.
        """
    def variance(self, x: Tensor, mean: Tensor | None = None, axes: Axes = None, name: str | None = None) -> Tensor:
        """Compute the population variance over axes (dividing by n, not n - 1).

        result = mean of (x - mean)^2 over `axes`. The reduced axes stay, with size 1.
        """
    def normalization_gamma_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        mean: Tensor,
        variance: Tensor,
        axes: Axes = None,
        epsilon: float = 1e-05,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of a normalization with respect to gamma.

        result = sum over `axes` of incoming * (source - mean) / sqrt(variance + epsilon). The reduced axes stay, with
        size 1.
        """
    def normalization_beta_gradient(
        self, incoming: Tensor, source: Tensor, axes: Axes = None, name: str | None = None
    ) -> Tensor:
        """Compute the gradient of a normalization with respect to beta.

        result = sum of incoming over `axes`, which stay with size 1.
        """
    def stochastic_gradient_descent(
        self, learning_rate: TensorLike, values: Tensor, gradient: Tensor, name: str | None = None
    ) -> Tensor:
        """Compute one step of stochastic gradient descent.

        result = values - learning_rate * gradient.
        """
    def max_pooling2d(
        self,
        source: Tensor,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = 'TF_VALID',
        dilations: int | Sequence[int] = 1,
        data_layout: str = 'NHWC',
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the maximum of each window of an image.

        result[n, y, x, c] = max over i, j of source[n, y * stride_y + i * dilation_y - top, x * stride_x + ..., c].
        Padding is never the maximum.
        """
    def max_pooling2d_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = 'TF_VALID',
        dilations: int | Sequence[int] = 1,
        data_layout: str = 'NHWC',
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of max_pooling2d with respect to its source.

        The result starts as zeros, and each element of incoming is added at the first maximum of its window.
        """
    def avg_pooling2d(
        self,
        source: Tensor,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = 'TF_VALID',
        dilations: int | Sequence[int] = 1,
        data_layout: str = 'NHWC',
        ceil_mode: bool = False,
        include_zero_pad_to_average: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the mean of each window of an image.

        result[n, y, x, c] = mean of source over the window. Padding counts as zeros with include_zero_pad_to_average;
        otherwise the mean is taken over the pixels inside the image.
        """
    def avg_pooling2d_gradient(
        self,
        incoming: Tensor,
        input_shape: ShapeLike,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = 'TF_VALID',
        dilations: int | Sequence[int] = 1,
        data_layout: str = 'NHWC',
        ceil_mode: bool = False,
        include_zero_pad_to_average: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of avg_pooling2d with respect to its source.

        Each element of incoming is divided equally among the elements of its window, and the shares are added up.
        """
    def max_pooling4d(
        self,
        source: Tensor,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = 'TF_VALID',
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the maximum of each window over the last four axes.

        result[..., a, b, y, x] = max over the window of source[..., a * stride_a + i * dilation_a - before_a, ...].
        Padding is never the maximum.
        """
    def max_pooling4d_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = 'TF_VALID',
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of max_pooling4d with respect to its source.

        The result starts as zeros, and each element of incoming is added at the first maximum of its window.
        """
    def avg_pooling4d(
        self,
        source: Tensor,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = 'TF_VALID',
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        include_zero_pad_to_average: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the mean of each window over the last four axes.

        result = mean of source over the window. Padding counts as zeros with include_zero_pad_to_average; otherwise the
        mean is taken over the elements inside the source.
        """
    def avg_pooling4d_gradient(
        self,
        incoming: Tensor,
        input_shape: ShapeLike,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = 'TF_VALID',
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        include_zero_pad_to_average: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of avg_pooling4d with respect to its source.

        Each element of incoming is divided equally among the elements of its window, and the shares are added up.
        """
    def l2_norm_pooling4d(
        self,
        source: Tensor,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = 'TF_VALID',
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the Euclidean norm of each window over the last four axes.

        result = sqrt(sum over the window of source * source). Padding counts as zeros.
        """
    def l2_norm_pooling4d_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        padding: Padding = 'TF_VALID',
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of l2_norm_pooling4d with respect to its source.

        result = source * the sum of incoming / norm over the windows that contain the element; a window of zeros
        contributes 0.
        """
    def max_pooling2d_return_indices(
        self,
        source: Tensor,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        return_indices_mode: str = 'global_flatten_4d',
        padding: Padding = 'TF_VALID',
        dilations: int | Sequence[int] = 1,
        data_layout: str = 'NHWC',
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Compute the maximum of each window of an image, and the index of its first occurrence.

        values = max_pooling2d(source); indices[n, y, x, c] = the position of the maximum, counted in row-major order
        over the last k axes of the source or of the window.
        """
    def max_pooling2d_gradient_from_indices(
        self,
        incoming: Tensor,
        indices: Tensor,
        output_shape: ShapeLike,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        return_indices_mode: str = 'global_flatten_4d',
        padding: Padding = 'TF_VALID',
        dilations: int | Sequence[int] = 1,
        data_layout: str = 'NHWC',
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of max_pooling2d with respect to its source, from the indices of the forward pass.

        The result starts as zeros, and each element of incoming is added at the position that its index points to.
        Indices that point outside the image, or with NCHW outside the channel, are skipped.
        """
    def max_pooling4d_return_indices(
        self,
        source: Tensor,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        return_indices_mode: str = 'global_flatten_4d',
        padding: Padding = 'TF_VALID',
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Compute the maximum of each window over the last four axes, and the index of its first occurrence.

        values = max_pooling4d(source); indices = the position of each maximum, counted as by
        max_pooling2d_return_indices.
        """
    def max_pooling4d_gradient_from_indices(
        self,
        incoming: Tensor,
        indices: Tensor,
        output_shape: ShapeLike,
        kernel: Window,
        strides: int | Sequence[int] | None = None,
        *,
        return_indices_mode: str = 'global_flatten_4d',
        padding: Padding = 'TF_VALID',
        dilations: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of max_pooling4d with respect to its source, from the indices of the forward pass.

        The result starts as zeros, and each element of incoming is added at the position that its index points to.
        Indices that point outside the window axes are skipped.
        """
    def straight_through(self, value: Tensor, source: Tensor, name: str | None = None) -> Tensor:
        """Return a value whose gradient goes to another tensor (the straight-through estimator).

        result = value.
        """
    def reduction_sum(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Sum elements along axes.

        result = sum of x over `axes`. The reduced axes stay, with size 1.
        """
    def reduction_product(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Multiply elements along axes.

        result = product of x over `axes`. The reduced axes stay, with size 1.
        """
    def reduction_maximum(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Return the largest element along axes, ignoring NaN.

        result = maximum of x over `axes`. The reduced axes stay, with size 1.
        """
    def reduction_minimum(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Return the smallest element along axes, ignoring NaN.

        result = minimum of x over `axes`. The reduced axes stay, with size 1.
        """
    def reduction_maximum_propagate_nan(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Return the largest element along axes, or NaN if any element is NaN.

        result = maximum of x over `axes`. The reduced axes stay, with size 1.
        """
    def reduction_minimum_propagate_nan(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Return the smallest element along axes, or NaN if any element is NaN.

        result = minimum of x over `axes`. The reduced axes stay, with size 1.
        """
    def reduction_and(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Return whether all elements along axes are true.

        result = the logical AND of x over `axes`. The reduced axes stay, with size 1.
        """
    def reduction_or(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Return whether any element along axes is true.

        result = the logical OR of x over `axes`. The reduced axes stay, with size 1.
        """
    def reduction_arg_maximum(self, x: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """Return the index of the largest element along an axis, or of the first of several equal elements.

        result = the index of the maximum along `axis`; the axis stays, with size 1.
        """
    def reduction_arg_minimum(self, x: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """Return the index of the smallest element along an axis, or of the first of several equal elements.

        result = the index of the minimum along `axis`; the axis stays, with size 1.
        """
    def reshape(self, x: Tensor, shape: ShapeLike, name: str | None = None) -> Tensor:
        """Return the elements of x, in row-major order, with a new shape."""
    def transpose(self, x: Tensor, permutation: Sequence[int], name: str | None = None) -> Tensor:
        """Permute the axes of a tensor.

        Axis i of the result is axis permutation[i] of x.
        """
    def expand_dims(self, x: Tensor, axes: AttributeLike, name: str | None = None) -> Tensor:
        """Insert axes of size 1."""
    def flatten2d(self, x: Tensor, axis: int | Tensor = 1, name: str | None = None) -> Tensor:
        """Reshape a tensor into a matrix: the axes before `axis` become the rows, the others the columns."""
    def broadcast_to(self, x: Tensor, shape: ShapeLike, name: str | None = None) -> Tensor:
        """Broadcast a tensor to a shape."""
    def shape_of(self, x: Tensor, name: str | None = None) -> Tensor:
        """Return the shape of a tensor as a tensor, even if it is known only when the graph runs."""
    def cast(self, x: Tensor, dtype: DTypeLike, name: str | None = None) -> Tensor:
        """Convert a tensor to another dtype.

        Floating-point numbers are truncated toward zero to integers and rounded to nearest even to narrower
        floating-point types; conversion to bool yields True for nonzero numbers.
        """
    def space_to_batch(
        self,
        x: Tensor,
        spatial_axes: AttributeLike,
        batch_axis: int | Tensor,
        block_dimensions: AttributeLike,
        use_pixel_shuffle_order: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Move blocks of any number of axes to another axis.

        For two axes and blocks of (p, q), result[(i * q + j) * n + b, y, x] = x[b, y * p + i, x * q + j]. Here, n is
        the size of the batch axis of x. With use_pixel_shuffle_order, the batch index is (b * p + i) * q + j.
        """
    def batch_to_space(
        self,
        x: Tensor,
        spatial_axes: AttributeLike,
        batch_axis: int | Tensor,
        block_dimensions: AttributeLike,
        use_pixel_shuffle_order: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Move one axis to blocks of other axes, the inverse of space_to_batch.

        For two axes and blocks of (p, q), result[b, y * p + i, x * q + j] = x[(i * q + j) * n + b, y, x]. Here, n is
        the size of the batch axis of the result. With use_pixel_shuffle_order, the batch index is (b * p + i) * q + j.
        """
    def space_to_depth2d(
        self,
        x: Tensor,
        width_axis: int | Tensor,
        height_axis: int | Tensor,
        depth_axis: int | Tensor,
        block_size: int,
        use_pixel_shuffle_order: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Move square blocks of height and width to the depth axis.

        result[y, x, (i * block_size + j) * depth + d] = x[y * block_size + i, x * block_size + j, d]. Here, depth is
        the size of the depth axis of x. With use_pixel_shuffle_order, the depth index is (d * block_size + i) *
        block_size + j.
        """
    def depth_to_space2d(
        self,
        x: Tensor,
        width_axis: int | Tensor,
        height_axis: int | Tensor,
        depth_axis: int | Tensor,
        block_size: int,
        use_pixel_shuffle_order: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Move the depth axis to square blocks of height and width, the inverse of space_to_depth2d.

        result[y * block_size + i, x * block_size + j, d] = x[y, x, (i * block_size + j) * depth + d]. Here, depth is
        the size of the depth axis of the result. With use_pixel_shuffle_order, the depth index is (d * block_size + i)
        * block_size + j, as in PyTorch's pixel_shuffle.
        """
    def reinterpret_cast(self, x: Tensor, dtype: DTypeLike, name: str | None = None) -> Tensor:
        """Reinterpret the bytes of a tensor as another dtype.

        The size of the last axis changes with the size of the elements.
        """
    def coordinate_along_axis(self, axis: int | Tensor, shape: ShapeLike, name: str | None = None) -> Tensor:
        """Return the index of each element along an axis.

        result[i_0, i_1, ...] = i_axis.
        """
    def tile(self, x: Tensor, multiplier: Sequence[int], name: str | None = None) -> Tensor:
        """Repeat a tensor along its axes."""
    def tile_gradient(
        self, incoming: Tensor, input_shape: ShapeLike, multiplier: Sequence[int], name: str | None = None
    ) -> Tensor:
        """Compute the gradient of tile with respect to its source: the sum of the tiles."""
    def concat(self, tensors: Sequence[Tensor], axis: int, interleave: bool = False, name: str | None = None) -> Tensor:
        """Concatenate tensors along an axis."""
    def stack(self, tensors: Sequence[Tensor], axis: int = 0, name: str | None = None) -> Tensor:
        """Join tensors of the same shape along a new axis."""
    def sort(self, x: Tensor, axis: int | Tensor = -1, descending: bool = False, name: str | None = None) -> Tensor:
        """Sort elements along an axis.

        result_0 <= result_1 <= ..., or in reverse with descending. NaN is greater than any number.
        """
    def arg_sort(self, x: Tensor, axis: int | Tensor = -1, descending: bool = False, name: str | None = None) -> Tensor:
        """Return the indices that sort elements along an axis; equal elements keep their order.

        x[result_0] <= x[result_1] <= ..., or in reverse with descending. NaN is greater than any number.
        """
    def top_k(self, x: Tensor, k: int | Tensor, axis: int | Tensor = -1, name: str | None = None) -> list[Tensor]:
        """Return the k largest elements along an axis, in descending order, and their indices.

        Equal elements are in the order of their indices. NaN is greater than any number.
        """
    def bottom_k(self, x: Tensor, k: int | Tensor, axis: int | Tensor = -1, name: str | None = None) -> list[Tensor]:
        """Return the k smallest elements along an axis, in ascending order, and their indices.

        Equal elements are in the order of their indices. NaN is greater than any number.
        """
    def top_k_gradient(
        self, incoming: Tensor, source: Tensor, k: int | Tensor, axis: int | Tensor = -1, name: str | None = None
    ) -> Tensor:
        """Compute the gradient of the values of top_k with respect to its source.

        result = incoming at the positions of the k largest elements of source, zeros elsewhere.
        """
    def bottom_k_gradient(
        self, incoming: Tensor, source: Tensor, k: int | Tensor, axis: int | Tensor = -1, name: str | None = None
    ) -> Tensor:
        """Compute the gradient of the values of bottom_k with respect to its source.

        result = incoming at the positions of the k smallest elements of source, zeros elsewhere.
        """
