"""Translations of activations. Per-channel parameters apply along the second axis."""

from __future__ import annotations

import math

from ..._core import Tensor
from .._operation import Call, Results, mil


@mil("relu6")
def relu6(call: Call) -> Results:
    return call.g.clamp(call.tensor("x"), 0.0, 6.0)


@mil("leaky_relu")
def leaky_relu(call: Call) -> Results:
    return call.g.leaky_relu(call.tensor("x"), call.number("alpha"))


@mil("clamped_relu")
def clamped_relu(call: Call) -> Results:
    g, x = call.g, call.tensor("x")
    return g.minimum_with_nan_propagation(g.leaky_relu(x, call.number("alpha")), call.number("beta"))


@mil("thresholded_relu")
def thresholded_relu(call: Call) -> Results:
    g, x = call.g, call.tensor("x")
    return g.select(g.greater_than_or_equal_to(x, call.number("alpha")), x, 0.0)


@mil("linear_activation")
def linear_activation(call: Call) -> Results:
    g = call.g
    return g.addition(g.multiplication(call.tensor("x"), call.number("alpha")), call.number("beta"))


@mil("sigmoid_hard")
def sigmoid_hard(call: Call) -> Results:
    g = call.g
    return g.clamp(g.addition(g.multiplication(call.tensor("x"), call.number("alpha")), call.number("beta")), 0.0, 1.0)


@mil("scaled_tanh")
def scaled_tanh(call: Call) -> Results:
    g = call.g
    return g.multiplication(g.tanh(g.multiplication(call.tensor("x"), call.number("beta"))), call.number("alpha"))


@mil("elu")
def elu(call: Call) -> Results:
    g, x = call.g, call.tensor("x")
    below = g.multiplication(g.subtraction(g.exponent(g.minimum(x, 0.0)), 1.0), call.number("alpha"))
    return g.select(g.greater_than(x, 0.0), x, below)


@mil("gelu")
def gelu(call: Call) -> Results:
    return call.widely(call.tensor("x"), lambda x: _gelu(call, x, call.text("mode", "EXACT")))


def _gelu(call: Call, x: Tensor, mode: str) -> Tensor:
    g = call.g
    if mode == "SIGMOID_APPROXIMATION":
        return g.multiplication(x, g.sigmoid(g.multiplication(x, 1.702)))
    if mode == "TANH_APPROXIMATION":
        cubic = g.addition(x, g.multiplication(g.multiplication(g.square(x), x), 0.044715))
        share = g.tanh(g.multiplication(cubic, math.sqrt(2 / math.pi)))
    elif mode == "EXACT":
        share = g.erf(g.multiplication(x, math.sqrt(0.5)))
    else:
        call.refuse(f"mode {mode!r} is not supported")
    return g.multiplication(g.multiplication(x, 0.5), g.addition(share, 1.0))


@mil("silu")
def silu(call: Call) -> Results:
    x = call.tensor("x")
    return call.g.multiplication(x, call.g.sigmoid(x))


def softplus_of(call: Call, x: Tensor) -> Tensor:
    """Return log(1 + exp(x)) without overflow."""
    g = call.g
    return g.addition(g.maximum(x, 0.0), g.logarithm(g.addition(g.exponent(g.negative(g.absolute(x))), 1.0)))


@mil("softplus")
def softplus(call: Call) -> Results:
    return call.widely(call.tensor("x"), lambda x: softplus_of(call, x))


@mil("softplus_parametric")
def softplus_parametric(call: Call) -> Results:
    g, x = call.g, call.tensor("x")
    alpha, beta = (per_channel(call, call.weight(name), x) for name in ("alpha", "beta"))
    return g.multiplication(softplus_of(call, g.multiplication(x, beta)), alpha)


@mil("softsign")
def softsign(call: Call) -> Results:
    g, x = call.g, call.tensor("x")
    return g.division(x, g.addition(g.absolute(x), 1.0))


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
