"""Translations that order elements: sorting, medians, modes, running extrema, binary searches and histograms."""

from __future__ import annotations

from typing import Any

import torch

from ..._core import Tensor
from ._table import Call, aten, composed, shape_of


@aten("sort")
def sort(call: Call, x: Tensor, *arguments: Any, **named: Any) -> list[Tensor]:
    """Translate sort. The sort is stable, whether or not PyTorch requests it."""
    g = call.g
    flags = [a for a in arguments if not isinstance(a, bool)]
    bools = [a for a in arguments if isinstance(a, bool)]
    axis = named.get("dim", flags[0] if flags and flags[0] is not None else -1)
    descending = named.get("descending", bools[-1] if bools else False)
    if not x.shape:
        return [x, g.constant(0, (), "int64")]
    axis %= len(shape_of(x))
    keys = g.cast(x, "int32") if str(x.dtype) == "bool" else x
    places = g.arg_sort(keys, axis, descending)
    return [g.gather_along_axis(axis, x, places), places]


@aten("argsort")
def argsort(call: Call, x: Tensor, *arguments: Any, **named: Any) -> Tensor:
    return sort(call, x, *arguments, **named)[1]


@aten.rows({"cummax": "cumulative_maximum", "cummin": "cumulative_minimum"})
def running(call: Call, method: str, x: Tensor, axis: int) -> list[Tensor]:
    """Translate cummax or cummin: return running extrema and, for each, the index of the last equal element.

    Once an element is NaN, all later extrema are NaN.
    """
    g = call.g
    if not x.shape:
        return [x, g.constant(0, (), "int64")]
    axis %= len(shape_of(x))
    found = getattr(g, method)(x, axis)
    own = g.coordinate_along_axis(axis, shape_of(x))
    is_it = g.equal(x, found)
    if x.dtype.is_float:
        is_it = g.logical_or(is_it, g.is_nan(x))
    return [found, g.cumulative_maximum(g.select(is_it, own, g.constant(0, (), "int32")), axis)]


@aten("logcumsumexp")
def logcumsumexp(call: Call, x: Tensor, axis: int) -> Tensor:
    """Compute the running log-sum-exp. The largest element of each row is subtracted before exponentiation."""
    g = call.g
    if not x.shape:
        return x
    if x.dtype.is_complex:
        call.refuse("complex numbers are not supported")
    most = g.reduction_maximum(x, axis)
    most = g.select(g.is_finite(most), most, call.cast(0.0, x.dtype))
    running = g.cumulative_sum(g.exponent(x - most), axis)
    near = g.logarithm(running) + most
    return near


@composed("kthvalue")
def kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if not x.dim():
        return x, torch.zeros((), dtype=torch.int64)
    values, places = torch.sort(x, dim=dim, stable=True)
    found = (values.narrow(dim, k - 1, 1), places.narrow(dim, k - 1, 1))
    return found if keepdim else tuple(y.squeeze(dim) for y in found)


@composed("median")
def median(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Compute medians. The median of an even number of elements is the lower middle element, and NaN if any element is
    NaN.
    """
    return _median(x, dim, keepdim, False)


@composed("nanmedian")
def nanmedian(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return _median(x, dim, keepdim, True)


def _median(x: Any, dim: int | None, keepdim: bool, without: bool) -> Any:
    whole = dim is None
    if not x.dim():
        return x.clone() if whole else (x.clone(), torch.zeros((), dtype=torch.int64))
    if whole:
        x, dim = x.reshape(-1), 0
    if not x.numel() and whole:
        return torch.full((), torch.nan, dtype=x.dtype)
    values, places = torch.sort(x, dim=dim, stable=True)
    count = x.shape[dim]
    middle = torch.full([1 if i == dim % x.dim() else n for i, n in enumerate(x.shape)], (count - 1) // 2)
    if x.is_floating_point():
        numbers = (~torch.isnan(x)).sum(dim, keepdim=True)
        # Sorting puts NaN after all numbers, so the number of elements that are not NaN determines the position of the
        # median.
        own = torch.clamp((numbers - 1) // 2, min=0) if without else torch.where(numbers < count, numbers, middle)
        middle = own.expand(middle.shape)
    found = (torch.gather(values, dim, middle), torch.gather(places, dim, middle))
    if whole:
        return found[0].reshape(())
    return found if keepdim else tuple(y.squeeze(dim) for y in found)


@composed("mode")
def mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """Compute modes. The mode is the smallest of the most frequent values, with the index of its last occurrence."""
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values, places = torch.sort(x, dim=dim, stable=True)
    count = x.shape[dim]
    last = values.movedim(dim, -1)
    often = (last.unsqueeze(-1) == last.unsqueeze(-2)).sum(-1)
    # Among equally frequent values, the first one in sorted order wins, with the last of its elements.
    rank = torch.arange(count)
    first = torch.argmax(often * (count + 1) - rank, -1, keepdim=True)
    place = first + torch.gather(often, -1, first) - 1
    found = (torch.gather(last, -1, place), torch.gather(places.movedim(dim, -1), -1, place))
    found = tuple(y.movedim(-1, dim) for y in found)
    return found if keepdim else tuple(y.squeeze(dim) for y in found)


@composed("searchsorted")
def searchsorted(
    rows: Any, values: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Any = None
) -> Any:
    """Translate searchsorted by counting, for each value, the smaller elements of its row.

    NaN counts as larger than every number.
    """
    given = values if isinstance(values, torch.Tensor) else torch.full((), values)
    if sorter is not None:
        rows = torch.gather(rows, -1, sorter)
    left, at = rows.unsqueeze(-2), given.reshape(*given.shape, 1)
    if rows.dim() == 1:
        left = rows
    before = (left <= at) if right or side == "right" else (left < at)
    if given.is_floating_point() and rows.is_floating_point():
        above = torch.isnan(at)
        before = torch.where(
            above, ~torch.isnan(left) if not (right or side == "right") else torch.ones_like(before), before
        )
    return before.sum(-1).to(torch.int32 if out_int32 else torch.int64)


@composed("bucketize")
def bucketize(values: Any, bounds: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    given = values if isinstance(values, torch.Tensor) else torch.full((), values)
    at = given.unsqueeze(-1)
    before = (bounds <= at) if right else (bounds < at)
    if given.is_floating_point():
        before = before | torch.isnan(at)
    return before.sum(-1).to(torch.int32 if out_int32 else torch.int64)


@composed("histc")
def histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """Count elements in bins of equal width, the last of which includes its upper edge.

    If min and max are both 0, the bins span the range of the elements.
    """
    flat = x.reshape(-1)
    if min == max == 0 and x.numel():
        low, high = torch.amin(flat), torch.amax(flat)
        same = low == high
        low, high = torch.where(same, low - 1, low), torch.where(same, high + 1, high)
    else:
        low, high = torch.full((), float(min), dtype=x.dtype), torch.full((), float(max), dtype=x.dtype)
        if min == max:
            low, high = low - 1, high + 1
    inside = (flat >= low) & (flat <= high)
    place = torch.clamp(((flat - low) * bins / (high - low)).to(torch.int64), 0, bins - 1)
    hit = (place.unsqueeze(-1) == torch.arange(bins)) & inside.unsqueeze(-1)
    return hit.sum(0).to(x.dtype)
