"""Translations of layers for arithmetic, comparisons, and activations."""

from __future__ import annotations

from functools import reduce

from ..._core import Tensor
from ...interchange.renames import between
from ._layer import Layer, applies, layer


@layer.rows(between("layer", "mil", "function", "rounding"))
def function(n: Layer, op: str) -> Tensor:
    return n.mil(op, x=n.x)


@layer("asinh", "acosh")
def arcs(n: Layer) -> Tensor:
    x = n.floats(n.x)
    return n.g.asinh(x) if n.name == "asinh" else n.g.acosh(x)


@layer("logicalNot")
def logical_not(n: Layer) -> Tensor:
    return n.mil("equal", x=n.floats(n.x), y=0.0)


@layer.rows(between("layer", "mil", "arithmetic", "extremum", "logic"))
@layer.rows({"floorDivBroadcastable": "floor_div"})
def binary(n: Layer, op: str) -> Tensor:
    return reduce(lambda a, b: n.mil(op, x=a, y=b), n.xs)


@layer.rows(between("layer", "mil", "comparison"))
def compared(n: Layer, op: str) -> Tensor:
    return n.mil(op, x=n.x, y=n.xs[1] if len(n.xs) > 1 else float(n.p.alpha))


@layer("add", "multiply")
def sums(n: Layer) -> Tensor:
    """Translate add and multiply, which combine all inputs, or the single input and the layer's parameter alpha."""
    op = "add" if n.name == "add" else "mul"
    if len(n.xs) == 1:
        return n.mil(op, x=n.x, y=float(n.p.alpha))
    return reduce(lambda a, b: n.mil(op, x=a, y=b), n.xs)


@layer("average")
def average(n: Layer) -> Tensor:
    return n.mil("mul", x=reduce(lambda a, b: n.mil("add", x=a, y=b), n.xs), y=1.0 / len(n.xs))


@layer("unary")
def unary_function(n: Layer) -> Tensor:
    """Translate unary, which applies a function to scale * x + shift."""
    kind, epsilon = n.p.type, float(n.p.epsilon) or 1e-6
    x = n.floats(n.x)
    if n.p.scale not in (0.0, 1.0):
        x = n.mil("mul", x=x, y=float(n.p.scale))
    if n.p.shift:
        x = n.mil("add", x=x, y=float(n.p.shift))
    if kind in ("RSQRT", "INVERSE"):
        return n.mil(kind.lower(), x=x, epsilon=epsilon)
    if kind == "POWER":
        return n.mil("pow", x=x, y=float(n.p.alpha))
    if kind == "THRESHOLD":
        return n.mil("threshold", x=x, alpha=float(n.p.alpha))
    if kind not in ("SQRT", "EXP", "LOG", "ABS"):
        n.refuse(f"function {kind} is not supported")
    return n.mil(kind.lower(), x=x)


layer.enter("clip", applies("clip", alpha=(float, "minVal"), beta=(float, "maxVal")))
layer.enter("clampedReLU", applies("clamped_relu", alpha=(float, "alpha"), beta=(float, "beta")))
layer.enter("gelu", applies("gelu", mode=(str, "mode")))


@layer("whereBroadcastable")
def where(n: Layer) -> Tensor:
    condition, a, b = n.xs
    return n.mil("select", cond=n.mil("not_equal", x=condition, y=0.0), a=a, b=b)


@layer("copy")
def copy(n: Layer) -> Tensor:
    return n.g.identity(n.x)


_PLAIN = {"ReLU": "relu", "tanh": "tanh", "sigmoid": "sigmoid", "softsign": "softsign", "softplus": "softplus"}
_WITH_NUMBERS = {
    "linear": "linear_activation", "leakyReLU": "leaky_relu", "thresholdedReLU": "thresholded_relu",
    "scaledTanh": "scaled_tanh", "sigmoidHard": "sigmoid_hard", "ELU": "elu",
}  # fmt: skip
_WITH_BETA = ("linear", "scaledTanh", "sigmoidHard")


@layer("activation")
def activation(n: Layer) -> Tensor:
    kind = n.p.which("NonlinearityType") or "nothing"
    if kind in _PLAIN:
        return n.mil(_PLAIN[kind], x=n.x)
    held = n.p.held("NonlinearityType")
    if kind in _WITH_NUMBERS:
        beta = float(held.beta) if kind in _WITH_BETA else None
        return n.mil(_WITH_NUMBERS[kind], x=n.x, alpha=float(held.alpha), beta=beta)
    if kind not in ("PReLU", "parametricSoftplus"):
        n.refuse(f"activation {kind} is not supported")
    channels = n.size(n.x, -3)

    def slopes(name: str) -> Tensor:
        proto = getattr(held, name)
        shape = [1, 1, 1] if proto.floatValue.size == 1 else [channels, 1, 1]
        return n.importer.weight(n.weight(proto, shape, name), True)

    if kind == "PReLU":
        return n.g.leaky_relu(n.floats(n.x), slopes("alpha"))
    inner = n.mil("softplus", x=n.mil("mul", x=n.x, y=slopes("beta")))
    return n.mil("mul", x=inner, y=slopes("alpha"))
