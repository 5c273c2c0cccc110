"""Special functions, computed by approximations written in JAX or by JAX's own definitions.

float16 and bfloat16 are computed in float32. If JAX defines a function in terms of other primitives on every device,
that definition is traced. Such a definition is imported from a private JAX module, because JAX does not export it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax
from jax import numpy as jnp

from ..._core import Tensor
from ...interchange.approximations import (
    BERNOULLI,
    ERFC_P,
    ERFC_Q,
    ERFC_R,
    ERFC_S,
    INVERSE_FAR,
    INVERSE_NEAR,
    LANCZOS,
    LANCZOS_BASE,
)
from ._table import Equation, primitive

Function = Callable[..., Any]


def _special(name: str) -> Callable[[Function], Function]:
    """Return a decorator that registers a JAX function as the translation of a primitive."""

    def enter(function: Function) -> Function:
        def translated(equation: Equation, *operands: Tensor, **_: Any) -> Tensor:
            if all(x.dtype.itemsize != 2 for x in operands):
                return equation.traced(function, *operands)
            wide = equation.traced(function, *(equation.cast(x, "float32") for x in operands))
            return equation.cast(wide, equation.dtype)

        primitive(name)(translated)
        return function

    return enter


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Evaluate a polynomial by Horner's method. Coefficients start with the highest power."""
    found = jnp.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        found = found * x + x.dtype.type(c)
    return found


def _chebyshev(x: Any, coefficients: Sequence[float]) -> Any:
    """Evaluate a Chebyshev series by Clenshaw's method. Coefficients start with the lowest degree."""
    b0 = b1 = jnp.zeros_like(x)
    for c in reversed(coefficients[1:]):
        b0, b1 = 2 * x * b0 - b1 + x.dtype.type(c), b0
    return x * b0 - b1 + x.dtype.type(coefficients[0])


@_special("erfc")
def erfc(x: Any) -> Any:
    """Compute 1 - erf(x) without loss of accuracy for large x."""
    size = jnp.abs(x)
    clamped = jnp.maximum(size, 1)
    # Compute exp(-x^2) from a rounded part of x, whose square is exact, and the remainder.
    high = lax.reduce_precision(clamped, *((11, 25) if x.dtype.itemsize == 8 else (8, 11)))
    scale = jnp.exp(-high * high) * jnp.exp((high - clamped) * (high + clamped))
    bounded = jnp.minimum(clamped, 30)
    middle = _polynomial(bounded, ERFC_P) / _polynomial(bounded, ERFC_Q)
    far = _polynomial(bounded, ERFC_R) / _polynomial(bounded, ERFC_S)
    tail = scale * jnp.where(clamped < 8, middle, far)
    tail = jnp.where(size > 30, jnp.zeros_like(x), tail)
    outside = jnp.where(x < 0, 2 - tail, tail)
    return jnp.where(size < 1, 1 - lax.erf(x), jnp.where(x != x, x, outside))


@_special("erf_inv")
def erf_inv(x: Any) -> Any:
    """Compute erf_inv by Giles's approximation, refined by three Halley steps in float64."""
    w = -jnp.log1p(-x * x)
    near = _polynomial(jnp.minimum(w, 5) - 2.5, INVERSE_NEAR)
    far = _polynomial(jnp.sqrt(jnp.clip(w, 5, 40)) - 3, INVERSE_FAR)
    found = jnp.where(w < 5, near, far) * x
    if x.dtype.itemsize == 8:
        for _ in range(3):
            size = jnp.abs(found)
            # In the tails, use the distance of |x| from 1, because 1 - |x| is exact there.
            error = jnp.where(size < 0.5, lax.erf(size) - jnp.abs(x), (1 - jnp.abs(x)) - erfc(size))
            step = error * (0.5 * math.sqrt(math.pi)) * jnp.exp(size * size)
            found = jnp.sign(x) * (size - step / (1 + size * step))
    return jnp.where(jnp.abs(x) == 1, x * np.inf, jnp.where(jnp.abs(x) > 1, jnp.nan, found))


