"""Translations of cumulative sums, products, extrema, and log-sum-exp."""

from __future__ import annotations

from typing import Any

from jax import lax
from jax import numpy as jnp

from ..._core import Tensor
from ._table import Equation, primitive


@primitive.rows({
    "cumsum": ("cumulative_sum", lax.add), "cumprod": ("cumulative_product", lax.mul),
    "cummax": ("cumulative_maximum", lax.max), "cummin": ("cumulative_minimum", lax.min),
})  # fmt: skip
def running(equation: Equation, how: tuple[str, Any], x: Tensor, *, axis: int, reverse: bool) -> Tensor:
    method, function = how
    if function in (lax.max, lax.min) and (x.dtype.is_complex or x.dtype.name == "bool"):
        return equation.traced(lambda v: lax.associative_scan(function, v, reverse=reverse, axis=axis), x)
    return getattr(equation.g, method)(x, axis, reverse=reverse)  # type: ignore[no-any-return]


@primitive("cumlogsumexp")
def cumlogsumexp(equation: Equation, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
    """Translate cumlogsumexp as an associative scan with logaddexp."""

    def function(v: Any) -> Any:
        wide = v.astype(jnp.float32) if v.dtype.itemsize == 2 else v
        return lax.associative_scan(jnp.logaddexp, wide, reverse=reverse, axis=axis).astype(v.dtype)

    return equation.traced(function, x)
