"""The gamma function and related functions, as formulas over a graph. Operands are float32 or float64."""

from __future__ import annotations

import math
from typing import Any

from ..._core import Tensor
from ...graph import Graph
from .._formulas import log1p
from ._approximations import BERNOULLI, LANCZOS, LANCZOS_BASE
from ._error_function import absent, full

_LOG_SHIFT = math.log(7.5)


def lgamma(g: Graph, x: Tensor) -> Tensor:
    """Compute log |gamma(x)|, by reflection below 1/2."""
    reflected = g.less_than(x, 0.5)
    z = g.select(reflected, -x, x - 1.0)
    total = z * 0.0 + LANCZOS_BASE
    for count, c in enumerate(LANCZOS):
        total = total + c / (z + (count + 1.0))
    log_t = log1p(g, z / 7.5) + _LOG_SHIFT
    found = (z + 0.5 - (z + 7.5) / log_t) * log_t + g.logarithm(total) + math.log(2 * math.pi) / 2
    size = g.absolute(x)
    part = size - g.floor(size)
    sine = g.logarithm(g.sin(g.minimum(part, 1.0 - part) * math.pi))
    mirrored = g.select(g.is_finite(sine), math.log(math.pi) - sine - found, -sine)
    plain = g.select(g.logical_or(g.equal(x, 1.0), g.equal(x, 2.0)), full(g, 0, x), found)
    return g.select(g.is_infinite(x), full(g, math.inf, x), g.select(reflected, mirrored, plain))


def digamma(g: Graph, x: Tensor) -> Tensor:
    """Compute digamma, the derivative of log gamma(x), by reflection below 1/2.

    The result is infinite at 0 and NaN at negative integers.
    """
    reflected = g.less_than(x, 0.5)
    z = g.select(reflected, -x, x - 1.0)
    top, bottom = z * 0.0, z * 0.0 + LANCZOS_BASE
    for count, c in enumerate(LANCZOS):
        place = z + (count + 1.0)
        top, bottom = top - c / g.square(place), bottom + c / place
    found = log1p(g, z / 7.5) + _LOG_SHIFT + top / bottom - 7.0 / (z + 7.5)
    part = x + g.absolute(g.floor(x + 0.5))
    mirrored = found - math.pi * g.cos(part * math.pi) / g.sin(part * math.pi)
    whole = g.equal(x, g.floor(x))
    pole = g.logical_and(g.less_than_or_equal_to(x, 0.0), whole)
    edge = g.select(g.equal(x, 0.0), -1.0 / x, full(g, math.nan, x))
    found = g.select(g.equal(x, math.inf), x, g.select(reflected, mirrored, found))
    return g.select(pole, edge, found)


def zeta(g: Graph, s: Tensor, q: Tensor) -> Tensor:
    """Compute Hurwitz's zeta function, the sum of (q + n)^-s over n >= 0, for s > 1.

    The first terms are added up, and the Euler-Maclaurin formula approximates the rest.
    """
    count = 12
    # A power of a negative base is real only where the exponent s is an integer.
    even = g.equal(g.floor(s * 0.5) * 2.0, s)
    total = s * 0.0 + q * 0.0
    for n in range(count):
        base = q + float(n)
        power = g.power(absent(g, g.equal(base, 0.0), g.absolute(base), math.inf), -s)
        total = total + g.select(g.logical_and(g.less_than(base, 0.0), g.not_(even)), -power, power)
    a = q + float(count)
    power = g.power(a, -s)
    total = total + power * a / (s - 1.0) + power * 0.5
    factor, rising = power / a, s
    for number, b in enumerate(BERNOULLI):
        total = total + factor * rising * b
        factor = factor / g.square(a)
        rising = rising * (s + (2.0 * number + 1)) * (s + (2.0 * number + 2))
    below, whole = g.less_than_or_equal_to(q, 0.0), g.equal(q, g.floor(q))
    unreal = g.logical_and(g.logical_and(below, g.not_(whole)), g.not_equal(s, g.floor(s)))
    infinite, none = full(g, math.inf, s), full(g, math.nan, s)
    total = g.select(g.equal(q, math.inf), full(g, 0, s), total)
    found = g.select(g.logical_and(below, whole), infinite, g.select(unreal, none, total))
    return g.select(g.equal(s, 1.0), infinite, g.select(g.less_than(s, 1.0), none, found))


def polygamma(g: Graph, n: Tensor, x: Tensor) -> Tensor:
    """Compute polygamma, the n-th derivative of digamma, as (-1)^(n + 1) n! zeta(n + 1, x).

    The result is NaN where n is negative or not an integer.
    """
    even = g.equal(g.floor(n * 0.5) * 2.0, n)
    sign = g.select(even, full(g, -1, n), full(g, 1, n))
    found = sign * g.exponent(lgamma(g, n + 1.0)) * zeta(g, n + 1.0, x + n * 0.0)
    whole = g.logical_and(g.greater_than_or_equal_to(n, 0.0), g.equal(n, g.floor(n)))
    found = g.select(whole, found, full(g, math.nan, x))
    return g.select(g.equal(n, 0.0), digamma(g, x), found)