_LOG_SHIFT = math.log(7.5)


@_special("lgamma")
def lgamma(x: Any) -> Any:
    """Compute log |gamma(x)|, by reflection below 1/2."""
    reflected = x < 0.5
    z = jnp.where(reflected, -x, x - 1)
    total = jnp.full_like(x, LANCZOS_BASE)
    for number, c in enumerate(LANCZOS):
        total = total + x.dtype.type(c) / (z + (number + 1))
    log_t = _LOG_SHIFT + jnp.log1p(z / 7.5)
    found = math.log(2 * math.pi) / 2 + (z + 0.5 - (z + 7.5) / log_t) * log_t + jnp.log(total)
    part = jnp.abs(x) - jnp.floor(jnp.abs(x))
    sine = jnp.log(jnp.sin(math.pi * jnp.minimum(part, 1 - part)))
    mirrored = jnp.where(jnp.isfinite(sine), math.log(math.pi) - sine - found, -sine)
    return jnp.where(jnp.isinf(x), jnp.inf, jnp.where(reflected, mirrored, found))


@_special("digamma")
def digamma(x: Any) -> Any:
    """Compute digamma, the derivative of log gamma(x), by reflection below 1/2. It is NaN at 0, -1, -2, and so on."""
    reflected = x < 0.5
    z = jnp.where(reflected, -x, x - 1)
    top, bottom = jnp.zeros_like(x), jnp.full_like(x, LANCZOS_BASE)
    for number, c in enumerate(LANCZOS):
        place = z + (number + 1)
        top = top - x.dtype.type(c) / (place * place)
        bottom = bottom + x.dtype.type(c) / place
    log_t = _LOG_SHIFT + jnp.log1p(z / 7.5)
    found = log_t + top / bottom - 7 / (7.5 + z)
    part = x + jnp.abs(jnp.floor(x + 0.5))
    mirrored = found - math.pi * jnp.cos(math.pi * part) / jnp.sin(math.pi * part)
    pole = (x <= 0) & (x == jnp.floor(x))
    return jnp.where(pole, jnp.nan, jnp.where(reflected, mirrored, found))


# Coefficients of two Chebyshev series: for x up to 8, exp(-x) I1(x) / x as a series in x / 4 - 1, and for larger x,
# exp(-x) sqrt(x) I1(x) as a series in 16 / x - 1.
_I1_NEAR = (
    0.126293593221816827, -0.176416518357834055, 0.102643658689847095, -0.0529459812080949914, 0.0247264490306265168,
    -0.0105640848946261982, 0.00415642294431288816, -0.00151357245063125315, 0.000512285956168575773,
    -0.000161760815825896746, 0.0000478156510755005423, -0.0000132731636560394358, 3.47025130813767848e-6,
    -8.56872026469545474e-7, 2.00329475355213526e-7, -4.44505912879632808e-8, 9.38153738649577178e-9,
    -1.88724975172282929e-9, 3.62559028155211704e-10, -6.66348972350202774e-11, 1.17361862988909016e-11,
    -1.98397439776494372e-12, 3.22379336594557471e-13, -5.04218550472791169e-14, 7.60068429473540693e-15,
    -1.10559694773538631e-15, 1.55363195773620047e-16, -2.11142121435816608e-17, 2.77791411276104637e-18,
)  # fmt: skip
_I1_FAR = (
    0.38928811750914006, -0.00976109749136146841, -0.000110588938762623716, -3.88256480887769039e-6,
    -2.51223623787020893e-7, -2.63146884688951951e-8, -3.83538038596423702e-9, -5.58974346219658381e-10,
    -1.89749581235054123e-11, 3.25260358301548824e-11, 1.41258074366137813e-11, 2.03562854414708951e-12,
    -7.19855177624590851e-13, -4.08355111109219732e-13, -2.10154184277266431e-14, 4.27244001671195135e-14,
    1.04202769841288028e-14, -3.8144030724370078e-15, -1.88035477551078245e-15, 3.30820231092092828e-16,
    2.96262899764595014e-16, -3.20952592199342396e-17, -4.65030536848935833e-17, 4.41434832307170795e-18,
    7.51729631084210481e-18, -9.31417886732688338e-19, -1.24219327519489096e-18,
)  # fmt: skip


