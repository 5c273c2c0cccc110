"""Lowering of band_part, which zeros matrix elements outside a band around the diagonal."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from ._table import Step, Value, lowers


@lowers("band_part")
def band_part(step: Step, x: Value) -> Value:
    """Zero matrix elements outside a band around the diagonal. A width of -1 keeps all elements on that side of
    the diagonal.
    """
    rows, columns = step.shape[-2:]
    difference = lax.broadcasted_iota(jnp.int32, (rows, columns), 0) - lax.broadcasted_iota(
        jnp.int32, (rows, columns), 1
    )
    lower, upper = (min(int(step[key]), rows + columns) for key in ("num_lower", "num_upper"))
    kept = jnp.full((rows, columns), True)
    if lower >= 0:
        kept &= difference <= lower
    if upper >= 0:
        kept &= -difference <= upper
    return jnp.where(kept, x, jnp.zeros((), x.dtype))