def polygamma_of(g: Graph, n: int, x: Tensor) -> Tensor:
    """Compute polygamma for an int n, whose factorial is exact."""
    if n == 0:
        return digamma(g, x)
    scale = math.factorial(n) * (1.0 if n % 2 else -1.0)
    return zeta(g, x * 0.0 + float(n + 1), x) * scale


def _share_of_gamma(g: Graph, a: Tensor, x: Tensor, upper: bool) -> Tensor:
    """Compute a regularized incomplete gamma function.

    A power series is used for x below 1 or below a, and a continued fraction elsewhere.
    """
    epsilon = 2.0**-53 if a.dtype.itemsize == 8 else 2.0**-24
    valid = g.logical_and(g.greater_than(a, 0.0), g.greater_than(x, 0.0))
    valid = g.logical_and(valid, g.logical_and(g.is_finite(a), g.is_finite(x)))
    by_series = g.logical_or(g.less_than(x, 1.0), g.less_than(x, a))
    shape = list((x + a).shape or ())
    one, two = (g.broadcast_to(g.select(valid, v, full(g, 1, v)), shape) for v in (a, x))
    low = g.select(by_series, two, full(g, 0.5, x))
    high = g.select(by_series, one + 1.0, two)
    limit = g.constant(2000, (), "int32")

    def any_of(mask: Tensor, count: Tensor) -> Tensor:
        return g.logical_and(g.reshape(g.reduction_or(g.reshape(mask, [-1]), [0]), ()), g.less_than(count, limit))

    def series_goes_on(count: Tensor, r: Tensor, term: Tensor, total: Tensor) -> Any:
        return any_of(g.greater_than(term, total * epsilon), count), [count, r, term, total]

    def series_step(count: Tensor, r: Tensor, term: Tensor, total: Tensor) -> list[Tensor]:
        r = r + 1.0
        term = term * low / r
        return [count + 1, r, term, total + term]

    zero, ones = g.constant(0, (), "int32"), g.constant(1, shape, a.dtype)
    total = g.while_([zero, one, ones, ones], series_goes_on, series_step)[3]

    # Evaluate a continued fraction by Lentz's method. The denominators are b_0 = x + 1 - a and b_n = b_(n - 1) + 2, and
    # the numerators are -n (n - a).
    def fraction_goes_on(count: Tensor, b: Tensor, c: Tensor, d: Tensor, h: Tensor, moved: Tensor) -> Any:
        return any_of(g.greater_than(moved, epsilon), count), [count, b, c, d, h]

    def fraction_step(count: Tensor, b: Tensor, c: Tensor, d: Tensor, h: Tensor) -> list[Tensor]:
        n = g.cast(count, a.dtype) + 1.0
        over = -n * (n - one)
        b = b + 2.0
        d = g.reciprocal(_away(g, over * d + b))
        c = _away(g, b + over / c)
        return [count + 1, b, c, d, h * c * d, g.absolute(c * d - 1.0)]

    b = _away(g, high + 1.0 - one)
    start = [zero, b, g.constant(1e30, shape, a.dtype), g.reciprocal(b), g.reciprocal(b), ones]
    fraction = g.while_(start, fraction_goes_on, fraction_step)[4]
    logarithm = one * g.logarithm(two) - two - lgamma(g, one)
    scale = g.exponent(logarithm)
    below, above = scale * total / one, scale * fraction
    found = g.select(by_series, 1.0 - below, above) if upper else g.select(by_series, below, 1.0 - above)
    zero_, full_ = full(g, 0.0, a), full(g, 1.0, a)
    none = g.logical_or(g.less_than(a, 0.0), g.less_than(x, 0.0))
    none = g.logical_or(none, g.logical_and(g.equal(a, 0.0), g.equal(x, 0.0)))
    none = g.logical_or(none, g.logical_or(g.is_nan(a), g.is_nan(x)))
    none = g.logical_or(none, g.logical_and(g.is_infinite(a), g.is_infinite(x)))
    # At these elements, the lower function is 1 and the upper function is 0.
    everything = g.logical_or(g.equal(a, 0.0), g.is_infinite(x))
    edge = g.select(everything, zero_ if upper else full_, full_ if upper else zero_)
    edge = g.select(none, full(g, math.nan, a), edge)
    return g.select(valid, found, edge)


def _away(g: Graph, x: Tensor) -> Tensor:
    return absent(g, g.equal(x, 0.0), x, 1e-30)


def igamma(g: Graph, a: Tensor, x: Tensor) -> Tensor:
    return _share_of_gamma(g, a, x, False)


def igammac(g: Graph, a: Tensor, x: Tensor) -> Tensor:
    return _share_of_gamma(g, a, x, True)
