"""Lowerings of scatter operations, which drop updates with out-of-range indices.

Updates of the same element are applied in order, so with mode "set" the last update wins. XLA does not guarantee an
order, so the last update of each element is selected by its index.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers
from .arithmetic import division, is_half
from .gather import numbers_of, pick, scatter_numbers, with_vectors

_ACCUMULATE = {
    "add": lax.scatter_add,
    "mul": lax.scatter_mul,
    "div": lax.scatter_mul,
    "min": lax.scatter_min,
    "max": lax.scatter_max,
}


@lowers("scatter", "scatter_nd", "scatter_along_axis")
def scatter(step: Step, data: Value, updates: Value, indices: Value) -> Value:
    """Return the data with its indexed elements or slices updated."""
    mode, data, updates = step["mode"], jnp.asarray(data), jnp.asarray(updates)
    if data.size == 0 or updates.size == 0:
        return data
    numbers = numbers_of(step, data.shape, indices.shape)
    vectors, places = with_vectors(step, indices), scatter_numbers(numbers)
    dropped = lax.GatherScatterMode.FILL_OR_DROP
    if mode == "set":
        order = lax.iota(np.int32, updates.size).reshape(updates.shape)
        nobody = jnp.full(data.shape, -1, np.int32)
        last = lax.scatter_max(nobody, vectors, order, places, mode=dropped)
        winner = jnp.zeros(data.shape, updates.dtype if updates.dtype != np.bool_ else np.int8)
        stays = pick(last, vectors, numbers) == order
        kept = jnp.where(stays, updates.astype(winner.dtype), jnp.zeros((), winner.dtype))
        made = lax.scatter_add(winner, vectors, kept, places, mode=dropped)
        return jnp.where(last >= 0, made.astype(data.dtype), data)
    wide = np.dtype(np.float32) if is_half(data.dtype) else data.dtype
    if mode == "div" and wide.kind in "iu" and wide.itemsize < 4:
        wide = np.dtype(np.int32)  # A dtype that can hold the product of several divisors.
    before, given = data.astype(wide), updates.astype(wide)
    if mode == "sub":
        mode, given = "add", jnp.negative(given)
    if mode == "div":
        divisors = lax.scatter_mul(jnp.ones(data.shape, wide), vectors, given, places, mode=dropped)
        quotient = division(before, divisors)
        if wide.kind in "iu":
            size = lax.scatter_mul(jnp.ones(data.shape), vectors, jnp.abs(given.astype(float)), places, mode=dropped)
            too_large = size > float(np.iinfo(wide).max)
            quotient = jnp.where(too_large, jnp.zeros((), wide), quotient)
        return quotient.astype(data.dtype)
    return _ACCUMULATE[mode](before, vectors, given, places, mode=dropped).astype(data.dtype)
