"""Translations of reductions, extrema with their indices, scans and top-k."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..._core import Tensor, int32
from ...interchange.renames import methods
from ...numpy import special
from ._table import Call, aten, shape_of
from .elementwise import binary

Axes = int | Sequence[int] | None


def _axes(x: Tensor, axes: Axes) -> list[int]:
    """Return non-negative axes. None or an empty list means all axes."""
    rank = len(shape_of(x))
    given = [axes] if isinstance(axes, int) else list(axes or range(rank))
    return [axis % max(rank, 1) for axis in given]


def reduced(call: Call, method: str, x: Tensor, axes: Axes) -> Tensor:
    return getattr(call.g, method)(x, _axes(x, axes)) if x.shape else x


@aten.rows(methods("aten", "reduction"))
def reduction(call: Call, method: str, x: Tensor, axes: Axes = None, keep: bool = False, **_: Any) -> Tensor:
    return reduced(call, method, call.cast(x, call.dtype), axes)


@aten.rows({"any": "reduction_or", "all": "reduction_and"})
def any_or_all(call: Call, method: str, x: Tensor, axes: Axes = None, keep: bool = False) -> Tensor:
    return reduced(call, method, x if str(x.dtype) == "bool" else call.g.not_equal(x, 0), axes)


@aten("var")
def var(call: Call, x: Tensor, axes: Any = None, *others: Any, correction: Any = 1, **_: Any) -> Tensor:
    """Compute the variance.

    If the number of elements minus the correction is not positive, the result is NaN or infinite, as in division by
    zero.
    """
    # An older overload passes the correction as a bool in place of the axes, and reduces over all axes.
    if isinstance(axes, bool):
        axes, correction = None, int(axes)
    elif others and isinstance(others[0], bool):
        correction = int(others[0])
    g, x = call.g, call.cast(x, call.dtype)
    x = x if x.shape else g.reshape(x, [1])
    places = _axes(x, axes)
    count = math.prod(shape_of(x)[axis] for axis in places)
    degrees = max(count - (1 if correction is None else correction), 0)
    if degrees:
        variance = g.variance(x, axes=places)
        return variance if degrees == count else variance * (count / degrees)
    return g.reduction_sum(g.square(x - g.mean(x, places)), places) / call.cast(0.0, call.dtype)


@aten("std")
def std(call: Call, x: Tensor, axes: Any = None, *others: Any, correction: Any = 1, **named: Any) -> Tensor:
    return call.g.square_root(var(call, x, axes, *others, correction=correction, **named))


@aten("logsumexp")
def logsumexp(call: Call, x: Tensor, axes: Axes, keep: bool = False) -> Tensor:
    return special.logsumexp(x, axis=_axes(x, axes) if x.shape else None)


@aten.rows({"argmax": "reduction_arg_maximum", "argmin": "reduction_arg_minimum"})
def arg_extremum(call: Call, method: str, x: Tensor, axis: int | None = None, keep: bool = False) -> Tensor:
    if not x.shape:
        return call.cast(0, call.dtype)  # type: ignore[no-any-return]
    if axis is None:
        x, axis = call.g.reshape(x, [-1]), 0
    return getattr(call.g, method)(x, axis)  # type: ignore[no-any-return]


@aten.rows({"max": "maximum", "min": "minimum"})
def extremum(call: Call, which: str, x: Tensor, axis: Any = None, keep: bool = False) -> Any:
    g = call.g
    if isinstance(axis, Tensor):  # With two tensors, the extremum is element-wise.
        return binary(call, f"{which}_with_nan_propagation", x, axis)
    if not isinstance(call.result, (tuple, list)):
        return reduced(call, f"reduction_{which}_propagate_nan", x, None)
    if not x.shape:
        return [x, g.constant(0, (), "int64")]
    where = getattr(g, f"reduction_arg_{which}")(g.cast(x, int32) if str(x.dtype) == "bool" else x, axis)
    return [g.gather_along_axis(axis, x, where), where]


@aten.rows({"cumsum": "cumulative_sum", "cumprod": "cumulative_product"})
def running(call: Call, method: str, x: Tensor, axis: int, **_: Any) -> Tensor:
    x = call.cast(x, call.dtype)
    return getattr(call.g, method)(x, axis) if x.shape else x


@aten("topk")
def topk(call: Call, x: Tensor, k: int, axis: int = -1, largest: bool = True, ordered: bool = True) -> list[Tensor]:
    if not x.shape:
        return [x, call.g.constant(0, (), "int64")]
    return list((call.g.top_k if largest else call.g.bottom_k)(x, k, axis))
