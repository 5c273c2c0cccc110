"""Smooth activations, as modules, and as functions where MPSGraph composes them from other operations.

The compiler fuses each composition into one kernel, so `gelu` built from basic operations costs no more than a
built-in. Results for NaN, infinity, and the extremes of a dtype match PyTorch's; bfloat16 and float16 are computed in
float32.
"""

from __future__ import annotations

import math

from .._checks import Size, checked
from .._core import Tensor, float64
from .._display import shown
from ..errors import GraphError
from ..precision.mixed_precision import rounded_once
from .initialisers import Constant
from .layers import along_channels, channel_axis, size_of
from .module import Module
from .parts import graph_of


def _zero(x: Tensor) -> Tensor:
    return graph_of(x).constant(0.0, dtype=x.dtype)


def exponent_minus_one(x: Tensor) -> Tensor:
    """Return e^x - 1 for x <= 0, without cancellation near 0.

    Near 0, float32 uses the first two terms of the series, which keeps the relative error below 6e-5. float64 adds e^x
    * (x - ln(e^x)), which corrects the rounding error of the computed power e^x, at the cost of a logarithm.
    """
    g, power = graph_of(x), graph_of(x).exponent(x)
    if x.dtype == float64:
        near = x > -1.0
        lost = g.select(near, x, _zero(x)) - g.logarithm(g.select(near, power, g.constant(1.0, dtype=x.dtype)))
        return (power - 1.0) + power * lost
    near = x > -1 / 1024
    little = g.select(near, x, _zero(x))
    return g.select(near, little * (little * 0.5 + 1.0), power - 1.0)


def logarithm_of_one_plus(x: Tensor) -> Tensor:
    """Return ln(1 + x), corrected for the rounding error of 1 + x."""
    g, one_plus = graph_of(x), x + 1.0
    return g.logarithm(one_plus) - ((one_plus - 1.0) - x) / one_plus


@rounded_once
@checked
def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """Gaussian error linear unit.

    Computes x / 2 * (1 + erf(x / sqrt(2))), or the approximation x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).

    Args:
        x: Floating-point tensor of any shape.
        approximate: "none" for the exact form, the default, or "tanh" for the approximation.

    Returns:
        A tensor with the shape and dtype of x.

    Raises:
        GraphError: If approximate is neither "none" nor "tanh".
        DTypeError: If x is not a floating-point tensor.

    Source: Hendrycks and Gimpel, arXiv:1606.08415.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.activations.gelu(g.constant([0.0]))).tolist()
        [0.0]
    """
    if approximate not in ("none", "tanh"):
        raise GraphError(f'gelu: approximate must be "none" or "tanh", got {shown(approximate)}')
    if approximate == "none":
        return x * 0.5 * (graph_of(x).erf(x * math.sqrt(0.5)) + 1.0)
    cubic = x + x * x * x * 0.044715
    return x * 0.5 * (graph_of(x).tanh(cubic * math.sqrt(2 / math.pi)) + 1.0)


@checked
@rounded_once
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Exponential linear unit: x where x > 0, otherwise alpha * (e^x - 1).

    Args:
        x: Floating-point tensor of any shape.
        alpha: Scale of the negative part. Defaults to 1.

    Returns:
        A tensor with the shape and dtype of x.

    Raises:
        DTypeError: If x is not a floating-point tensor.

    Source: Clevert et al., arXiv:1511.07289.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.activations.elu(g.constant([2.0, 0.0]))).tolist()
        [2.0, 0.0]
    """
    g, above = graph_of(x), x > 0.0
    return g.select(above, x, exponent_minus_one(g.select(above, _zero(x), x)) * alpha)


@checked
@rounded_once
def silu(x: Tensor) -> Tensor:
    """Sigmoid linear unit, also called swish: x * sigmoid(x).

    Args:
        x: Floating-point tensor of any shape.

    Returns:
        A tensor with the shape and dtype of x.

    Raises:
        DTypeError: If x is not a floating-point tensor.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.activations.silu(g.constant([0.0]))).tolist()
        [0.0]
    """
    return x * graph_of(x).sigmoid(x)


def softplus_parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return max(x, 0), max(-x, 0), and ln(1 + e^-|x|).

    The first plus the last is softplus(x); the second plus the last is softplus(-x). Selections are used instead of
    relu and abs, which would both have slope 0 at 0.
    """
    g, above = graph_of(x), x >= 0.0
    rest = logarithm_of_one_plus(g.exponent(g.select(above, -x, x)))
    return g.select(above, x, _zero(x)), g.select(above, _zero(x), -x), rest


