"""Translations of cumulative sums, products, extrema, and log-sum-exp."""

from __future__ import annotations

from typing import Any

from jax import lax
from jax import numpy as jnp

from ..._core import Tensor
from ._table import Equation, primitive, shape


def _running(equation: Equation, x: Tensor, axis: int, reverse: bool, method: str) -> Tensor:
    if 0 in shape(x):
        return x
    result: Tensor = getattr(equation.g, method)(x, axis, reverse=reverse)
    return result


@primitive("cumsum")
def cumsum(equation: Equation, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
    return _running(equation, x, axis, reverse, "cumulative_sum")


@primitive("cumprod")
def cumprod(equation: Equation, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
    return _running(equation, x, axis, reverse, "cumulative_product")


@primitive("cummax")
def cummax(equation: Equation, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
    return _extreme(equation, x, axis, reverse, lax.max, "cumulative_maximum")


@primitive("cummin")
def cummin(equation: Equation, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
    return _extreme(equation, x, axis, reverse, lax.min, "cumulative_minimum")


def _extreme(equation: Equation, x: Tensor, axis: int, reverse: bool, function: Any, method: str) -> Tensor:
    if not x.dtype.is_complex and x.dtype.name != "bool":
        return _running(equation, x, axis, reverse, method)
    return equation.traced(lambda v: lax.associative_scan(function, v, reverse=reverse, axis=axis), x)


@primitive("cumlogsumexp")
def cumlogsumexp(equation: Equation, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
    """Translate cumlogsumexp as an associative scan with logaddexp."""

    def function(v: Any) -> Any:
        wide = v.astype(jnp.float32) if v.dtype.itemsize == 2 else v
        return lax.associative_scan(jnp.logaddexp, wide, reverse=reverse, axis=axis).astype(v.dtype)

    return equation.traced(function, x)
