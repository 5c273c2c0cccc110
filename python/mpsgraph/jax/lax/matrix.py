"""Lowerings of matmul and Hamming distance; attention and integer matmul are composite."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers
from .arithmetic import is_half


def product(a: Value, b: Value, precision: object) -> Value:
    """Multiply matrices, broadcasting leading axes.

    Products of float16 and bfloat16 are accumulated in float32. Products of bools are combined with "or".
    """
    if a.dtype == np.bool_:
        return jnp.matmul(a.astype(np.int32), b.astype(np.int32)) != 0
    wide = np.float32 if is_half(a.dtype) else None
    return jnp.matmul(a, b, precision=precision, preferred_element_type=wide).astype(a.dtype)


@lowers("matrix_multiplication")
def matrix_multiplication(step: Step, a: Value, b: Value) -> Value:
    """Compute the matrix product of a and b."""
    return product(jnp.asarray(a), jnp.asarray(b), step.trace.precision)


@lowers("hamming_distance")
def hamming_distance(step: Step, a: Value, b: Value) -> Value:
    """Return the Hamming distance, the number of differing bits, between each row of a and each row of b."""
    differing = lax.population_count(jnp.expand_dims(a, -2) ^ jnp.expand_dims(b, -3))
    return jnp.sum(differing.astype(step.dtype), -1, dtype=step.dtype)