@checked
@rounded_once
def softplus(x: Tensor, beta: float = 1.0) -> Tensor:
    """Softplus: ln(1 + e^(beta x)) / beta.

    Computed as max(x, 0) + ln(1 + e^-|beta x|) / beta, which neither overflows nor loses small values. The slope at 0
    is 1/2.

    Args:
        x: Floating-point tensor of any shape.
        beta: Sharpness of the bend at 0. Defaults to 1.

    Returns:
        A tensor with the shape and dtype of x.

    Raises:
        DTypeError: If x is not a floating-point tensor.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.activations.softplus(g.constant([1000.0, float("inf")]))).tolist()
        [1000.0, inf]
    """
    if beta == 1:
        above, _, rest = softplus_parts(x)
        return above + rest
    return graph_of(x).select(x >= 0.0, x, _zero(x)) + softplus_parts(x * beta)[2] * (1 / beta)


@checked
@rounded_once
def log_sigmoid(x: Tensor) -> Tensor:
    """Logarithm of the sigmoid, ln(1 / (1 + e^-x)), computed as -softplus(-x).

    Args:
        x: Floating-point tensor of any shape.

    Returns:
        A tensor with the shape and dtype of x.

    Raises:
        DTypeError: If x is not a floating-point tensor.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.activations.log_sigmoid(g.constant([-1000.0]))).tolist()
        [-1000.0]
    """
    return -softplus(-x)


@checked
@rounded_once
def mish(x: Tensor) -> Tensor:
    """Mish: x * tanh(softplus(x)).

    Computed with a single exponential: with p = 1 + e^x, tanh(ln p) = (p^2 - 1) / (p^2 + 1).

    Args:
        x: Floating-point tensor of any shape.

    Returns:
        A tensor with the shape and dtype of x.

    Raises:
        DTypeError: If x is not a floating-point tensor.

    Source: Misra, arXiv:1908.08681.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.activations.mish(g.constant([0.0, float("inf")]))).tolist()
        [0.0, inf]
    """
    g, above = graph_of(x), x >= 0.0
    # For x >= 0, divide the numerator and the denominator of tanh(ln p) by e^2x, so that neither overflows.
    small = g.exponent(g.select(above, -x, x))
    difference = g.select(above, small * 2.0 + 1.0, small * (small + 2.0))
    rest = g.select(above, small * 2.0 * small, g.constant(2.0, dtype=x.dtype))
    return x * (difference / (difference + rest))


@checked
@rounded_once
def selu(x: Tensor) -> Tensor:
    """Scaled exponential linear unit: scale * elu(x, alpha), with the constants that preserve mean 0 and variance 1.

    Args:
        x: Floating-point tensor of any shape.

    Returns:
        A tensor with the shape and dtype of x.

    Raises:
        DTypeError: If x is not a floating-point tensor.

    Source: Klambauer et al., arXiv:1706.02515.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.activations.selu(g.constant([0.0]))).tolist()
        [0.0]
    """
    return elu(x, 1.6732632423543772) * 1.0507009873554805


