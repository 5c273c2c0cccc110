"""Smooth activations as modules, and those that MPSGraph composes from other operations as functions.

The compiler fuses each composition into one kernel, so `gelu` of basic operations costs no more than a built-in.
NaN, infinity and the ends of a type give what they give in PyTorch; bfloat16 and float16 are computed in float32.
"""

from __future__ import annotations

import math

from .._checks import checked
from .._core import Tensor, float64
from .._display import shown
from ..errors import GraphError
from ..precision.mixed_precision import rounded_once
from .initialisers import Constant
from .layers import along_channels, channel_axis, size_of
from .module import Module, graph_of


def _zero(x: Tensor) -> Tensor:
    return graph_of(x).constant(0.0, dtype=x.dtype)


def exponent_minus_one(x: Tensor) -> Tensor:
    """e^x - 1 for x of at most 0, also where both are nearly equal and a difference would have few digits.

    There float32 has the first two terms of the series, so that what is small is not rounded away, to 6e-5 of itself;
    float64 has what the power has lost of x, which takes a logarithm more.
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
    """ln(1 + x), with what the sum has lost of x."""
    g, one_plus = graph_of(x), x + 1.0
    return g.logarithm(one_plus) - ((one_plus - 1.0) - x) / one_plus


@rounded_once
@checked
def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """Gaussian error linear unit. Hendrycks and Gimpel, arXiv:1606.08415.

    x / 2 * (1 + erf(x / sqrt(2))), or approximately x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
    Args: x; approximate, "none" or "tanh". Errors: GraphError for another.

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
    """Exponential linear unit: x where x > 0, else alpha * (e^x - 1). Clevert et al., arXiv:1511.07289.

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

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.activations.silu(g.constant([0.0]))).tolist()
    [0.0]
    """
    return x * graph_of(x).sigmoid(x)


def softplus_parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """max(x, 0), max(-x, 0) and ln(1 + e^-|x|): softplus of x is the first and the last, of -x the second and the last.

    relu and abs would have slope 0 at 0, both.
    """
    g, above = graph_of(x), x >= 0.0
    rest = logarithm_of_one_plus(g.exponent(g.select(above, -x, x)))
    return g.select(above, x, _zero(x)), g.select(above, _zero(x), -x), rest


@checked
@rounded_once
def softplus(x: Tensor, beta: float = 1.0) -> Tensor:
    """ln(1 + e^(beta x)) / beta, computed as max(x, 0) + ln(1 + e^-|beta x|) / beta, which neither overflows nor loses
    what is small; its slope at 0 is 1/2.

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
    """ln(1 / (1 + e^-x)), computed as -softplus(-x).

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.activations.log_sigmoid(g.constant([-1000.0]))).tolist()
    [-1000.0]
    """
    return -softplus(-x)


@checked
@rounded_once
def mish(x: Tensor) -> Tensor:
    """x * tanh(softplus(x)), of a single exponent: with p = 1 + e^x, tanh(ln p) = (p^2 - 1) / (p^2 + 1).

    Misra, arXiv:1908.08681.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.activations.mish(g.constant([0.0, float("inf")]))).tolist()
    [0.0, inf]
    """
    g, above = graph_of(x), x >= 0.0
    small = g.exponent(g.select(above, -x, x))  # both parts of the quotient are divided by e^2x above 0
    difference = g.select(above, small * 2.0 + 1.0, small * (small + 2.0))
    rest = g.select(above, small * 2.0 * small, g.constant(2.0, dtype=x.dtype))
    return x * (difference / (difference + rest))


@checked
@rounded_once
def selu(x: Tensor) -> Tensor:
    """scale * elu(x, alpha) with the constants that keep mean 0 and variance 1. Klambauer et al., arXiv:1706.02515.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.activations.selu(g.constant([0.0]))).tolist()
    [0.0]
    """
    return elu(x, 1.6732632423543772) * 1.0507009873554805


@checked
@rounded_once
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where x > 0, else alpha * (e^(x / alpha) - 1): a smooth elu for each alpha. Barron, arXiv:1704.07483.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.activations.celu(g.constant([2.0, 0.0]), 2.0)).tolist()
    [2.0, 0.0]
    """
    g, above = graph_of(x), x > 0.0
    return g.select(above, x, exponent_minus_one(g.select(above, _zero(x), x) * (1 / alpha)) * alpha)


