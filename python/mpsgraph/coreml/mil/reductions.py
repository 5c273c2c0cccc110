"""Translations of reductions and cumulative sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._core import Tensor, float32
from ...graph import Graph
from ...interchange.renames import methods
from .._operation import Call, Results, mil


def _axes(call: Call, x: Tensor) -> list[int]:
    axes = call.ints("axes", None)
    return list(range(call.rank(x))) if axes is None else call.axes(x, axes)


def reduced(call: Call, of: Callable[[Tensor, list[int]], Tensor]) -> Tensor:
    """Apply a reduction method, and remove the reduced axes from the result unless keep_dims is set.

    For float16, the reduction is computed in float32.
    """
    x = call.tensor("x")
    axes = _axes(call, x)
    y = call.widely(x, lambda x: of(x, axes)) if axes else of(x, axes)
    return y if call.flag("keep_dims", False) or not axes else call.g.squeeze(y, axes)


@mil.rows(methods("mil", "reduction", without=("mean",)))
def plain(call: Call, method: str) -> Results:
    return reduced(call, getattr(call.g, method))


@mil("reduce_mean")
def reduce_mean(call: Call) -> Results:
    def of(x: Tensor, axes: list[int]) -> Tensor:
        return call.g.mean(x, axes) if x.dtype.is_float else call.g.mean(call.cast(x, float32), axes)

    return reduced(call, of)


_SUMS: dict[str, Callable[[Graph, Tensor, list[int]], Tensor]] = {
    "reduce_l1_norm": lambda g, x, axes: g.reduction_sum(g.absolute(x), axes),
    "reduce_l2_norm": lambda g, x, axes: g.square_root(g.reduction_sum(g.square(x), axes)),
    "reduce_log_sum": lambda g, x, axes: g.logarithm(g.reduction_sum(x, axes)),
    "reduce_sum_square": lambda g, x, axes: g.reduction_sum(g.square(x), axes),
}


@mil.rows(_SUMS)
def by_formula(call: Call, formula: Callable[[Graph, Tensor, list[int]], Tensor]) -> Results:
    return reduced(call, lambda x, axes: formula(call.g, x, axes))


@mil("reduce_log_sum_exp")
def reduce_log_sum_exp(call: Call) -> Results:
    g = call.g

    def of(x: Tensor, axes: list[int]) -> Tensor:
        largest = g.reduction_maximum_propagate_nan(x, axes)
        finite = g.select(g.is_finite(largest), largest, 0.0)
        total = g.reduction_sum(g.exponent(g.subtraction(x, finite)), axes)
        return g.addition(g.logarithm(total), finite)

    return reduced(call, of)


@mil("reduce_argmax", "reduce_argmin")
def reduce_arg(call: Call) -> Results:
    g, x, axis = call.g, call.tensor("x"), call.integer("axis", -1)
    # Read this parameter, which needs no translation, because the program declares the result with the same dtype.
    call.has("output_dtype")
    y = g.reduction_arg_maximum(x, axis) if call.name == "reduce_argmax" else g.reduction_arg_minimum(x, axis)
    return y if call.flag("keep_dims", False) else g.squeeze(y, [axis])


@mil("cumsum")
def cumsum(call: Call) -> Results:
    how: dict[str, Any] = {"exclusive": call.flag("exclusive", False), "reverse": call.flag("reverse", False)}
    return call.widely(call.tensor("x"), lambda x: call.g.cumulative_sum(x, call.integer("axis", 0), **how))
