"""Lowering of the matrix inverse."""

from __future__ import annotations

import jax.numpy as jnp

from ._table import Step, Value, lowers
from .arithmetic import in_float32


@lowers("matrix_inverse")
def matrix_inverse(_: Step, x: Value) -> Value:
    """Return the inverse of each matrix."""
    return in_float32(jnp.linalg.inv)(x)
