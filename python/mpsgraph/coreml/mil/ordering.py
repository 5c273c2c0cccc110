"""Translations of topk and argsort."""

from __future__ import annotations

from ..._core import Tensor, float32
from .._operation import Call, Results, mil


@mil("topk")
def topk(call: Call) -> Results:
    g, x = call.g, call.tensor("x")
    axis = call.axis(x, call.integer("axis", -1))
    k = call.integer("k", 1)
    k = call.size(x, axis) if k == -1 else k
    # Read parameter sort, which needs no translation: if it is false, any order is allowed, including the sorted one.
    call.has("sort")
    # Read this parameter, which needs no translation, because the program declares the result with the same dtype.
    call.has("output_indices_dtype")
    both = g.bottom_k(x, k, axis) if call.flag("ascending", False) else g.top_k(x, k, axis)
    return both if call.flag("return_indices", True) else both[:1]


@mil("argsort")
def argsort(call: Call) -> Results:
    """Translate argsort, which sorts in descending order by default."""
    x = call.tensor("x")
    real: Tensor = x if x.dtype.is_float or x.dtype.itemsize >= 4 else call.cast(x, float32)
    return call.g.arg_sort(real, call.integer("axis", -1), not call.flag("ascending", False))
