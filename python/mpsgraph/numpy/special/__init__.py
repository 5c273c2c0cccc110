"""Special functions over arrays and tensors, with the names of scipy.special.

The PyTorch and JAX frontends use the same formulas. float16 and bfloat16 are computed in float32, and integers become
float32.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

from ..._core import NDArray, Tensor, float32
from ...errors import DTypeError
from ...ops.control_flow import is_in_block
from .. import _formulas
from .._gradients import with_gradient
from .._manipulation import axes_of
from .._operation import cast_to, graph_of, like, operation, shape_of
from .._promotion import floating
from .._statistics import reduced
from . import _bessel, _error_function, _gamma

Array = NDArray | Tensor
Function = Callable[..., Any]


def _special(
    name: str,
    formula: Callable[..., Tensor],
    summary: str,
    example: str,
    operands: str = "x",
    derivative: Callable[[Tensor], Any] | None = None,
) -> Callable[..., Any]:
    """Create a function from a formula over a graph. `example` is "arguments -> result", rounded to 4 digits.

    Formulas consist of pieces, whose own gradients are wrong where the pieces meet, so most functions have a formula of
    their derivative.
    """

    def compute(*given: Any) -> Any:
        dtype = floating(given[0].dtype)
        if dtype.is_complex:
            raise DTypeError(f"{name} requires real arrays, got {dtype}")
        g, wide = graph_of(given[0]), float32 if dtype.itemsize == 2 else dtype
        tensors = [cast_to(x, wide) for x in given]
        found = formula(g, *tensors)
        if derivative is not None and not is_in_block(g):
            slope = derivative
            (found,) = with_gradient(g, tensors, [found], lambda incoming, x: g.multiplication(incoming, slope(x)))
        return cast_to(found, dtype)

    if operands == "x":

        def build(x: Array, /) -> Any:
            return compute(x)

        names, promote = ("x",), ()
    else:

        def build(x1: Any, x2: Any, /) -> Any:  # type: ignore[misc]
            return compute(x1, x2)

        names, promote = ("x1", "x2"), (0, 1)  # type: ignore[assignment]
    arguments, _, value = example.partition(" -> ")
    build.__name__ = build.__qualname__ = name
    described = "\n".join(f"    {n}: Array, tensor, or number, not complex." for n in names)
    build.__doc__ = f"""{summary}

Args:
{described}

Returns:
    An array of the broadcast shape.

Raises:
    DTypeError: If an operand is complex.

Example:
    >>> import mpsgraph.numpy as mnp
    >>> round(mnp.special.{name}({arguments}).item(), 4)
    {value}
