"""Translations of activation functions, composed of several operations where MPSGraph has no equivalent."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..._core import Tensor
from ...errors import GraphError, ShapeError
from ..building.node import Node, Results, operator
from .elementwise import pair


@operator("Relu", upto=14)
def relu(node: Node) -> Results:
    x = node.tensor(0)
    return node.g.relu(x) if x.dtype.is_float else node.g.maximum(x, 0)


@operator("LeakyRelu", upto=16)
def leaky_relu(node: Node) -> Results:
    return node.g.leaky_relu(node.tensor(0), node.attribute("alpha", 0.01))


@operator("PRelu", upto=16)
def parametric_relu(node: Node) -> Results:
    g = node.g
    if node.version >= 7:
        x, slope = pair(node)
    else:  # Before version 7, the slopes have one element per channel, which is axis 1.
        x, slope = node.tensor(0), node.tensor(1)
        if node.rank(x) > 2 and slope.shape != (1,):
            slope = g.expand_dims(slope, list(range(1, node.rank(x) - 1)))
    if not x.dtype.is_float:
        return g.select(g.less_than(x, 0), g.multiplication(x, slope), x)
    return g.leaky_relu(x, slope)


def elu_of(node: Node, x: Tensor, alpha: float) -> Tensor:
    """Return x where x > 0 and alpha (exp(x) - 1) elsewhere; NaN propagates.

    x is clamped to non-positive values before exponentiation so that gradients stay finite.
    """
    g = node.g
    low = g.minimum_with_nan_propagation(x, 0.0)
    below = g.multiplication(g.subtraction(g.exponent(low), 1.0), alpha)
    return g.select(g.greater_than(x, 0.0), x, below)


@operator("Elu", upto=22)
def elu(node: Node) -> Results:
    alpha = node.attribute("alpha", 1.0)
    return node.widely(node.tensor(0), lambda x: elu_of(node, x, alpha))


@operator("Selu", upto=22)
def selu(node: Node) -> Results:
    alpha, gamma = (
        node.attribute("alpha", 1.67326319217681884765625),
        node.attribute("gamma", 1.05070102214813232421875),
    )
    return node.widely(node.tensor(0), lambda x: node.g.multiplication(elu_of(node, x, alpha), gamma))


@operator("Celu", upto=28)
def celu(node: Node) -> Results:
    """Translate Celu: x where x > 0, and alpha (exp(x / alpha) - 1) elsewhere."""
    g, alpha = node.g, node.attribute("alpha", 1.0)

    def of(x: Tensor) -> Tensor:
        low = g.division(g.minimum_with_nan_propagation(x, 0.0), alpha)
        below = g.multiplication(g.subtraction(g.exponent(low), 1.0), alpha)
        return g.select(g.greater_than(x, 0.0), x, below)

    return node.widely(node.tensor(0), of)


@operator("Gelu", upto=20)
def gelu(node: Node) -> Results:
    return node.widely(node.tensor(0), lambda x: _gelu(node, x))


def _gelu(node: Node, x: Tensor) -> Tensor:
    g, approximate = node.g, node.attribute("approximate", "none")
    if approximate not in ("none", "tanh"):
        raise GraphError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    if approximate == "tanh":
        cube = g.multiplication(g.square(x), x)
        inner = g.multiplication(g.addition(x, g.multiplication(cube, 0.044715)), math.sqrt(2 / math.pi))
        gate = g.tanh(inner)
    else:
        gate = g.erf(g.multiplication(x, math.sqrt(0.5)))
    return g.multiplication(g.multiplication(x, 0.5), g.addition(gate, 1.0))


def hard_sigmoid_of(node: Node, x: Tensor, alpha: float, beta: float) -> Tensor:
    """Return the hard sigmoid alpha x + beta, clamped to the range 0 to 1."""
    g = node.g
    return g.clamp(g.addition(g.multiplication(x, alpha), beta), 0.0, 1.0)


@operator("HardSigmoid", upto=22)
def hard_sigmoid(node: Node) -> Results:
    alpha, beta = node.attribute("alpha", 0.2), node.attribute("beta", 0.5)
    return node.widely(node.tensor(0), lambda x: hard_sigmoid_of(node, x, alpha, beta))


@operator("HardSwish", upto=22)
def hard_swish(node: Node) -> Results:
    return node.widely(node.tensor(0), lambda x: node.g.multiplication(x, hard_sigmoid_of(node, x, 1 / 6, 0.5)))


def softplus_of(node: Node, x: Tensor) -> Tensor:
    """Return the softplus ln(1 + exp(x)), computed as max(x, 0) + ln(1 + exp(-|x|)), which does not overflow."""
    g = node.g
    return g.addition(g.relu(x), g.logarithm(g.addition(g.exponent(g.negative(g.absolute(x))), 1.0)))


@operator("Softplus", upto=22)
def softplus(node: Node) -> Results:
    return node.widely(node.tensor(0), lambda x: softplus_of(node, x))


@operator("Mish", upto=22)
def mish(node: Node) -> Results:
    g = node.g
    return node.widely(node.tensor(0), lambda x: g.multiplication(x, g.tanh(softplus_of(node, x))))


@operator("Softsign", upto=22)
def softsign(node: Node) -> Results:
    g = node.g
    return node.widely(node.tensor(0), lambda x: g.division(x, g.addition(g.absolute(x), 1.0)))


@operator("Swish", upto=24)
def swish(node: Node) -> Results:
    return node.widely(node.tensor(0), lambda x: _swish(node, x))


def _swish(node: Node, x: Tensor) -> Tensor:
    g, alpha = node.g, node.attribute("alpha", 1.0)
    return g.multiplication(x, g.sigmoid(x if alpha == 1 else g.multiplication(x, alpha)))


@operator("SwiGLU", upto=28)
def gated_swish(node: Node) -> Results:
    """Translate SwiGLU: swish(a) * b, without broadcasting."""
    a, b = node.tensor(0), node.tensor(1)
    if node.rank(a) != node.rank(b):
        raise ShapeError(f"operands must have the same shape, got {a.shape} and {b.shape}")
    product = node.g.multiplication(_swish(node, node.in_float32(a)), node.in_float32(b))
    return node.cast(product, a.dtype)


@operator("ThresholdedRelu", upto=22)
def thresholded_relu(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    return g.select(g.greater_than(x, node.attribute("alpha", 1.0)), x, 0.0)


@operator("Shrink", upto=9)
def shrink(node: Node) -> Results:
    """Translate Shrink: x + bias where x < -lambd, x - bias where x > lambd, and 0 elsewhere, including for NaN."""
    g, x = node.g, node.tensor(0)
    bias, limit = node.attribute("bias", 0.0), node.attribute("lambd", 0.5)
    if not x.dtype.is_float:
        bias, limit = int(bias), int(limit)
    outside = g.select(g.greater_than(x, limit), g.subtraction(x, bias), g.constant(0, dtype=x.dtype))
    return g.select(g.less_than(x, -limit), g.addition(x, bias), outside)


# --- along an axis --------------------------------------------------------------------------------------------------
def _over_axis(node: Node, function: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Apply an operation along the axis that the node specifies, such as softmax.

    Before version 13, the operation applies to this axis and all later ones, which are flattened into one.
    """
    g, x = node.g, node.tensor(0)
    if node.version >= 13:
        return function(x, node.axis(x, node.attribute("axis", -1)))
    axis = node.axis(x, node.attribute("axis", 1))
    flat = function(g.flatten2d(x, axis), 1)
    return g.reshape(flat, x.shape if x.shape is not None and min(x.shape, default=0) >= 0 else g.shape_of(x))


@operator("Softmax", upto=13)
def softmax(node: Node) -> Results:
    return _over_axis(node, lambda x, axis: node.widely(x, lambda y: node.g.softmax(y, axis)))


@operator("LogSoftmax", upto=13)
def log_softmax(node: Node) -> Results:
    return _over_axis(node, lambda x, axis: node.widely(x, lambda y: node.g.log_softmax(y, axis)))


@operator("Hardmax", upto=13)
def hardmax(node: Node) -> Results:
    g = node.g

    def one_at_the_first_maximum(x: Tensor, axis: int) -> Tensor:
        index = g.squeeze(g.reduction_arg_maximum(x, axis), [axis])
        return g.one_hot(index, node.size(x, axis), axis, x.dtype)

    return _over_axis(node, one_at_the_first_maximum)