@checked
@rounded_once
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Continuously differentiable ELU: x where x > 0, otherwise alpha * (e^(x / alpha) - 1).

    Args:
        x: Floating-point tensor of any shape.
        alpha: Scale of the negative part. Defaults to 1.

    Returns:
        A tensor with the shape and dtype of x.

    Raises:
        DTypeError: If x is not a floating-point tensor.

    Source: Barron, arXiv:1704.07483.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.activations.celu(g.constant([2.0, 0.0]), 2.0)).tolist()
        [2.0, 0.0]
    """
    g, above = graph_of(x), x > 0.0
    return g.select(above, x, exponent_minus_one(g.select(above, _zero(x), x) * (1 / alpha)) * alpha)


@checked
@rounded_once
def softsign(x: Tensor) -> Tensor:
    """Softsign: x / (1 + |x|).

    Args:
        x: Floating-point tensor of any shape.

    Returns:
        A tensor with the shape and dtype of x.

    Raises:
        DTypeError: If x is not a floating-point tensor.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.activations.softsign(g.constant([1.0, -3.0]))).tolist()
        [0.5, -0.75]
    """
    return x / (abs(x) + 1.0)


@checked
@rounded_once
def glu(x: Tensor, axis: int = -1) -> Tensor:
    """Gated linear unit: the first half of an axis times the sigmoid of the second half.

    Args:
        x: Floating-point tensor whose size along axis is even.
        axis: Axis to split. Defaults to the last.

    Returns:
        A tensor with the dtype of x and half its size along axis.

    Raises:
        ShapeError: If axis is out of range or its size is odd.
        DTypeError: If x is not a floating-point tensor.

    Source: Dauphin et al., arXiv:1612.08083.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.activations.glu(g.constant([3.0, 0.0]))).tolist()
        [1.5]
    """
    half, gate = graph_of(x).split(x, 2, axis)
    return half * graph_of(x).sigmoid(gate)


class ReLU(Module):
    """Rectified linear unit: max(x, 0) for each element.

    Raises:
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.ReLU()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
        [0. 0. 2.]
    """

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).relu(x)


class LeakyReLU(Module):
    """Leaky rectified linear unit: x where x > 0, otherwise alpha * x.

    Args:
        alpha: Slope for negative inputs. Defaults to 0.01.

    Raises:
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.LeakyReLU(0.1)(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
        [-0.1  0.   2. ]
    """

    def __init__(self, alpha: float = 0.01) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).leaky_relu(x, self.alpha)


class Sigmoid(Module):
    """Logistic sigmoid: 1 / (1 + e^-x) for each element.

    Raises:
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.Sigmoid()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
        [0.269 0.5   0.881]
    """

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).sigmoid(x)


class Tanh(Module):
    """Hyperbolic tangent of each element.

    Raises:
        DTypeError: If the input is neither floating-point nor complex.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.Tanh()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
        [-0.762  0.     0.964]
    """

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).tanh(x)


@rounded_once
def _prelu(x: Tensor, weight: Tensor) -> Tensor:
    return graph_of(x).select(x > 0.0, x, x * weight)


class PReLU(Module):
    """Parametric ReLU: x where x > 0, otherwise weight * x, with a trained slope.

    Args:
        num_parameters: Number of slopes: 1 (the default), or one for each channel.
        initial: Initial value of the slopes. Defaults to 0.25.
        data_layout: "NCW", "NCHW", or "NCDHW" if the channels are on axis 1; any other layout, such as "NHWC" (the
            default), means channels last.

    Attributes:
        weight: (num_parameters,).

    Raises:
        ShapeError: If num_parameters is neither 1 nor the number of channels.
        GraphError: If data_layout is unknown.

    Source: He et al., arXiv:1502.01852.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.PReLU()(g.constant([2.0, -2.0]))).tolist()
        [2.0, -0.5]
    """

    passes_mask = True

    weight: Tensor

    def __init__(self, num_parameters: Size = 1, *, initial: float = 0.25, data_layout: str = "NHWC") -> None:
        self.num_parameters, self.initial, self.data_layout = num_parameters, initial, data_layout

    def build(self, x: Tensor) -> None:
        if self.num_parameters != 1:
            size_of(x, channel_axis(x, self.data_layout, "PReLU"), self.num_parameters, "PReLU")
        self.weight = self.add_parameter("weight", x, [self.num_parameters], Constant(self.initial))

    def forward(self, x: Tensor) -> Tensor:
        if self.num_parameters == 1:
            return _prelu(x, self.weight)
        return _prelu(x, along_channels(self.weight, x, channel_axis(x, self.data_layout, "PReLU")))


class GELU(Module):
    """Gaussian error linear unit: x / 2 * (1 + erf(x / sqrt(2))) for each element.

    Args:
        approximate: "none" for the exact form, the default, or "tanh" for the tanh approximation.

    Raises:
        GraphError: If approximate is neither "none" nor "tanh".
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.GELU()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
        [-0.159  0.     1.954]
    """

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return gelu(x, self.approximate)


class ELU(Module):
    """Exponential linear unit: x where x > 0, otherwise alpha * (e^x - 1).

    Args:
        alpha: Scale of the negative part. Defaults to 1.

    Raises:
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.ELU()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
        [-0.632  0.     2.   ]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return elu(x, self.alpha)


