"""Lowerings of top_k and bottom_k. Equal elements are ordered by their index."""

from __future__ import annotations

from jax import lax

from ._table import Step, Value, lowers
from .sort import ordered


@lowers("top_k", "bottom_k")
def top_k(step: Step, x: Value) -> tuple[Value, Value]:
    """Return the values and indices of the largest or smallest elements."""
    axis, k = step.axis(), int(step["k"])
    values, places = ordered(x, axis, step.kind == "top_k")
    return lax.slice_in_dim(values, 0, k, axis=axis), lax.slice_in_dim(places, 0, k, axis=axis)
