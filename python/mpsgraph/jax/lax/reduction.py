"""Lowerings of reductions, which keep the reduced axes with size 1 and reduce all axes if none are given."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers
from .arithmetic import is_float


def _axes(step: Step) -> tuple[int, ...]:
    return step.axes() or tuple(range(len(step.inputs[0].shape or ())))


@lowers("reduction_sum")
def reduction_sum(step: Step, x: Value) -> Value:
    """Compute the sum over the reduced axes."""
    return jnp.sum(x, _axes(step), dtype=step.dtype, keepdims=True)


@lowers("reduction_product")
def reduction_product(step: Step, x: Value) -> Value:
    """Compute the product over the reduced axes."""
    return jnp.prod(x, _axes(step), dtype=step.dtype, keepdims=True)


@lowers("reduction_maximum_propagate_nan")
def reduction_maximum_propagate_nan(step: Step, x: Value) -> Value:
    """Return the maximum, propagating NaN."""
    return jnp.max(x, _axes(step), keepdims=True)


@lowers("reduction_minimum_propagate_nan")
def reduction_minimum_propagate_nan(step: Step, x: Value) -> Value:
    """Return the minimum, propagating NaN."""
    return jnp.min(x, _axes(step), keepdims=True)


def _over_numbers(choose: Callable[..., Value], worst: float, x: Value, axes: tuple[int, ...]) -> Value:
    if not is_float(x.dtype):
        return choose(x, axes, keepdims=True)
    none = jnp.isnan(x)
    chosen = choose(jnp.where(none, jnp.asarray(worst, x.dtype), x), axes, keepdims=True)
    return jnp.where(jnp.all(none, axes, keepdims=True), jnp.asarray(np.nan, x.dtype), chosen)


@lowers("reduction_maximum")
def reduction_maximum(step: Step, x: Value) -> Value:
    """Return the maximum, ignoring NaN unless all elements are NaN."""
    return _over_numbers(jnp.max, -np.inf, x, _axes(step))


@lowers("reduction_minimum")
def reduction_minimum(step: Step, x: Value) -> Value:
    """Return the minimum, ignoring NaN unless all elements are NaN."""
    return _over_numbers(jnp.min, np.inf, x, _axes(step))


@lowers("reduction_and")
def reduction_and(step: Step, x: Value) -> Value:
    """Return whether all elements are true."""
    return jnp.all(x, _axes(step), keepdims=True)


@lowers("reduction_or")
def reduction_or(step: Step, x: Value) -> Value:
    """Return whether any element is true."""
    return jnp.any(x, _axes(step), keepdims=True)


@lowers("reduction_arg_maximum")
def reduction_arg_maximum(step: Step, x: Value) -> Value:
    """Return the index of the first maximum."""
    return jnp.expand_dims(lax.argmax(jnp.asarray(x), step.axis(), np.int32), step.axis())


@lowers("reduction_arg_minimum")
def reduction_arg_minimum(step: Step, x: Value) -> Value:
    """Return the index of the first minimum."""
    return jnp.expand_dims(lax.argmin(jnp.asarray(x), step.axis(), np.int32), step.axis())
