"""Translations of topk and argsort."""

from __future__ import annotations

from ..._core import Tensor, float32
from .._table import Call, Results, mil


@mil("topk")
def topk(call: Call) -> Results:
    g, x = call.g, call.tensor("x")
    axis = call.axis(x, call.integer("axis", -1))
    k = call.integer("k", 1)
    k = call.size(x, axis) if k == -1 else k
    call.has("sort")  # Without sort, any order is allowed, including sorted.
    call.has("output_indices_dtype")  # The program declares this for the result, too.
    both = g.bottom_k(x, k, axis) if call.flag("ascending", False) else g.top_k(x, k, axis)
    return both if call.flag("return_indices", True) else both[:1]


@mil("argsort")
def argsort(call: Call) -> Results:
    """Translate argsort, which is descending by default."""
    x = call.tensor("x")
    real: Tensor = x if x.dtype.is_float or x.dtype.itemsize >= 4 else call.cast(x, float32)
    return call.g.arg_sort(real, call.integer("axis", -1), not call.flag("ascending", False))
