"""Family top_k: the k largest or smallest elements along an axis, and where they were; of equal ones the first."""

from __future__ import annotations

from jax import lax

from ._table import Step, Value, lowers
from .sort import ordered


@lowers("top_k", "bottom_k")
def top_k(step: Step, x: Value) -> tuple[Value, Value]:
    """Values and places."""
    axis, k = step.axis(), int(step["k"])
    values, places = ordered(x, axis, step.kind == "top_k")
    return lax.slice_in_dim(values, 0, k, axis=axis), lax.slice_in_dim(places, 0, k, axis=axis)
