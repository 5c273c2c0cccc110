"""Bessel functions of orders 0 and 1 (plain, modified and scaled) and Airy's Ai, as formulas over a graph.

Most of these functions are computed from Chebyshev series.
"""

from __future__ import annotations

import math

from ..._core import Tensor
from ...graph import Graph
from . import _series as s
from ._error_function import absent, full
from ._series import chebyshev

Coefficients = tuple[float, ...]


def _phase(g: Graph, x: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """Return J(x) and Y(x) for x above 8.

    They are (p cos t - q sin t) / sqrt(pi x / 2) and (p sin t + q cos t) / sqrt(pi x / 2), where t is x - pi / 4 for
    order 0 and x - 3 pi / 4 for order 1, and p and q are Chebyshev series.
    """
    far = g.maximum(x, 8.0)
    far = absent(g, g.is_infinite(far), far, 1e30)
    ratio = 8.0 / far
    p, q = (s.J1_P, s.J1_Q) if order else (s.J0_P, s.J0_Q)
    at = g.square(ratio) * 2.0 - 1.0
    even, odd = chebyshev(at, p), chebyshev(at, q) * ratio
    sine, cosine = g.sin(far), g.cos(far)
    # The cosine and sine of t (x - pi / 4 or x - 3 pi / 4), times sqrt(2). The scale below divides by sqrt(2).
    turned = (sine - cosine, -sine - cosine) if order else (cosine + sine, sine - cosine)
    scale = g.reciprocal_square_root(far * math.pi)
    return (even * turned[0] - odd * turned[1]) * scale, (even * turned[1] + odd * turned[0]) * scale


def j0(g: Graph, x: Tensor) -> Tensor:
    size = g.absolute(x)
    near = chebyshev(g.square(g.minimum(size, 8.0) / 8.0) * 2.0 - 1.0, s.J0_NEAR)
    return g.select(g.less_than(size, 8.0), near, g.select(g.is_nan(x), x, _phase(g, size, 0)[0]))


def j1(g: Graph, x: Tensor) -> Tensor:
    size = g.absolute(x)
    small = g.minimum(size, 8.0)
    near = chebyshev(g.square(small / 8.0) * 2.0 - 1.0, s.J1_NEAR) * small
    return g.select(g.is_nan(x), x, g.sign(x) * g.select(g.less_than(size, 8.0), near, _phase(g, size, 1)[0]))


def _second(g: Graph, x: Tensor, near: Tensor, far: Tensor) -> Tensor:
    """Combine the values of a Bessel function of the second kind: `near` for x below 8, and `far` for other x.

    The function is -infinity at 0 and NaN for negative x.
    """
    found = g.select(g.less_than(x, 8.0), near, far)
    below = g.select(g.equal(x, 0.0), full(g, -math.inf, x), full(g, math.nan, x))
    return g.select(g.greater_than(x, 0.0), found, below)


def y0(g: Graph, x: Tensor) -> Tensor:
    small = g.minimum(absent(g, g.less_than_or_equal_to(x, 0.0), x, 1.0), 8.0)
    rest = chebyshev(g.square(small / 8.0) * 2.0 - 1.0, s.Y0_NEAR)
    return _second(g, x, rest + g.logarithm(small) * j0(g, small) * (2 / math.pi), _phase(g, x, 0)[1])


def y1(g: Graph, x: Tensor) -> Tensor:
    small = g.minimum(absent(g, g.less_than_or_equal_to(x, 0.0), x, 1.0), 8.0)
    rest = chebyshev(g.square(small / 8.0) * 2.0 - 1.0, s.Y1_NEAR) * small
    near = rest + (g.logarithm(small) * j1(g, small) - 1.0 / small) * (2 / math.pi)
    return _second(g, x, near, _phase(g, x, 1)[1])


def _scaled_first(g: Graph, size: Tensor, order: int) -> Tensor:
    """Compute exp(-x) I(x) for x >= 0, where I is the modified Bessel function of the given order."""
    near, far = (s.I1_NEAR, s.I1_FAR) if order else (s.I0_NEAR, s.I0_FAR)
    small, large = g.minimum(size, 8.0), g.maximum_with_nan_propagation(size, 8.0)
    below = chebyshev(small / 4.0 - 1.0, near)
    below = below * small if order else below
    beyond = chebyshev(16.0 / large - 1.0, far) * g.reciprocal_square_root(large)
    return g.select(g.less_than(size, 8.0), below, beyond)


def i0e(g: Graph, x: Tensor) -> Tensor:
    return _scaled_first(g, g.absolute(x), 0)


def i1e(g: Graph, x: Tensor) -> Tensor:
    return g.sign(x) * _scaled_first(g, g.absolute(x), 1)


def i0(g: Graph, x: Tensor) -> Tensor:
    return g.exponent(g.absolute(x)) * i0e(g, x)


def i1(g: Graph, x: Tensor) -> Tensor:
    return g.exponent(g.absolute(x)) * i1e(g, x)


def _modified_second(g: Graph, x: Tensor, order: int, scaled: bool) -> Tensor:
    small = g.minimum(absent(g, g.less_than_or_equal_to(x, 0.0), x, 1.0), 2.0)
    at = g.square(small / 2.0) * 2.0 - 1.0
    if order:
        near = chebyshev(at, s.K1_NEAR) / small + g.logarithm(small / 2.0) * i1(g, small)
    else:
        near = chebyshev(at, s.K0_NEAR) - g.logarithm(small / 2.0) * i0(g, small)
    large = g.maximum(x, 2.0)
    far = chebyshev(4.0 / large - 1.0, s.K1_FAR if order else s.K0_FAR) * g.reciprocal_square_root(large)
    if scaled:
        near = near * g.exponent(small)
    else:
        far = far * g.exponent(-large)
    found = g.select(g.less_than(x, 2.0), near, far)
    below = g.select(g.equal(x, 0.0), full(g, math.inf, x), full(g, math.nan, x))
    return g.select(g.greater_than(x, 0.0), found, below)


def k0(g: Graph, x: Tensor) -> Tensor:
    return _modified_second(g, x, 0, False)


def k1(g: Graph, x: Tensor) -> Tensor:
    return _modified_second(g, x, 1, False)


def k0e(g: Graph, x: Tensor) -> Tensor:
    return _modified_second(g, x, 0, True)


def k1e(g: Graph, x: Tensor) -> Tensor:
    return _modified_second(g, x, 1, True)


def spherical_j0(g: Graph, x: Tensor) -> Tensor:
    """Compute sin(x) / x, using its power series near 0."""
    small = g.less_than(g.absolute(x), 0.5)
    square = g.square(g.select(small, x, full(g, 0, x)))
    near = 1.0 - square / 6.0 * (1.0 - square / 20.0 * (1.0 - square / 42.0 * (1.0 - square / 72.0)))
    infinite = g.is_infinite(x)
    far = g.sin(absent(g, infinite, x, 0.0)) / absent(g, small, x, 1.0)
    return g.select(small, near, g.select(infinite, full(g, 0, x), far))


# Ai(0) and -Ai'(0), the factors of the two Maclaurin series that make up Ai.
_AT_ZERO, _SLOPE = 0.3550280538878172, 0.2588194037928068
_BORDER = 2 / 3 * 2**1.5


def airy_ai(g: Graph, x: Tensor) -> Tensor:
    """Compute Airy's Ai, by its Maclaurin series between -2 and 2 and by Chebyshev series beyond.

    With z = 2/3 |x|^(3/2), Ai decays like exp(-z) above 2, and below -2 it oscillates with the phase z - pi / 4.
    """
    size = g.absolute(x)
    middle = g.minimum(g.maximum(x, -2.0), 2.0)
    cube = middle * middle * middle
    first, second, term, other = middle * 0.0 + 1.0, middle, middle * 0.0 + 1.0, middle
    for k in range(1, 14):
        term = term * cube / ((3.0 * k - 1) * (3 * k))
        other = other * cube / ((3.0 * k) * (3 * k + 1))
        first, second = first + term, second + other
    near = first * _AT_ZERO - second * _SLOPE
    large = absent(g, g.is_infinite(size), g.maximum(size, 2.0), 1e8)
    z = large * g.square_root(large) * (2 / 3)
    at = _BORDER / z * 2.0 - 1.0
    scale = g.reciprocal_square_root(g.square_root(large)) / math.sqrt(math.pi)
    above = chebyshev(at, s.AI_FAR) * scale * 0.5 * g.exponent(-z)
    angle = z - math.pi / 4
    below = (chebyshev(at, s.AI_P) * g.cos(angle) + chebyshev(at, s.AI_Q) * g.sin(angle)) * scale
    found = g.select(g.greater_than(x, 0.0), above, below)
    return g.select(g.less_than(size, 2.0), near, g.select(g.is_nan(x), x, found))
