"""Translations of activation functions, composed of several operations where MPSGraph has no equivalent."""

from __future__ import annotations

from collections.abc import Callable

from ..._core import Tensor
from ...errors import GraphError, ShapeError
from ...interchange import activations as f
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


# The newest version of each operator, its formula, and its attributes with their defaults, in the formula's order.
_FORMULAS: dict[str, tuple[int, Callable[..., Tensor], dict[str, float]]] = {
    "Celu": (28, f.celu, {"alpha": 1.0}),
    "Elu": (22, f.elu, {"alpha": 1.0}),
    "HardSigmoid": (22, f.hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "HardSwish": (22, f.hard_swish, {}),
    "Mish": (22, f.mish, {}),
    "Selu": (22, f.selu, {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    "Softplus": (22, f.softplus, {}),
    "Softsign": (22, f.softsign, {}),
    "Swish": (24, f.swish, {"alpha": 1.0}),
}


@operator.rows(_FORMULAS, upto={name: upto for name, (upto, _, _) in _FORMULAS.items()})
def by_formula(node: Node, row: tuple[int, Callable[..., Tensor], dict[str, float]]) -> Results:
    _, formula, attributes = row
    numbers = [node.attribute(name, default) for name, default in attributes.items()]
    return node.widely(node.tensor(0), lambda x: formula(node.g, x, *numbers))


@operator("Gelu", upto=20)
def gelu(node: Node) -> Results:
    approximate = node.attribute("approximate", "none")
    if approximate not in ("none", "tanh"):
        raise GraphError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    return node.widely(node.tensor(0), lambda x: f.gelu(node.g, x, approximate == "tanh"))


@operator("SwiGLU", upto=28)
def gated_swish(node: Node) -> Results:
    """Translate SwiGLU: swish(a) * b, without broadcasting."""
    a, b = node.tensor(0), node.tensor(1)
    if node.rank(a) != node.rank(b):
        raise ShapeError(f"operands must have the same shape, got {a.shape} and {b.shape}")
    gate = f.swish(node.g, node.in_float32(a), node.attribute("alpha", 1.0))
    product = node.g.multiplication(gate, node.in_float32(b))
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
