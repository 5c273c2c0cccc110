"""Chebyshev, Hermite, Laguerre and Legendre polynomials, where each element has its own degree.

A loop runs the recurrence up to the largest degree. Elements keep their value once they have reached their degree.
Chebyshev polynomials of high degree between -1 and 1 are computed from sines and cosines, as in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..._core import Tensor
from ...graph import Graph
from ._error_function import full

Step = Callable[[Graph, Tensor, Tensor, Tensor, Tensor], Tensor]
"""Function that computes one step of a polynomial recurrence, for k >= 1.

Its arguments are (graph, k, x, the polynomial of degree k - 1, the polynomial of degree k). It returns the polynomial
of degree k + 1.
"""


def _recurrence(g: Graph, x: Tensor, n: Tensor, first: Tensor, step: Step, done: Tensor | None = None) -> Tensor:
    """Evaluate polynomials of degrees n at x by a recurrence that starts from the polynomial of degree 1.

    Polynomials of negative degree are 0. The mask `done` marks elements that are computed elsewhere. The degrees of
    these elements do not make the loop longer.
    """
    shape = list((x + n).shape or ())
    x, n, first = (g.broadcast_to(v, shape) for v in (x, n, first))
    if 0 in shape:
        return x
    degree = g.truncate(n)
    waits = degree if done is None else g.select(done, full(g, 0, n), degree)
    most = g.reshape(g.reduction_maximum(g.reshape(waits, [-1]), [0]), ())
    count = g.cast(g.minimum(g.maximum(most, 1.0), 1e6), "int32")

    def body(k: Tensor, p: Tensor, q: Tensor) -> list[Tensor]:
        number = g.cast(k, x.dtype)
        runs = g.less_than(number, degree)
        return [g.select(runs, q, p), g.select(runs, step(g, number, x, p, q), q)]

    ones = g.constant(1, shape, x.dtype)
    found = g.for_(1, count, 1, initial=[ones, first], body=body)[1]
    found = g.select(g.less_than(degree, 1.0), ones, found)
    return g.select(g.less_than(degree, 0.0), full(g, 0, x), found)


def _sign(g: Graph, n: Tensor) -> Tensor:
    """Return (-1)^n for integer degrees n: 1 if the degree is even, and -1 if it is odd."""
    n = g.truncate(n)
    even = g.equal(g.floor(n * 0.5) * 2.0, n)
    return g.select(even, full(g, 1, n), full(g, -1, n))


def _chebyshev(g: Graph, x: Tensor, n: Tensor, kind: str) -> Tensor:
    degree = g.truncate(n)
    first = {"t": x, "u": x * 2.0, "v": x * 2.0 - 1.0, "w": x * 2.0 + 1.0}[kind]
    size = g.absolute(x)
    inside = g.less_than(size, 1.0)
    by_angle = g.logical_and(inside, g.greater_than(degree, 6.0 if kind == "t" else 8.0))
    bounded = g.select(inside, x, full(g, 0, x))
    angle = g.acos(bounded)
    half = angle * 0.5
    angles = {
        "t": lambda: g.cos(degree * angle),
        "u": lambda: g.sin((degree + 1.0) * angle) / g.sin(angle),
        "v": lambda: g.cos((degree + 0.5) * angle) / g.cos(half),
        "w": lambda: g.sin((degree + 0.5) * angle) / g.sin(half),
    }[kind]()
    found = _recurrence(
        g, x, n, first, lambda g, k, x, p, q: x * q * 2.0 - p, g.logical_or(by_angle, g.equal(size, 1.0))
    )
    found = g.select(by_angle, angles, found)
    one = full(g, 1, x)
    right = {"t": one, "u": degree + 1.0, "v": one, "w": degree * 2.0 + 1.0}[kind]
    left = {"t": one, "u": degree + 1.0, "v": degree * 2.0 + 1.0, "w": one}[kind] * _sign(g, n)
    edge = g.select(g.greater_than(x, 0.0), right, left)
    edge = g.select(g.less_than(degree, 0.0), full(g, 0, x), edge)
    return g.select(g.equal(size, 1.0), edge, found)


def chebyshev(kind: str, shifted: bool = False) -> Callable[[Graph, Tensor, Tensor], Tensor]:
    """Return the formula of the Chebyshev polynomials of a kind: t, u, v or w."""
    return lambda g, x, n: _chebyshev(g, x * 2.0 - 1.0 if shifted else x, n, kind)


def _hermite(g: Graph, x: Tensor, n: Tensor, first: Tensor, step: Step) -> Tensor:
    """Return Hermite polynomials, or NaN above the largest degree that PyTorch computes."""
    beyond = g.greater_than(n, 512.0 if x.dtype.itemsize == 8 else 128.0)
    return g.select(beyond, full(g, math.nan, x), _recurrence(g, x, n, first, step, beyond))


def hermite_h(g: Graph, x: Tensor, n: Tensor) -> Tensor:
    return _hermite(g, x, n, x * 2.0, lambda g, k, x, p, q: (x * q - k * p) * 2.0)


def hermite_he(g: Graph, x: Tensor, n: Tensor) -> Tensor:
    return _hermite(g, x, n, x, lambda g, k, x, p, q: x * q - k * p)


def laguerre(g: Graph, x: Tensor, n: Tensor) -> Tensor:
    return _recurrence(g, x, n, 1.0 - x, lambda g, k, x, p, q: ((k * 2.0 + 1.0 - x) * q - k * p) / (k + 1.0))


def legendre(g: Graph, x: Tensor, n: Tensor) -> Tensor:
    found = _recurrence(g, x, n, x, lambda g, k, x, p, q: ((k * 2.0 + 1.0) * x * q - k * p) / (k + 1.0))
    edge = g.select(g.greater_than(x, 0.0), full(g, 1, x), _sign(g, n))
    edge = g.select(g.less_than(g.truncate(n), 0.0), full(g, 0, x), edge)
    return g.select(g.equal(g.absolute(x), 1.0), edge, found)