"""
    return operation(*names, promote=promote)(build)


def _gamma_function(g: Any, x: Tensor) -> Any:
    """Compute the gamma function as exp(log |gamma(x)|) with the sign of gamma(x)."""
    below = g.less_than(x, 0.0)
    odd = g.equal(g.floor_modulo(g.floor(x), like(x, 2)), 1.0)
    size = g.exponent(_gamma.lgamma(g, x))
    found = g.select(g.logical_and(below, odd), -size, size)
    pole = g.logical_and(below, g.equal(x, g.floor(x)))
    found = g.select(pole, like(x, math.nan), found)
    return g.select(g.equal(x, 0.0), g.reciprocal(x), found)


def _expit(g: Any, x: Tensor) -> Any:
    return g.sigmoid(x)


def _logit(g: Any, x: Tensor) -> Any:
    return g.logarithm(x) - _formulas.log1p(g, -x)


def _xlogy(g: Any, x: Tensor, y: Tensor) -> Any:
    zero = g.logical_and(g.equal(x, 0.0), g.not_(g.is_nan(y)))
    return g.select(zero, like(x, 0), x * g.logarithm(g.select(zero, like(y, 1), y)))


def _xlog1py(g: Any, x: Tensor, y: Tensor) -> Any:
    zero = g.logical_and(g.equal(x, 0.0), g.not_(g.is_nan(y)))
    return g.select(zero, like(x, 0), x * _formulas.log1p(g, g.select(zero, like(y, 0), y)))


def _gaussian(x: Any, factor: float, scale: float) -> Any:
    """Return scale exp(factor x^2)."""
    g = graph_of(x)
    return g.exponent(g.square(x) * factor) * scale


def _over(value: Any, x: Any, at_zero: float) -> Any:
    """Return value / x, and a given number where x is 0."""
    g = graph_of(x)
    zero = g.equal(x, 0.0)
    return g.select(zero, like(x, at_zero), value / g.select(zero, like(x, 1), x))


e = _error_function
erf: Function = _special("erf", lambda g, x: g.erf(x), "Compute the error function.", "0.5 -> 0.5205")
erfc: Function = _special("erfc", e.erfc, "Compute the complementary error function, 1 - erf(x).", "0.5 -> 0.4795",
    derivative=lambda x: _gaussian(x, -1.0, -2 / math.sqrt(math.pi)))  # fmt: skip
erfcx: Function = _special("erfcx", e.erfcx, "Compute the scaled complementary error function, exp(x^2) erfc(x).",
    "0.5 -> 0.6157", derivative=lambda x: x * 2.0 * erfcx(x) - 2 / math.sqrt(math.pi))  # fmt: skip
erfinv: Function = _special("erfinv", e.erfinv, "Compute the inverse of the error function.", "0.5 -> 0.4769",
    derivative=lambda x: _gaussian(erfinv(x), 1.0, math.sqrt(math.pi) / 2))  # fmt: skip
ndtr: Function = _special("ndtr", e.ndtr, "Compute the distribution function of the normal distribution.",
    "1.0 -> 0.8413", derivative=lambda x: _gaussian(x, -0.5, 1 / math.sqrt(2 * math.pi)))  # fmt: skip
ndtri: Function = _special("ndtri", e.ndtri, "Compute the quantile function of the normal distribution.",
    "0.75 -> 0.6745", derivative=lambda x: _gaussian(ndtri(x), 0.5, math.sqrt(2 * math.pi)))  # fmt: skip
log_ndtr: Function = _special("log_ndtr", e.log_ndtr,
    "Compute the logarithm of the distribution function of the normal distribution.", "-1.0 -> -1.841")  # fmt: skip
entr: Function = _special("entr", e.entr, "Compute -x log(x), which is 0 at 0.", "0.5 -> 0.3466")
gamma: Function = _special("gamma", _gamma_function, "Compute the gamma function.", "0.5 -> 1.7725",
    derivative=lambda x: gamma(x) * digamma(x))  # fmt: skip
gammaln: Function = _special("gammaln", _gamma.lgamma, "Compute log |gamma(x)|.", "0.5 -> 0.5724",
    derivative=lambda x: digamma(x))  # fmt: skip
digamma: Function = _special("digamma", _gamma.digamma, "Compute the derivative of log gamma(x).", "0.5 -> -1.9635",
    derivative=lambda x: zeta(2.0, x))  # fmt: skip
polygamma: Function = _special("polygamma", _gamma.polygamma, "Compute the x1-th derivative of digamma at x2.",
    "1.0, 0.5 -> 4.9348", "x1, x2")  # fmt: skip
zeta: Function = _special("zeta", _gamma.zeta, "Compute Hurwitz's zeta function, the sum of (x2 + n)^-x1 over n >= 0.",
    "2.0, 1.0 -> 1.6449", "x1, x2")  # fmt: skip
gammainc: Function = _special("gammainc", _gamma.igamma, "Compute the regularized lower incomplete gamma function.",
    "1.0, 1.0 -> 0.6321", "x1, x2")  # fmt: skip
gammaincc: Function = _special("gammaincc", _gamma.igammac, "Compute the regularized upper incomplete gamma function.",
    "1.0, 1.0 -> 0.3679", "x1, x2")  # fmt: skip
j0: Function = _special("j0", _bessel.j0, "Compute the Bessel function of the first kind of order 0.", "1.0 -> 0.7652",
    derivative=lambda x: -j1(x))  # fmt: skip
j1: Function = _special("j1", _bessel.j1, "Compute the Bessel function of the first kind of order 1.", "1.0 -> 0.4401",
    derivative=lambda x: j0(x) - _over(j1(x), x, 0.5))  # fmt: skip
y0: Function = _special("y0", _bessel.y0, "Compute the Bessel function of the second kind of order 0.", "1.0 -> 0.0883",
    derivative=lambda x: -y1(x))  # fmt: skip
y1: Function = _special("y1", _bessel.y1, "Compute the Bessel function of the second kind of order 1.",
    "1.0 -> -0.7812", derivative=lambda x: y0(x) - y1(x) / x)  # fmt: skip
i0: Function = _special("i0", _bessel.i0, "Compute the modified Bessel function of the first kind of order 0.",
    "1.0 -> 1.2661", derivative=lambda x: i1(x))  # fmt: skip
i1: Function = _special("i1", _bessel.i1, "Compute the modified Bessel function of the first kind of order 1.",
    "1.0 -> 0.5652", derivative=lambda x: i0(x) - _over(i1(x), x, 0.5))  # fmt: skip
i0e: Function = _special("i0e", _bessel.i0e, "Compute exp(-|x|) i0(x).", "1.0 -> 0.4658",
    derivative=lambda x: i1e(x) - graph_of(x).sign(x) * i0e(x))  # fmt: skip
i1e: Function = _special("i1e", _bessel.i1e, "Compute exp(-|x|) i1(x).", "1.0 -> 0.2079",
    derivative=lambda x: i0e(x) - _over(i1e(x), x, 0.5) - graph_of(x).sign(x) * i1e(x))  # fmt: skip
k0: Function = _special("k0", _bessel.k0, "Compute the modified Bessel function of the second kind of order 0.",
    "1.0 -> 0.421", derivative=lambda x: -k1(x))  # fmt: skip
k1: Function = _special("k1", _bessel.k1, "Compute the modified Bessel function of the second kind of order 1.",
    "1.0 -> 0.6019", derivative=lambda x: -k0(x) - k1(x) / x)  # fmt: skip
k0e: Function = _special("k0e", _bessel.k0e, "Compute exp(x) k0(x).", "1.0 -> 1.1445",
    derivative=lambda x: k0e(x) - k1e(x))  # fmt: skip
k1e: Function = _special("k1e", _bessel.k1e, "Compute exp(x) k1(x).", "1.0 -> 1.6362",
    derivative=lambda x: k1e(x) - k0e(x) - k1e(x) / x)  # fmt: skip
spherical_j0: Function = _special("spherical_j0", _bessel.spherical_j0,
    "Compute the spherical Bessel function of order 0, sin(x) / x.", "1.0 -> 0.8415")  # fmt: skip
airy_ai: Function = _special("airy_ai", _bessel.airy_ai, "Compute Airy's function Ai.", "1.0 -> 0.1353")
sinc: Function = _special("sinc", _formulas.sinc, "Compute sin(pi x) / (pi x), which is 1 at 0.", "0.5 -> 0.6366")
expit: Function = _special("expit", _expit, "Compute the logistic function, 1 / (1 + exp(-x)).", "1.0 -> 0.7311")
logit: Function = _special("logit", _logit, "Compute log(x / (1 - x)).", "0.75 -> 1.0986")
xlogy: Function = _special("xlogy", _xlogy, "Compute x1 log(x2), which is 0 where x1 is 0.", "2.0, 3.0 -> 2.1972",
    "x1, x2")  # fmt: skip
xlog1py: Function = _special("xlog1py", _xlog1py, "Compute x1 log(1 + x2), which is 0 where x1 is 0.",
    "2.0, 3.0 -> 2.7726", "x1, x2")  # fmt: skip
psi: Function = digamma
del e


@operation("x")
def logsumexp(x: Array, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False) -> Any:
    """Compute log(sum(exp(x))) without overflow.

    Args:
        x: Array or tensor, not complex; integers become float32.
        axis: The axis or axes to reduce. None, the default, means all.
        keepdims: Whether the reduced axes stay, with size 1. Defaults to False.

    Returns:
        An array without the reduced axes.

    Raises:
        ShapeError: If an axis is out of range.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> round(mnp.special.logsumexp(mnp.asarray([1000.0, 1000.0])).item(), 3)
        1000.693
    """
    assert isinstance(x, Tensor)
    g, x = graph_of(x), cast_to(x, floating(x.dtype))
    axes = axes_of(axis, len(shape_of(x, "logsumexp")), "logsumexp")
    largest = reduced(x, "reduction_maximum_propagate_nan", axes, True) if axes else x
    largest = g.select(g.is_infinite(largest), like(x, 0), largest)
    total = reduced(g.exponent(x - largest), "reduction_sum", axes, True) if axes else g.exponent(x - largest)
    found = g.logarithm(total) + largest
    return found if keepdims or not axes else g.squeeze(found, axes)


__all__ = [
    "airy_ai",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "expit",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "j0",
    "j1",
    "k0",
    "k0e",
    "k1",
    "k1e",
    "log_ndtr",
    "logit",
    "logsumexp",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "sinc",
    "spherical_j0",
    "xlog1py",
    "xlogy",
    "y0",
    "y1",
    "zeta",
]
