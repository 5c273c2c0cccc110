"""Lowerings of stable sorting along an axis, where NaN counts as larger than every number."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers


def ordered(x: Value, axis: int, descending: bool) -> tuple[Value, Value]:
    """Return the sorted elements and their original indices.

    The sort is stable in descending order, too.
    """
    x = jnp.asarray(x)
    key = x.astype(np.uint8) if x.dtype == np.bool_ else x
    places = lax.broadcasted_iota(np.int32, x.shape, axis)
    if descending:
        key, places = lax.rev(key, (axis,)), lax.rev(places, (axis,))
    values, order = lax.sort((key, places), dimension=axis, is_stable=True, num_keys=1)
    if descending:
        values, order = lax.rev(values, (axis,)), lax.rev(order, (axis,))
    return values.astype(x.dtype), order


@lowers("sort")
def sort(step: Step, x: Value) -> Value:
    """Return the sorted elements."""
    return jnp.asarray(x) if len(step.shape) == 0 else ordered(x, step.axis(), bool(step["descending"]))[0]


@lowers("arg_sort")
def arg_sort(step: Step, x: Value) -> Value:
    """Return the indices that sort the elements."""
    return ordered(x, step.axis(), bool(step["descending"]))[1]
