"""The error function and related functions, as formulas over a graph. Operands are float32 or float64."""

from __future__ import annotations

import math

from ..._core import Tensor
from ...graph import Graph
from .._formulas import log1p
from ._approximations import ERFC_P, ERFC_Q, ERFC_R, ERFC_S, INVERSE_FAR, INVERSE_NEAR
from ._series import polynomial


def full(g: Graph, value: float, like: Tensor) -> Tensor:
    return g.constant(value, (), like.dtype)


def absent(g: Graph, mask: Tensor, x: Tensor, instead: float) -> Tensor:
    """Replace the elements of x that a mask selects with a harmless number.

    The caller's formula would be NaN or infinite for these elements. With the harmless number, the formula's result is
    either correct or not used.
    """
    return g.select(mask, full(g, instead, x), x)


# --- the error function and related functions -------------------------------------------------------------------------
def erfcx(g: Graph, x: Tensor) -> Tensor:
    """Compute erfcx, the scaled complementary error function exp(x^2) erfc(x)."""
    size = g.absolute(x)
    middle = g.minimum(g.maximum(size, 1.0), 8.0)
    far = g.maximum(size, 8.0)
    large = g.select(
        g.less_than(size, 8.0),
        polynomial(middle, ERFC_P) / polynomial(middle, ERFC_Q),
        polynomial(1.0 / far, ERFC_R[::-1]) / polynomial(1.0 / far, ERFC_S[::-1]) / far,
    )
    small = g.minimum(size, 1.0)
    near = g.exponent(g.square(small)) * (1.0 - g.erf(small))
    found = g.select(g.less_than(size, 1.0), near, large)
    return g.select(g.less_than(x, 0.0), g.exponent(g.square(x)) * 2.0 - found, g.select(g.is_nan(x), x, found))


def erfc(g: Graph, x: Tensor) -> Tensor:
    """Compute erfc, 1 - erf(x), without losing digits for large x."""
    size = g.absolute(x)
    tail = g.exponent(-g.square(size)) * erfcx(g, g.maximum(size, 1.0))
    outside = g.select(g.less_than(x, 0.0), 2.0 - tail, tail)
    return g.select(g.less_than(size, 1.0), 1.0 - g.erf(x), g.select(g.is_nan(x), x, outside))


def _inverse(g: Graph, x: Tensor, w: Tensor) -> Tensor:
    """Compute the inverse error function at x, given w = -log(1 - x^2). In float64, two Halley steps refine the
    result.
    """
    near = polynomial(g.minimum(w, 5.0) - 2.5, INVERSE_NEAR)
    far = polynomial(g.square_root(g.minimum(g.maximum(w, 5.0), 60.0)) - 3.0, INVERSE_FAR)
    found = g.select(g.less_than(w, 5.0), near, far) * x
    if x.dtype.itemsize == 8:
        for _ in range(2):
            error = g.erf(found) - x
            step = error * (math.sqrt(math.pi) / 2) * g.exponent(g.square(found))
            found = found - step / (found * step + 1.0)
    return found


def erfinv(g: Graph, x: Tensor) -> Tensor:
    size = g.absolute(x)
    inside = g.less_than(size, 1.0)
    bounded = g.select(inside, x, full(g, 0, x))
    found = _inverse(g, bounded, -log1p(g, -g.square(bounded)))
    edge = g.select(g.equal(size, 1.0), x * math.inf, full(g, math.nan, x))
    return g.select(inside, found, edge)


def ndtri(g: Graph, p: Tensor) -> Tensor:
    """Compute the quantile function of the normal distribution.

    Close to 0 and 1, Newton's method solves log_ndtr(x) = log(p) from an asymptotic approximation, so that the digits
    of a small p are preserved.
    """
    inside = g.logical_and(g.greater_than(p, 0.0), g.less_than(p, 1.0))
    bounded = g.select(inside, p, full(g, 0.5, p))
    rest = g.minimum(bounded, 1.0 - bounded)
    centre = erfinv(g, bounded * 2.0 - 1.0) * math.sqrt(2)
    logarithm = g.logarithm(g.minimum(rest, 0.02))
    x = -g.square_root(logarithm * -2.0 - g.logarithm(logarithm * -4.0 * math.pi))
    for _ in range(3):
        scaled = erfcx(g, x * -math.sqrt(0.5))
        x = x - (g.logarithm(scaled * 0.5) - g.square(x) * 0.5 - logarithm) * scaled * math.sqrt(math.pi / 2)
    tail = g.select(g.less_than(bounded, 0.5), x, -x)
    found = g.select(g.less_than(rest, 0.02), tail, centre)
    low = g.select(g.equal(p, 0.0), full(g, -math.inf, p), full(g, math.nan, p))
    return g.select(inside, found, g.select(g.equal(p, 1.0), full(g, math.inf, p), low))


def ndtr(g: Graph, x: Tensor) -> Tensor:
    return erfc(g, x * -math.sqrt(0.5)) * 0.5


def log_ndtr(g: Graph, x: Tensor) -> Tensor:
    t = x * math.sqrt(0.5)
    low = g.less_than(x, -1.0)
    far = g.logarithm(erfcx(g, -g.minimum(t, -0.5)) * 0.5) - g.square(t)
    return g.select(low, far, log1p(g, erfc(g, g.maximum_with_nan_propagation(t, -1.0)) * -0.5))


# --- entropy ------------------------------------------------------------------------------------------------------
def entr(g: Graph, x: Tensor) -> Tensor:
    """Compute -x log(x). The result is 0 at 0."""
    inside = g.greater_than(x, 0.0)
    found = -x * g.logarithm(g.select(inside, x, full(g, 1, x)))
    outside = g.select(g.equal(x, 0.0), full(g, 0, x), full(g, -math.inf, x))
    return g.select(g.is_nan(x), x, g.select(inside, found, outside))
