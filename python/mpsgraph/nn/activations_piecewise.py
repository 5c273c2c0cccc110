"""Activations of straight pieces, as modules: clipped, shrunken, and the cheap forms of sigmoid and swish.

Where two pieces meet, values are PyTorch's; so are the derivatives there.
"""

from __future__ import annotations

from .._checks import checked
from .._core import Tensor
from ..errors import GraphError
from ..precision.mixed_precision import rounded_once
from .module import Module, graph_of


@checked
def clipped(x: Tensor, minimum: float, maximum: float) -> Tensor:
    """min(max(x, minimum), maximum), whose derivative is 0 at both; NaN stays."""
    g = graph_of(x)
    low = g.select(x <= minimum, g.constant(minimum, dtype=x.dtype), x)
    return g.select(x >= maximum, g.constant(maximum, dtype=x.dtype), low)


@checked
@rounded_once
def hard_sigmoid(x: Tensor) -> Tensor:
    """min(max(x / 6 + 1 / 2, 0), 1)."""
    return clipped(x + 3.0, 0.0, 6.0) * (1 / 6)


class Hardtanh(Module):
    """min(max(x, minimum), maximum).

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.Hardtanh()(g.constant([-2.0, 0.5, 2.0]))).tolist()
    [-1.0, 0.5, 1.0]
    """

    def __init__(self, minimum: float = -1.0, maximum: float = 1.0) -> None:
        if minimum >= maximum:
            raise GraphError(f"Hardtanh: minimum {minimum} must be below maximum {maximum}")
        self.minimum, self.maximum = minimum, maximum

    def forward(self, x: Tensor) -> Tensor:
        return clipped(x, self.minimum, self.maximum)


class ReLU6(Hardtanh):
    """min(max(x, 0), 6). Howard et al., arXiv:1704.04861.

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.ReLU6()(g.constant([-4.0, 0.25, 1.0, 8.0]))).numpy().round(3))
    [0.   0.25 1.   6.  ]
    """

    def __init__(self) -> None:
        super().__init__(0.0, 6.0)


class Hardsigmoid(Module):
    """min(max(x / 6 + 1 / 2, 0), 1). (Keras before version 3 had x / 5 + 1 / 2.)

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.Hardsigmoid()(g.constant([-4.0, 0.25, 1.0, 8.0]))).numpy().round(3))
    [0.    0.542 0.667 1.   ]
    """

    def forward(self, x: Tensor) -> Tensor:
        return hard_sigmoid(x)


class Hardswish(Module):
    """x * min(max(x / 6 + 1 / 2, 0), 1). Howard et al., arXiv:1905.02244.

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.Hardswish()(g.constant([-2.0, 0.25, 1.0, 8.0]))).numpy().round(3))
    [-0.333  0.135  0.667  8.   ]
    """

    @rounded_once
    def forward(self, x: Tensor) -> Tensor:
        return x * hard_sigmoid(x)


class Threshold(Module):
    """x where x > threshold, else value.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.Threshold(1.0, 20.0)(g.constant([0.5, 1.0, 1.5]))).tolist()
    [20.0, 20.0, 1.5]
    """

    def __init__(self, threshold: float, value: float) -> None:
        self.threshold, self.value = threshold, value

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).select(x <= self.threshold, graph_of(x).constant(self.value, dtype=x.dtype), x)


class Hardshrink(Module):
    """x where |x| > bound, else 0.

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.Hardshrink(0.5)(g.constant([-4.0, 0.25, 1.0, 8.0]))).numpy().round(3))
    [-4.  0.  1.  8.]
    """

    def __init__(self, bound: float = 0.5) -> None:
        if bound < 0:
            raise GraphError(f"{type(self).__name__}: bound must not be negative, got {bound}")
        self.bound = bound

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).select(abs(x) <= self.bound, graph_of(x).constant(0.0, dtype=x.dtype), x)


class Softshrink(Hardshrink):
    """x - bound where x > bound, x + bound where x < -bound, else 0.

    >>> g = mg.Graph()
    >>> print(g.run({}, mg.nn.Softshrink(0.5)(g.constant([-4.0, 0.25, 1.0, 8.0]))).numpy().round(3))
    [-3.5  0.   0.5  7.5]
    """

    @rounded_once
    def forward(self, x: Tensor) -> Tensor:
        g = graph_of(x)
        return g.select(abs(x) <= self.bound, g.constant(0.0, dtype=x.dtype), x - g.sign(x) * self.bound)
