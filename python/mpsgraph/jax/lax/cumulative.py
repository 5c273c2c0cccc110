"""Lowerings of cumulative sums, products, and extrema along an axis, and of the operations in their gradients."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers
from .arithmetic import is_float, is_half


def _neutral(kind: str, dtype: np.dtype) -> Value:
    if kind in ("cumulative_sum", "cumulative_product"):
        return np.asarray(kind == "cumulative_product", dtype)
    largest = kind == "cumulative_minimum"
    if is_float(dtype):
        return np.asarray(np.inf if largest else -np.inf, dtype)
    return np.asarray(np.iinfo(dtype).max if largest else np.iinfo(dtype).min, dtype)


_RUNNING: dict[str, Callable[..., Value]] = {
    "cumulative_sum": lax.cumsum,
    "cumulative_product": lax.cumprod,
    "cumulative_minimum": lax.cummin,
    "cumulative_maximum": lax.cummax,
}


def _shifted(step: Step, y: Value, axis: int, first: Value) -> Value:
    """Shift y by one element in the direction of accumulation, with `first` as the new first element."""
    reverse = bool(step["reverse"])
    edges = [(0, 0, 0)] * y.ndim
    edges[axis] = (-1, 1, 0) if reverse else (1, -1, 0)
    return lax.pad(y, jnp.asarray(first, y.dtype), edges)


@lowers(*_RUNNING)
def running(step: Step, x: Value) -> Value:
    """Compute the cumulative result x_0 ∘ ... ∘ x_i for each index i, where ∘ is the operation.

    Exclusive results omit x_i.
    """
    axis, reverse = step.axis(), bool(step["reverse"])
    x = jnp.asarray(x)
    wide = x.astype(np.float32) if is_half(x.dtype) else x
    y = _RUNNING[step.kind](wide, axis, reverse)
    if step.kind in ("cumulative_minimum", "cumulative_maximum") and is_float(x.dtype):
        y = jnp.where(lax.cummax(jnp.isnan(x).astype(np.int32), axis, reverse) > 0, jnp.asarray(np.nan, y.dtype), y)
    if step["exclusive"]:
        y = _shifted(step, y, axis, _neutral(step.kind, y.dtype))
    return y.astype(step.dtype)


@lowers("cumulative_arg_extremum")
def arg_extremum(step: Step, x: Value) -> Value:
    """Return, for each position, the index of the last element equal to the extremum so far, or -1 if there is none."""
    axis, reverse = step.axis(), bool(step["reverse"])
    x = jnp.asarray(x)
    places = lax.broadcasted_iota(np.int32, x.shape, axis)
    extremum = (lax.cummax if step["maximum"] else lax.cummin)(x, axis, reverse)
    stands = x == extremum
    if is_float(x.dtype):
        none = jnp.isnan(x)
        before = lax.cummax(none.astype(np.int32), axis, reverse) > 0
        stands = jnp.where(before, none, stands)
    last = lax.cummin if reverse else lax.cummax
    nowhere = np.int32(np.iinfo(np.int32).max if reverse else -1)
    found = last(jnp.where(stands, places, nowhere), axis, reverse)
    return _shifted(step, found, axis, -1) if step["exclusive"] else found


@lowers("cumulative_recurrence")
def recurrence(step: Step, a: Value, b: Value) -> Value:
    """Solve the recurrence y_(i+1) = b_i + a_i y_i with y_0 = 0 along an axis, and return y."""
    axis = step.axis()
    a, b = jnp.moveaxis(jnp.asarray(a), axis, 0), jnp.moveaxis(jnp.asarray(b), axis, 0)

    def further(y: Value, now: tuple[Value, Value]) -> tuple[Value, Value]:
        return now[1] + now[0] * y, y

    values = lax.scan(further, jnp.zeros(a.shape[1:], a.dtype), (a, b), reverse=bool(step["reverse"]))[1]
    return jnp.moveaxis(values, 0, axis)
