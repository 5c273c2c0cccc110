"""Translations of reductions, extrema with their indices, scans and top-k."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._core import Tensor, int32
from ...numpy import special
from ._table import Call, aten, shape_of
from .elementwise import maximum, minimum

Axes = int | Sequence[int] | None


def _axes(x: Tensor, axes: Axes) -> list[int]:
    """Return non-negative axes. None or an empty list means all axes."""
    rank = len(shape_of(x))
    given = [axes] if isinstance(axes, int) else list(axes or range(rank))
    return [axis % max(rank, 1) for axis in given]


def reduced(call: Call, method: str, x: Tensor, axes: Axes) -> Tensor:
    """Reduce x over axes, and reshape the result to the shape that PyTorch reports, which may omit the reduced axes."""
    if not x.shape:
        return x
    result = getattr(call.g, method)(x, _axes(x, axes))
    return call.g.reshape(result, call.shape)


@aten("sum")
def sum_(call: Call, x: Tensor, axes: Axes = None, keep: bool = False, **_: Any) -> Tensor:
    return reduced(call, "reduction_sum", call.cast(x, call.dtype), axes)


@aten("mean")
def mean(call: Call, x: Tensor, axes: Axes = None, keep: bool = False, **_: Any) -> Tensor:
    return reduced(call, "mean", call.cast(x, call.dtype), axes)


@aten("prod")
def prod(call: Call, x: Tensor, axes: Axes = None, keep: bool = False, **_: Any) -> Tensor:
    return reduced(call, "reduction_product", call.cast(x, call.dtype), axes)


@aten("amax")
def amax(call: Call, x: Tensor, axes: Axes = None, keep: bool = False) -> Tensor:
    return reduced(call, "reduction_maximum_propagate_nan", x, axes)


@aten("amin")
def amin(call: Call, x: Tensor, axes: Axes = None, keep: bool = False) -> Tensor:
    return reduced(call, "reduction_minimum_propagate_nan", x, axes)


def _any_or_all(method: str) -> Callable[..., Tensor]:
    def function(call: Call, x: Tensor, axes: Axes = None, keep: bool = False) -> Tensor:
        truth = x if str(x.dtype) == "bool" else call.g.not_equal(x, 0)
        return reduced(call, method, truth, axes)

    return function


aten("any")(_any_or_all("reduction_or"))
aten("all")(_any_or_all("reduction_and"))


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
    count = 1
    for axis in places:
        count *= shape_of(x)[axis]
    degrees = max(count - (1 if correction is None else correction), 0)
    if degrees == count:
        return g.reshape(g.variance(x, axes=places), call.shape)
    if degrees:
        return g.reshape(g.variance(x, axes=places), call.shape) * (count / degrees)
    total = g.reduction_sum(g.square(x - g.mean(x, places)), places)
    return g.reshape(total, call.shape) / call.cast(0.0, call.dtype)


@aten("std")
def std(call: Call, x: Tensor, axes: Any = None, *others: Any, correction: Any = 1, **named: Any) -> Tensor:
    return call.g.square_root(var(call, x, axes, *others, correction=correction, **named))


@aten("logsumexp")
def logsumexp(call: Call, x: Tensor, axes: Axes, keep: bool = False) -> Tensor:
    return special.logsumexp(x, axis=_axes(x, axes) if x.shape else None)


def _arg(method: str) -> Callable[..., Tensor]:
    def function(call: Call, x: Tensor, axis: int | None = None, keep: bool = False) -> Tensor:
        if not x.shape:
            return call.g.constant(0, (), call.dtype)
        if axis is None:
            x, axis = call.g.reshape(x, [-1]), 0
        return call.g.reshape(call.cast(getattr(call.g, method)(x, axis), call.dtype), call.shape)

    return function


aten("argmax")(_arg("reduction_arg_maximum"))
aten("argmin")(_arg("reduction_arg_minimum"))


def _extremum(values: str, places: str) -> Callable[..., Any]:
    def function(call: Call, x: Tensor, axis: Any = None, keep: bool = False) -> Any:
        if isinstance(axis, Tensor):  # With two tensors, the extremum is element-wise.
            return (maximum if call.name == "max" else minimum)(call, x, axis)
        if not isinstance(call.result, (tuple, list)):
            return reduced(call, values, x, None)
        if not x.shape:
            return [x, call.g.constant(0, (), "int64")]
        where = getattr(call.g, places)(call.cast(x, int32) if str(x.dtype) == "bool" else x, axis)
        found = call.g.gather_along_axis(axis, x, where)
        sizes = list(call.result[0].shape)
        return [call.g.reshape(found, sizes), call.g.reshape(call.g.cast(where, "int64"), sizes)]

    return function


aten("max")(_extremum("reduction_maximum_propagate_nan", "reduction_arg_maximum"))
aten("min")(_extremum("reduction_minimum_propagate_nan", "reduction_arg_minimum"))


@aten("cumsum")
def cumsum(call: Call, x: Tensor, axis: int, **_: Any) -> Tensor:
    x = call.cast(x, call.dtype)
    return call.g.cumulative_sum(x, axis) if x.shape else x


@aten("cumprod")
def cumprod(call: Call, x: Tensor, axis: int, **_: Any) -> Tensor:
    x = call.cast(x, call.dtype)
    return call.g.cumulative_product(x, axis) if x.shape else x


@aten("topk")
def topk(call: Call, x: Tensor, k: int, axis: int = -1, largest: bool = True, ordered: bool = True) -> list[Tensor]:
    if not x.shape:
        return [x, call.g.constant(0, (), "int64")]
    values, places = (call.g.top_k if largest else call.g.bottom_k)(x, k, axis)
    return [values, call.g.cast(places, "int64")]