class CELU(ELU):
    """Continuously differentiable ELU: x where x > 0, otherwise alpha * (e^(x / alpha) - 1).

    Args:
        alpha: Scale of the negative part. Defaults to 1.

    Raises:
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.CELU()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
        [-0.632  0.     2.   ]
    """

    def forward(self, x: Tensor) -> Tensor:
        return celu(x, self.alpha)


class SELU(Module):
    """Scaled exponential linear unit, which preserves mean 0 and variance 1.

    Raises:
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.SELU()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
        [-1.111  0.     2.101]
    """

    def forward(self, x: Tensor) -> Tensor:
        return selu(x)


class SiLU(Module):
    """Sigmoid linear unit, also called swish: x * sigmoid(x) for each element.

    Raises:
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.SiLU()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
        [-0.269  0.     1.762]
    """

    def forward(self, x: Tensor) -> Tensor:
        return silu(x)


Swish = SiLU


class Mish(Module):
    """Mish: x * tanh(softplus(x)) for each element.

    Raises:
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.Mish()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
        [-0.303  0.     1.944]
    """

    def forward(self, x: Tensor) -> Tensor:
        return mish(x)


class LogSigmoid(Module):
    """Logarithm of the sigmoid, ln(1 / (1 + e^-x)), of each element.

    Raises:
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.LogSigmoid()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
        [-1.313 -0.693 -0.127]
    """

    def forward(self, x: Tensor) -> Tensor:
        return log_sigmoid(x)


class Softsign(Module):
    """Softsign: x / (1 + |x|) for each element.

    Raises:
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.Softsign()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
        [-0.5    0.     0.667]
    """

    def forward(self, x: Tensor) -> Tensor:
        return softsign(x)


class Tanhshrink(Module):
    """Tanhshrink: x - tanh(x) for each element.

    Raises:
        DTypeError: If the input is neither floating-point nor complex.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.Tanhshrink()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
        [-0.238  0.     1.036]
    """

    @rounded_once
    def forward(self, x: Tensor) -> Tensor:
        return x - graph_of(x).tanh(x)


class GLU(Module):
    """Gated linear unit: the first half of an axis times the sigmoid of the second half.

    Args:
        axis: Axis to split; its size must be even. Defaults to the last.

    Raises:
        ShapeError: If axis is out of range or its size is odd.
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.GLU()(g.constant([1.0, 3.0, 0.0, 100.0]))).numpy().round(3))
        [0.5 3. ]
    """

    passes_mask = True

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return glu(x, self.axis)


class Softplus(Module):
    """Softplus: ln(1 + e^(beta * x)) / beta for each element.

    Args:
        beta: Sharpness of the bend at 0. Defaults to 1.

    Raises:
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.Softplus()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
        [0.313 0.693 2.127]
    """

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def forward(self, x: Tensor) -> Tensor:
        return softplus(x, self.beta)


class Softmax(Module):
    """Softmax: positive numbers that sum to 1 along an axis.

    Do not use it before the loss cross_entropy, which takes logits.

    Args:
        axis: Axis along which the outputs sum to 1. Defaults to the last.

    Raises:
        ShapeError: If axis is out of range.
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.Softmax()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
        [0.042 0.114 0.844]
    """

    passes_mask = True

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).softmax(x, self.axis)


class LogSoftmax(Softmax):
    """Logarithm of the softmax along an axis.

    Args:
        axis: Axis of the softmax. Defaults to the last.

    Raises:
        ShapeError: If axis is out of range.
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.LogSoftmax()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
        [-3.17 -2.17 -0.17]
    """

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).log_softmax(x, self.axis)


class Softmin(Softmax):
    """Softmax of -x along an axis.

    Args:
        axis: Axis along which the outputs sum to 1. Defaults to the last.

    Raises:
        ShapeError: If axis is out of range.
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.Softmin()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
        [0.705 0.259 0.035]
    """

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).softmax(-x, self.axis)
