"""Translations of activations. Per-channel parameters apply along the second axis."""

from __future__ import annotations

from collections.abc import Callable

from ..._core import Tensor
from ...graph import Graph
from ...interchange import activations as f
from .._operation import Call, Results, mil

# The formula of each operation, and its parameters in the formula's order.
_FORMULAS: dict[str, tuple[Callable[..., Tensor], tuple[str, ...]]] = {
    "clamped_relu": (lambda g, x, a, b: g.minimum_with_nan_propagation(g.leaky_relu(x, a), b), ("alpha", "beta")),
    "elu": (f.elu, ("alpha",)),
    "leaky_relu": (Graph.leaky_relu, ("alpha",)),
    "linear_activation": (f.linear, ("alpha", "beta")),
    "relu6": (lambda g, x: g.clamp(x, 0.0, 6.0), ()),
    "scaled_tanh": (f.scaled_tanh, ("alpha", "beta")),
    "sigmoid_hard": (f.hard_sigmoid, ("alpha", "beta")),
    "silu": (f.swish, ()),
    "softsign": (f.softsign, ()),
    "thresholded_relu": (lambda g, x, a: g.select(g.greater_than_or_equal_to(x, a), x, 0.0), ("alpha",)),
}


@mil.rows(_FORMULAS)
def by_formula(call: Call, row: tuple[Callable[..., Tensor], tuple[str, ...]]) -> Results:
    formula, parameters = row
    return formula(call.g, call.tensor("x"), *(call.number(name) for name in parameters))


@mil("gelu")
def gelu(call: Call) -> Results:
    mode = call.text("mode", "EXACT")
    if mode not in ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"):
        call.refuse(f"mode {mode!r} is not supported")

    def of(x: Tensor) -> Tensor:
        return f.swish(call.g, x, 1.702) if mode[0] == "S" else f.gelu(call.g, x, mode == "TANH_APPROXIMATION")

    return call.widely(call.tensor("x"), of)


@mil("softplus")
def softplus(call: Call) -> Results:
    return call.widely(call.tensor("x"), lambda x: f.softplus(call.g, x))


@mil("softplus_parametric")
def softplus_parametric(call: Call) -> Results:
    g, x = call.g, call.tensor("x")
    alpha, beta = (per_channel(call, call.weight(name), x) for name in ("alpha", "beta"))
    return g.multiplication(f.softplus(g, g.multiplication(x, beta)), alpha)


@mil("prelu")
def prelu(call: Call) -> Results:
    x = call.tensor("x")
    return call.g.leaky_relu(x, per_channel(call, call.weight("alpha"), x))


def per_channel(call: Call, parameter: Tensor, x: Tensor) -> Tensor:
    """Reshape a parameter with one element per channel, which is x's second axis, for broadcasting."""
    rank = call.rank(x)
    return call.g.reshape(parameter, [-1, *[1] * (rank - 2)]) if rank > 2 else parameter


@mil("softmax")
def softmax(call: Call) -> Results:
    return call.widely(call.tensor("x"), lambda x: call.g.softmax(x, call.integer("axis", -1)))
