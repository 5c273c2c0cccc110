"""Formulas of activation functions that formats have and MPSGraph lacks.

Their parameters are numbers or tensors that broadcast against x.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from .._core import Tensor
from ..graph import Graph

Parameter: TypeAlias = "float | Tensor"


def linear(g: Graph, x: Tensor, alpha: Parameter, beta: Parameter) -> Tensor:
    return g.addition(g.multiplication(x, alpha), beta)


def elu(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """Return x where x > 0 and alpha (exp(x) - 1) elsewhere; NaN propagates.

    x is clamped to non-positive values before exponentiation so that gradients stay finite.
    """
    low = g.minimum_with_nan_propagation(x, 0.0)
    below = g.multiplication(g.subtraction(g.exponent(low), 1.0), alpha)
    return g.select(g.greater_than(x, 0.0), x, below)


def selu(g: Graph, x: Tensor, alpha: float, gamma: float) -> Tensor:
    return g.multiplication(elu(g, x, alpha), gamma)


def celu(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """Return x where x > 0, and alpha (exp(x / alpha) - 1) elsewhere."""
    low = g.division(g.minimum_with_nan_propagation(x, 0.0), alpha)
    below = g.multiplication(g.subtraction(g.exponent(low), 1.0), alpha)
    return g.select(g.greater_than(x, 0.0), x, below)


def gelu(g: Graph, x: Tensor, by_tanh: bool = False) -> Tensor:
    """Return GELU of x, computed exactly with erf, or approximately with tanh."""
    if by_tanh:
        cube = g.multiplication(g.square(x), x)
        inner = g.multiplication(g.addition(x, g.multiplication(cube, 0.044715)), math.sqrt(2 / math.pi))
        gate = g.tanh(inner)
    else:
        gate = g.erf(g.multiplication(x, math.sqrt(0.5)))
    return g.multiplication(g.multiplication(x, 0.5), g.addition(gate, 1.0))


def hard_sigmoid(g: Graph, x: Tensor, alpha: float, beta: float) -> Tensor:
    """Return the hard sigmoid alpha x + beta, clamped to the range 0 to 1."""
    return g.clamp(linear(g, x, alpha, beta), 0.0, 1.0)


def hard_swish(g: Graph, x: Tensor, alpha: float = 1 / 6, beta: float = 0.5) -> Tensor:
    return g.multiplication(x, hard_sigmoid(g, x, alpha, beta))


def swish(g: Graph, x: Tensor, alpha: float = 1.0) -> Tensor:
    return g.multiplication(x, g.sigmoid(x if alpha == 1 else g.multiplication(x, alpha)))


def scaled_tanh(g: Graph, x: Tensor, alpha: float, beta: float) -> Tensor:
    return g.multiplication(g.tanh(g.multiplication(x, beta)), alpha)


def softplus(g: Graph, x: Tensor) -> Tensor:
    """Return the softplus ln(1 + exp(x)), computed as max(x, 0) + ln(1 + exp(-|x|)), which does not overflow."""
    return g.addition(g.relu(x), g.logarithm(g.addition(g.exponent(g.negative(g.absolute(x))), 1.0)))


def mish(g: Graph, x: Tensor) -> Tensor:
    return g.multiplication(x, g.tanh(softplus(g, x)))


def softsign(g: Graph, x: Tensor) -> Tensor:
    return g.division(x, g.addition(g.absolute(x), 1.0))