@checked
@rounded_once
def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|).

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.activations.softsign(g.constant([1.0, -3.0]))).tolist()
    [0.5, -0.75]
    """
    return x / (abs(x) + 1.0)


@checked
@rounded_once
def glu(x: Tensor, axis: int = -1) -> Tensor:
    """Gated linear unit: the first half of an axis times the sigmoid of its second. Dauphin et al., arXiv:1612.08083.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.activations.glu(g.constant([3.0, 0.0]))).tolist()
    [1.5]
    """
    half, gate = graph_of(x).split(x, 2, axis)
    return half * graph_of(x).sigmoid(gate)


class ReLU(Module):
    """max(x, 0).

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.ReLU()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
    [0. 0. 2.]
    """

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).relu(x)


class LeakyReLU(Module):
    """x where x > 0, else alpha * x.

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.LeakyReLU(0.1)(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
    [-0.1  0.   2. ]
    """

    def __init__(self, alpha: float = 0.01) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).leaky_relu(x, self.alpha)


class Sigmoid(Module):
    """1 / (1 + e^-x).

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.Sigmoid()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
    [0.269 0.5   0.881]
    """

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).sigmoid(x)


class Tanh(Module):
    """Hyperbolic tangent.

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
    """x where x > 0, else weight * x, with a slope that is trained. He et al., arXiv:1502.01852.

    Args: num_parameters, 1 for one slope, or as many as there are channels; initial, the slope at first; data_layout,
    where the channels are: last, or on axis 1 for "NCW", "NCHW" and "NCDHW". Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.PReLU()(g.constant([2.0, -2.0]))).tolist()
    [2.0, -0.5]
    """

    passes_mask = True

    weight: Tensor

    def __init__(self, num_parameters: int = 1, *, initial: float = 0.25, data_layout: str = "NHWC") -> None:
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
    """Gaussian error linear unit, exact, or approximate="tanh".

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.GELU()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
    [-0.159  0.     1.954]
    """

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return gelu(x, self.approximate)


class ELU(Module):
    """Exponential linear unit.

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.ELU()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
    [-0.632  0.     2.   ]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return elu(x, self.alpha)


class CELU(ELU):
    """x where x > 0, else alpha * (e^(x / alpha) - 1).

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.CELU()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
    [-0.632  0.     2.   ]
    """

    def forward(self, x: Tensor) -> Tensor:
        return celu(x, self.alpha)


class SELU(Module):
    """Scaled exponential linear unit, which keeps mean 0 and variance 1.

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.SELU()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
    [-1.111  0.     2.101]
    """

    def forward(self, x: Tensor) -> Tensor:
        return selu(x)


class SiLU(Module):
    """x * sigmoid(x).

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.SiLU()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
    [-0.269  0.     1.762]
    """

    def forward(self, x: Tensor) -> Tensor:
        return silu(x)


Swish = SiLU


class Mish(Module):
    """x * tanh(softplus(x)).

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.Mish()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
    [-0.303  0.     1.944]
    """

    def forward(self, x: Tensor) -> Tensor:
        return mish(x)


class LogSigmoid(Module):
    """ln(1 / (1 + e^-x)).

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.LogSigmoid()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
    [-1.313 -0.693 -0.127]
    """

    def forward(self, x: Tensor) -> Tensor:
        return log_sigmoid(x)


class Softsign(Module):
    """x / (1 + |x|).

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.Softsign()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
    [-0.5    0.     0.667]
    """

    def forward(self, x: Tensor) -> Tensor:
        return softsign(x)


class Tanhshrink(Module):
    """x - tanh(x).

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.Tanhshrink()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
    [-0.238  0.     1.036]
    """

    @rounded_once
    def forward(self, x: Tensor) -> Tensor:
        return x - graph_of(x).tanh(x)


class GLU(Module):
    """The first half of an axis, which must be of even size, times the sigmoid of its second.

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
    """ln(1 + e^(beta * x)) / beta.

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.Softplus()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
    [0.313 0.693 2.127]
    """

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def forward(self, x: Tensor) -> Tensor:
        return softplus(x, self.beta)


class Softmax(Module):
    """Positive numbers that sum to 1 along an axis. Not before cross_entropy, which takes logits.

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
    """Logarithm of the soft maximum along an axis.

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.LogSoftmax()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
    [-3.17 -2.17 -0.17]
    """

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).log_softmax(x, self.axis)


class Softmin(Softmax):
    """The soft maximum of -x along an axis.

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.Softmin()(g.constant([-1.0, 0.0, 2.0]))).numpy().round(3))
    [0.705 0.259 0.035]
    """

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).softmax(-x, self.axis)
