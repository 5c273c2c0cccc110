"""Family matrix: products. Attention and integer products are composites."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers
from .arithmetic import is_half


def product(a: Value, b: Value, precision: object) -> Value:
    """a b with leading axes broadcast; halves are summed in float32, bools are or-ed."""
    if a.dtype == np.bool_:
        return jnp.matmul(a.astype(np.int32), b.astype(np.int32)) != 0
    wide = np.float32 if is_half(a.dtype) else None
    return jnp.matmul(a, b, precision=precision, preferred_element_type=wide).astype(a.dtype)


@lowers("matrix_multiplication")
def matrix_multiplication(step: Step, a: Value, b: Value) -> Value:
    """a b."""
    return product(jnp.asarray(a), jnp.asarray(b), step.trace.precision)


@lowers("hamming_distance")
def hamming_distance(step: Step, a: Value, b: Value) -> Value:
    """How many bits of the rows of a and of b differ."""
    differing = lax.population_count(jnp.expand_dims(a, -2) ^ jnp.expand_dims(b, -3))
    return jnp.sum(differing.astype(step.dtype), -1, dtype=step.dtype)
