"""Translations written in PyTorch that belong to no other file: sums of products, segment reductions and histograms."""

from __future__ import annotations

import math
from typing import Any

import torch

from ._table import composed


@composed("addbmm")
def addbmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = torch.bmm(a, b).sum(0) * alpha
    return product if beta == 0 else x * beta + product


@composed("_trilinear")
def trilinear(
    a: Any, b: Any, c: Any, expand1: Any, expand2: Any, expand3: Any, sumdim: Any, unroll_dim: int = 1
) -> Any:
    """Insert axes of size 1 into three tensors, multiply them, and sum the product over some axes."""
    wide = []
    for x, places in zip((a, b, c), (expand1, expand2, expand3), strict=True):
        for place in sorted(places):
            x = x.unsqueeze(place)
        wide.append(x)
    found = wide[0] * wide[1] * wide[2]
    return found.sum(list(sumdim)) if len(sumdim) else found


@composed("linalg__powsum")
def powsum(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    x = x if dtype is None else x.to(dtype)
    return torch.sum(torch.pow(x.abs(), ord), dim if dim is not None else list(range(x.dim())), keepdim)


@composed("_weight_norm_interface_backward")
def weight_norm_backward(incoming: Any, v: Any, scale: Any, norms: Any, dim: int) -> Any:
    axes = [axis for axis in range(v.dim()) if axis != dim % v.dim()]
    norms = norms.reshape(scale.shape)
    along = (incoming * v).sum(axes, keepdim=True).reshape(scale.shape)
    to_v = scale / norms * (incoming - v * along / torch.square(norms))
    return to_v, along / norms


@composed("logit_backward")
def logit_backward(incoming: Any, x: Any, eps: float | None = None) -> Any:
    slope = incoming / (x * (1 - x))
    if eps is None:
        return torch.where((x < 0) | (x > 1), torch.full((), math.nan, dtype=x.dtype), slope)
    return torch.where((x < eps) | (x > 1 - eps), torch.zeros((), dtype=x.dtype), slope)


@composed("nonzero_static")
def nonzero_static(x: Any, *, size: int, fill_value: int = -1) -> Any:
    """Return the indices of the first `size` nonzero elements, one row per element.

    If there are fewer elements, rows of fill_value are added.
    """
    if not x.dim():
        return torch.full((size, 0), fill_value, dtype=torch.int64)
    mask = (x != 0).reshape(-1)
    number = torch.cumsum(mask.to(torch.int64), 0) - 1
    row = torch.where(mask & (number < size), number, size)
    start = torch.full((size + 1,), -1, dtype=torch.int64)
    flat = start.scatter(0, row, torch.arange(x.numel()))[:size]
    found, rest = [], flat
    for length in reversed(x.shape):
        found.append(rest % max(length, 1))
        rest = rest // max(length, 1)
    return torch.where((flat >= 0).unsqueeze(1), torch.stack(found[::-1], 1), fill_value)


@composed("segment_reduce")
def segment_reduce(
    x: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None, axis: int = 0,
    unsafe: bool = False, initial: Any = None,
) -> Any:  # fmt: skip
    return _segments(x, reduce, lengths, offsets, axis, initial)[0]


def _segments(x: Any, reduce: str, lengths: Any, offsets: Any, axis: int, initial: Any) -> Any:
    """Reduce segments of elements along an axis.

    Returns the reduced segments, a mask of shape (…, segments, elements) that tells which elements each segment
    contains, and the number of elements of each segment.
    """
    if lengths is not None:
        ends = torch.cumsum(lengths, -1)
        starts = ends - lengths
    else:
        starts, ends = offsets[..., :-1], offsets[..., 1:]
    number = torch.arange(x.shape[axis])
    inside = (starts.unsqueeze(-1) <= number) & (number < ends.unsqueeze(-1))
    inside = inside.reshape(*inside.shape, *([1] * (x.dim() - axis - 1)))
    neutral = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}[reduce]
    wide = torch.where(inside, x.unsqueeze(axis), torch.full((), neutral, dtype=x.dtype))
    count = inside.sum(axis + 1).to(x.dtype)
    at = axis + 1
    first = neutral if initial is None else float(initial)
    if reduce in ("max", "min"):
        found = wide.amax(at) if reduce == "max" else wide.amin(at)
        limit = torch.full((), first, dtype=x.dtype)
        return (torch.maximum if reduce == "max" else torch.minimum)(found, limit), inside, count
    if reduce == "prod":
        return wide.prod(at) * first, inside, count
    found = wide.sum(at) + first
    if reduce == "mean":
        none = torch.full((), math.nan if initial is None else first, dtype=x.dtype)
        found = torch.where(count > 0, found / torch.clamp(count, min=1), none)
    return found, inside, count


