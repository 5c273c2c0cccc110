"""Translations of sorting by one or several keys, and of top-k."""

from __future__ import annotations

from typing import Any

from ..._core import Tensor
from ._table import Equation, primitive, shape


def _keys(equation: Equation, x: Tensor) -> list[Tensor]:
    """Return the sort keys of a tensor, the most significant key first. Complex numbers have one key per part."""
    g = equation.g
    return [g.real_part(x), g.imaginary_part(x)] if x.dtype.is_complex else [x]


@primitive("sort")
def sort(equation: Equation, *operands: Tensor, dimension: int, num_keys: int, **_: Any) -> list[Tensor]:
    g, axis = equation.g, int(dimension)
    if shape(operands[0])[axis] < 2:
        return list(operands)
    if len(operands) == 1 and not operands[0].dtype.is_complex:
        return [g.sort(operands[0], axis)]
    keys = [key for x in operands[:num_keys] for key in _keys(equation, x)]
    # Sort stably by each key in turn, the most significant last.
    order: Tensor | None = None
    for key in reversed(keys):
        seen = key if order is None else g.gather_along_axis(axis, key, order)
        step = g.arg_sort(seen, axis)
        order = step if order is None else g.gather_along_axis(axis, order, step)
    assert order is not None
    return [g.gather_along_axis(axis, x, order) for x in operands]


@primitive("top_k")
def top_k(equation: Equation, x: Tensor, *, k: int, axis: int = -1, **_: Any) -> list[Tensor]:
    values, places = equation.g.top_k(x, int(k), int(axis) % len(shape(x)))
    return [values, places]


@primitive("approx_top_k")
def approx_top_k(
    equation: Equation, x: Tensor, *, k: int, reduction_dimension: int, is_max_k: bool, **_: Any
) -> list[Tensor]:
    """Translate approx_top_k exactly, as JAX does on CPU."""
    axis = int(reduction_dimension) % len(shape(x))
    values, places = (equation.g.top_k if is_max_k else equation.g.bottom_k)(x, int(k), axis)
    if shape(values) != equation.shape:
        equation.refuse(
            "aggregate_to_topk must be true: results that are not aggregated to k elements are not supported"
        )
    return [values, places]
