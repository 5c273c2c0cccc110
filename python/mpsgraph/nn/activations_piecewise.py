"""Piecewise linear and thresholded activation modules, including the hard variants of sigmoid and swish.

Values and derivatives at the points where pieces meet match PyTorch's.
"""

from __future__ import annotations

from .._checks import checked
from .._core import Tensor
from ..errors import GraphError
from ..precision.mixed_precision import rounded_once
from .module import Module
from .parts import graph_of


@checked
def clipped(x: Tensor, minimum: float, maximum: float) -> Tensor:
    """Return min(max(x, minimum), maximum), with derivative 0 at both bounds. NaN stays NaN."""
    g = graph_of(x)
    low = g.select(x <= minimum, g.constant(minimum, dtype=x.dtype), x)
    return g.select(x >= maximum, g.constant(maximum, dtype=x.dtype), low)


@checked
@rounded_once
def hard_sigmoid(x: Tensor) -> Tensor:
    """Return min(max(x / 6 + 1 / 2, 0), 1)."""
    return clipped(x + 3.0, 0.0, 6.0) * (1 / 6)


class Hardtanh(Module):
    """Clamp each element: min(max(x, minimum), maximum).

    Args:
        minimum: Lower bound. Defaults to -1.
        maximum: Upper bound. Defaults to 1.

    Raises:
        GraphError: If minimum is not below maximum.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.Hardtanh()(g.constant([-2.0, 0.5, 2.0]))).tolist()
        [-1.0, 0.5, 1.0]
    """

    def __init__(self, minimum: float = -1.0, maximum: float = 1.0) -> None:
        if minimum >= maximum:
            raise GraphError(f"Hardtanh: minimum must be below maximum, got minimum={minimum} and maximum={maximum}")
        self.minimum, self.maximum = minimum, maximum

    def forward(self, x: Tensor) -> Tensor:
        return clipped(x, self.minimum, self.maximum)


class ReLU6(Hardtanh):
    """ReLU clipped at 6: min(max(x, 0), 6) for each element.

    Raises:
        DTypeError: If the input is not floating-point.

    Source: Howard et al., arXiv:1704.04861.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.ReLU6()(g.constant([-4.0, 0.25, 1.0, 8.0]))).numpy().round(3))
        [0.   0.25 1.   6.  ]
    """

    def __init__(self) -> None:
        super().__init__(0.0, 6.0)


class Hardsigmoid(Module):
    """Hard sigmoid: min(max(x / 6 + 1 / 2, 0), 1) for each element.

    Keras before version 3 used x / 5 + 1 / 2.

    Raises:
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.Hardsigmoid()(g.constant([-4.0, 0.25, 1.0, 8.0]))).numpy().round(3))
        [0.    0.542 0.667 1.   ]
    """

    def forward(self, x: Tensor) -> Tensor:
        return hard_sigmoid(x)


class Hardswish(Module):
    """Hard swish: x * min(max(x / 6 + 1 / 2, 0), 1) for each element.

    Raises:
        DTypeError: If the input is not floating-point.

    Source: Howard et al., arXiv:1905.02244.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.Hardswish()(g.constant([-2.0, 0.25, 1.0, 8.0]))).numpy().round(3))
        [-0.333  0.135  0.667  8.   ]
    """

    @rounded_once
    def forward(self, x: Tensor) -> Tensor:
        return x * hard_sigmoid(x)


class Threshold(Module):
    """Threshold: x where x > threshold, otherwise value.

    Args:
        threshold: Bound at or below which elements are replaced.
        value: Replacement for these elements.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.Threshold(1.0, 20.0)(g.constant([0.5, 1.0, 1.5]))).tolist()
        [20.0, 20.0, 1.5]
    """

    def __init__(self, threshold: float, value: float) -> None:
        self.threshold, self.value = threshold, value

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).select(x <= self.threshold, graph_of(x).constant(self.value, dtype=x.dtype), x)


class Hardshrink(Module):
    """Hard shrinkage: x where |x| > bound, otherwise 0.

    Args:
        bound: Magnitude up to which elements become 0, at least 0. Defaults to 0.5.

    Raises:
        GraphError: If bound is negative.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.Hardshrink(0.5)(g.constant([-4.0, 0.25, 1.0, 8.0]))).numpy().round(3))
        [-4.  0.  1.  8.]
    """

    def __init__(self, bound: float = 0.5) -> None:
        if bound < 0:
            raise GraphError(f"{type(self).__name__}: bound must be at least 0, got {bound}")
        self.bound = bound

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).select(abs(x) <= self.bound, graph_of(x).constant(0.0, dtype=x.dtype), x)


class Softshrink(Hardshrink):
    """Soft shrinkage: x - bound where x > bound, x + bound where x < -bound, otherwise 0.

    Args:
        bound: Amount by which magnitudes shrink, at least 0. Defaults to 0.5.

    Raises:
        GraphError: If bound is negative.

    Example:
        >>> g = mg.Graph()
        >>> print(g.run({}, mg.nn.Softshrink(0.5)(g.constant([-4.0, 0.25, 1.0, 8.0]))).numpy().round(3))
        [-3.5  0.   0.5  7.5]
    """

    @rounded_once
    def forward(self, x: Tensor) -> Tensor:
        g = graph_of(x)
        return g.select(abs(x) <= self.bound, g.constant(0.0, dtype=x.dtype), x - g.sign(x) * self.bound)