@composed("_segment_reduce_backward")
def segment_reduce_backward(
    incoming: Any, result: Any, x: Any, reduce: str, *, lengths: Any = None, offsets: Any = None, axis: int = 0,
    initial: Any = None,
) -> Any:  # fmt: skip
    _, inside, count = _segments(x, "sum", lengths, offsets, axis, None)
    at = axis + 1
    incoming, result, count = (y.unsqueeze(at) for y in (incoming, result, count))
    whole = x.unsqueeze(axis)
    if reduce in ("max", "min"):
        hit = inside & (whole == result)
        slope = hit.to(x.dtype) / torch.clamp(hit.sum(at, keepdim=True).to(x.dtype), min=1)
    elif reduce == "mean":
        slope = 1 / torch.clamp(count, min=1)
    elif reduce == "prod":
        slope = result / whole
    else:
        slope = torch.ones((), dtype=x.dtype)
    return torch.where(inside, incoming * slope, torch.zeros((), dtype=x.dtype)).sum(axis)


# --- histograms -------------------------------------------------------------------------------------------------------
def _edges(x: Any, bins: int, low: Any, high: Any) -> Any:
    """Return the edges of bins of equal width between low and high.

    If low and high are None, the bins span the range of x.
    """
    if low is None:
        low, high = (torch.amin(x), torch.amax(x)) if x.numel() else (torch.zeros(()), torch.ones(()))
    else:
        low, high = (torch.full((), float(v), dtype=x.dtype) for v in (low, high))
    same = low == high
    low, high = torch.where(same, low - 0.5, low), torch.where(same, high + 0.5, high)
    number = torch.arange(bins + 1)
    return torch.where(number == bins, high, low + (high - low) * (number.to(x.dtype) / bins))


def _counted(x: Any, edges: list[Any], weight: Any, density: bool) -> Any:
    """Compute a multidimensional histogram of the points `x`, [n, d], over the grid with `edges`.

    The last box along each axis includes its upper edge.
    """
    boxes = [edge.numel() - 1 for edge in edges]
    inside, flat = torch.ones(x.shape[0], dtype=torch.bool), torch.zeros(x.shape[0], dtype=torch.int64)
    for axis, edge in enumerate(edges):
        at = x[:, axis].contiguous()
        place = (edge.unsqueeze(0) <= at.unsqueeze(1)).sum(1) - 1
        place = torch.where(at == edge[-1], torch.full_like(place, boxes[axis] - 1), place)
        inside = inside & (place >= 0) & (place < boxes[axis])
        flat = flat * boxes[axis] + torch.clamp(place, 0, boxes[axis] - 1)
    shares = inside.to(x.dtype) * (1 if weight is None else weight.reshape(-1))
    found = torch.zeros(math.prod(boxes), dtype=x.dtype).scatter_add(0, flat, shares).reshape(boxes)
    if density:
        found = found / found.sum()
        for axis, edge in enumerate(edges):
            found = found / (edge[1:] - edge[:-1]).reshape([-1 if i == axis else 1 for i in range(len(boxes))])
    return found


@composed("histogram")
def histogram(x: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    low, high = (None, None) if range is None else range
    edges = bins if isinstance(bins, torch.Tensor) else _edges(x, bins, low, high)
    return _counted(x.reshape(-1, 1), [edges], weight, density), edges


def _all_edges(x: Any, bins: Any, range: Any) -> list[Any]:
    points = x.reshape(-1, x.shape[-1])
    limits = [(None, None)] * len(bins) if range is None else [range[2 * i : 2 * i + 2] for i, _ in enumerate(bins)]
    return [_edges(points[:, i], count, *limits[i]) for i, count in enumerate(bins)]


@composed("_histogramdd_bin_edges")
def histogramdd_bin_edges(x: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    return _all_edges(x, bins, range)


@composed("_histogramdd_from_bin_cts")
def histogramdd_by_counts(x: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    return _counted(x.reshape(-1, x.shape[-1]), _all_edges(x, bins, range), weight, density)


@composed("_histogramdd_from_bin_tensors")
def histogramdd_by_edges(x: Any, bins: Any, *, weight: Any = None, density: bool = False) -> Any:
    return _counted(x.reshape(-1, x.shape[-1]), list(bins), weight, density)
