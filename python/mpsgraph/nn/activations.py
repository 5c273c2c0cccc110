"""Activations as modules, and those that MPSGraph composes from other operations as functions.

The compiler stitches each composition into one kernel, so `gelu` of basic operations costs no more than a built-in.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .._core import Tensor
from .module import Module

if TYPE_CHECKING:
    from ..graph import Graph


def _graph(x: Tensor) -> Graph:
    return x.graph  # type: ignore[return-value]


def gelu(x: Tensor) -> Tensor:
    """Gaussian error linear unit: x / 2 * (1 + erf(x / sqrt(2))). Hendrycks and Gimpel, arXiv:1606.08415.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.activations.gelu(g.constant([0.0]))).tolist()
    [0.0]
    """
    return x * 0.5 * (_graph(x).erf(x * math.sqrt(0.5)) + 1.0)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Exponential linear unit: x where x > 0, else alpha * (e^x - 1). Clevert et al., arXiv:1511.07289.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.activations.elu(g.constant([2.0, 0.0]))).tolist()
    [2.0, 0.0]
    """
    g = _graph(x)
    return g.select(x > 0.0, x, (g.exponent(g.minimum(x, 0.0)) - 1.0) * alpha)


def silu(x: Tensor) -> Tensor:
    """Sigmoid linear unit, also called swish: x * sigmoid(x).

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.activations.silu(g.constant([0.0]))).tolist()
    [0.0]
    """
    return x * _graph(x).sigmoid(x)


def softplus(x: Tensor) -> Tensor:
    """ln(1 + e^x), computed as max(x, 0) + ln(1 + e^-|x|) so that it does not overflow.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.activations.softplus(g.constant([1000.0]))).tolist()
    [1000.0]
    """
    g = _graph(x)
    return g.relu(x) + g.logarithm(g.exponent(-abs(x)) + 1.0)


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        return _graph(x).relu(x)


class LeakyReLU(Module):
    """x where x > 0, else alpha * x."""

    def __init__(self, alpha: float = 0.01) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return _graph(x).leaky_relu(x, self.alpha)

    def describe(self) -> str:
        return f"{self.alpha}"


class Sigmoid(Module):
    """1 / (1 + e^-x)."""

    def forward(self, x: Tensor) -> Tensor:
        return _graph(x).sigmoid(x)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, x: Tensor) -> Tensor:
        return _graph(x).tanh(x)


class GELU(Module):
    """Gaussian error linear unit, exact."""

    def forward(self, x: Tensor) -> Tensor:
        return gelu(x)


class ELU(Module):
    """Exponential linear unit."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return elu(x, self.alpha)

    def describe(self) -> str:
        return f"{self.alpha}"


class SiLU(Module):
    """x * sigmoid(x)."""

    def forward(self, x: Tensor) -> Tensor:
        return silu(x)


class Softplus(Module):
    """ln(1 + e^x)."""

    def forward(self, x: Tensor) -> Tensor:
        return softplus(x)


class Softmax(Module):
    """Positive numbers that sum to 1 along an axis. Not before cross_entropy, which takes logits."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return _graph(x).softmax(x, self.axis)

    def describe(self) -> str:
        return f"axis={self.axis}"


class LogSoftmax(Softmax):
    """Logarithm of the soft maximum along an axis."""

    def forward(self, x: Tensor) -> Tensor:
        return _graph(x).log_softmax(x, self.axis)
