"""Lowerings of reductions, which keep the reduced axes with size 1 and reduce all axes if none are given."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers
from .arithmetic import is_float

Reduction = Callable[..., Value]


def _axes(step: Step) -> tuple[int, ...]:
    return step.axes() or tuple(range(len(step.inputs[0].shape or ())))


@lowers.rows({"reduction_sum": jnp.sum, "reduction_product": jnp.prod})
def total(step: Step, reduce: Reduction, x: Value) -> Value:
    """Compute the sum or product over the reduced axes."""
    return reduce(x, _axes(step), dtype=step.dtype, keepdims=True)


@lowers.rows({
    "reduction_maximum_propagate_nan": jnp.max, "reduction_minimum_propagate_nan": jnp.min,
    "reduction_and": jnp.all, "reduction_or": jnp.any,
})  # fmt: skip
def plain(step: Step, reduce: Reduction, x: Value) -> Value:
    """Return an extremum, in which NaN propagates, or whether all or any elements are true."""
    return reduce(x, _axes(step), keepdims=True)


@lowers.rows({"reduction_maximum": (jnp.max, -np.inf), "reduction_minimum": (jnp.min, np.inf)})
def over_numbers(step: Step, how: tuple[Reduction, float], x: Value) -> Value:
    """Return an extremum, ignoring NaN unless all elements are NaN."""
    (choose, worst), axes = how, _axes(step)
    if not is_float(x.dtype):
        return choose(x, axes, keepdims=True)
    none = jnp.isnan(x)
    chosen = choose(jnp.where(none, jnp.asarray(worst, x.dtype), x), axes, keepdims=True)
    return jnp.where(jnp.all(none, axes, keepdims=True), jnp.asarray(np.nan, x.dtype), chosen)


@lowers.rows({"reduction_arg_maximum": lax.argmax, "reduction_arg_minimum": lax.argmin})
def place(step: Step, place_of: Reduction, x: Value) -> Value:
    """Return the index of the first extremum."""
    return jnp.expand_dims(place_of(jnp.asarray(x), step.axis(), np.int32), step.axis())