@_special("bessel_i1e")
def bessel_i1e(x: Any) -> Any:
    """Compute exp(-|x|) I1(x)."""
    size = jnp.abs(x)
    near = size * _chebyshev(jnp.minimum(size, 8) / 4 - 1, _I1_NEAR)
    large = jnp.maximum(size, 8)
    far = _chebyshev(16 / large - 1, _I1_FAR) / jnp.sqrt(large)
    return jnp.sign(x) * jnp.where(size <= 8, near, far)


@_special("zeta")
def zeta(s: Any, q: Any) -> Any:
    """Compute Hurwitz's zeta function, the sum of (q + n)^-s over n >= 0, for s > 1.

    The leading terms are added up, and the Euler-Maclaurin formula approximates the rest.
    """
    count = 12
    total = sum(jnp.power(q + n, -s) for n in range(count))
    a = q + count
    power = jnp.power(a, -s)
    total = total + power * a / (s - 1) + 0.5 * power
    factor, rising = power / a, s
    for number, b in enumerate(BERNOULLI):
        total = total + _typed(s, b) * factor * rising
        factor = factor / (a * a)
        rising = rising * (s + 2 * number + 1) * (s + 2 * number + 2)
    pole = (q <= 0) & (q == jnp.floor(q))
    unreal = (q <= 0) & (q != jnp.floor(q)) & (s != jnp.floor(s))
    found = jnp.where(pole, jnp.inf, jnp.where(unreal, jnp.nan, total))
    return jnp.where(s == 1, jnp.inf, jnp.where(s < 1, jnp.nan, found))


def _typed(x: Any, number: float) -> Any:
    return x.dtype.type(number)


@_special("polygamma")
def polygamma(n: Any, x: Any) -> Any:
    """Compute polygamma, the n-th derivative of digamma, as (-1)^(n + 1) n! zeta(n + 1, x)."""
    sign = jnp.where(jnp.floor(n / 2) * 2 == n, -jnp.ones_like(n), jnp.ones_like(n))
    found = sign * jnp.exp(lgamma(n + 1)) * zeta(n + 1, x)
    whole = (n >= 0) & (n == jnp.floor(n))
    return jnp.where(n == 0, digamma(x), jnp.where(whole, found, jnp.nan))


def _of_jax(name: str, definition: str) -> None:
    def translated(equation: Equation, *operands: Tensor, **_: Any) -> Tensor:
        from jax._src.lax import special

        function = getattr(special, definition)
        kind = np.dtype("float32") if operands[0].dtype.itemsize == 2 else operands[0].dtype.numpy
        wide = [equation.cast(x, "float32" if x.dtype.itemsize == 2 else x.dtype) for x in operands]
        wide = [
            x if tuple(x.shape or ()) == equation.shape else equation.g.broadcast_to(x, equation.shape) for x in wide
        ]
        one = function if definition == "bessel_i0e_impl" else lambda *v: function(*v, dtype=kind)
        return equation.cast(equation.traced(one, *wide), equation.dtype)

    primitive(name)(translated)


_of_jax("igamma", "igamma_impl")
_of_jax("igammac", "igammac_impl")
_of_jax("igamma_grad_a", "igamma_grad_a_impl")
_of_jax("random_gamma_grad", "random_gamma_grad_impl")
_of_jax("regularized_incomplete_beta", "regularized_incomplete_beta_impl")
_of_jax("bessel_i0e", "bessel_i0e_impl")
