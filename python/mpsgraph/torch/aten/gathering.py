"""Translations of reads and writes by index: embeddings, gather, scatter and advanced indexing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..._core import Tensor, bool_, int32, int64
from ._table import Call, aten, composed, shape_of, stopped


def from_front(call: Call, indices: Tensor, size: int) -> Tensor:
    """Convert negative indices, which count from the end, to non-negative indices."""
    return call.g.select(call.g.less_than(indices, 0), indices + size, indices)


@aten("embedding")
def embedding(
    call: Call, weight: Tensor, indices: Tensor, padding: int = -1, by_frequency: bool = False, sparse: bool = False
) -> Tensor:
    """Translate embedding. The padding index affects only the gradient: its row of the table receives no gradient."""
    if by_frequency or sparse:
        call.refuse("scale_grad_by_freq=True and sparse=True are not supported")
    if padding >= 0:  # The padding row is read, but receives no gradient.
        count = shape_of(weight)[0]
        fixed = call.g.reshape(call.g.constant(np.arange(count) == padding), [count, 1])
        weight = call.g.select(fixed, stopped(call, weight), weight)
    return call.g.gather(weight, indices, out_of_range="error")


def as_vector(call: Call, x: Tensor) -> Tensor:
    """Return x, with a scalar reshaped to a vector of one element, because operations along an axis need at least
    one axis.
    """
    return x if x.shape else call.g.reshape(x, [1])


@aten("index_select")
def index_select(call: Call, x: Tensor, axis: int, indices: Tensor) -> Tensor:
    x, indices = as_vector(call, x), as_vector(call, indices)
    places = from_front(call, indices, shape_of(x)[axis])
    return call.g.gather(x, places, axis % len(shape_of(x)), out_of_range="error")


@aten("gather")
def gather(call: Call, x: Tensor, axis: int, indices: Tensor, *, sparse_grad: bool = False) -> Tensor:
    x, indices = as_vector(call, x), as_vector(call, indices)
    sizes, wanted = shape_of(x), shape_of(indices)
    axis %= len(sizes)
    ends = [size if i == axis else wanted[i] for i, size in enumerate(sizes)]
    part = x if ends == sizes else call.g.slice(x, [0] * len(sizes), ends)
    return call.g.gather_along_axis(axis, part, indices, out_of_range="error")


@aten("scatter_add")
def scatter_add(call: Call, x: Tensor, axis: int, indices: Tensor, source: Tensor) -> Tensor:
    return scattered(call, x, axis, indices, source, "add")


@aten("scatter")
def scatter(call: Call, x: Tensor, axis: int, indices: Tensor, source: Any, **named: Any) -> Tensor:
    mode = {None: "set", "add": "add", "multiply": "mul"}.get(named.get("reduce"))
    if mode is None:
        call.refuse(f"reduce must be add or multiply, got {named['reduce']}")
    if not isinstance(source, Tensor):
        source = call.constant(source, x.dtype, shape_of(indices))
    return scattered(call, x, axis, indices, source, mode)


def scattered(call: Call, x: Tensor, axis: int, indices: Tensor, source: Tensor, mode: str) -> Tensor:
    """Write elements of a source to indexed positions along an axis of x.

    The indices may be smaller than x along other axes. In this case, only the part of x that starts at index 0 and has
    the size of the indices changes.
    """
    g = call.g
    x, indices, source = (as_vector(call, v) for v in (x, indices, source))
    sizes, places = shape_of(x), shape_of(indices)
    axis %= len(sizes)
    if 0 in places:
        return x
    if shape_of(source) != places:
        source = g.slice(source, [0] * len(places), places)
    kept = [size if i == axis else places[i] for i, size in enumerate(sizes)]
    if kept == sizes:
        return g.scatter_along_axis(axis, source, indices, mode, data=x, out_of_range="error")
    part = g.slice(x, [0] * len(sizes), kept)
    part = g.scatter_along_axis(axis, source, indices, mode, data=part, out_of_range="error")
    inside = np.ones(kept, bool)
    inside = np.pad(inside, [(0, size - k) for size, k in zip(sizes, kept, strict=True)])
    wide = g.pad(part, [0] * len(sizes), [size - k for size, k in zip(sizes, kept, strict=True)])
    return g.select(g.constant(inside), wide, x)


MODES = {"sum": "add", "prod": "mul", "mean": "add", "amax": "max", "amin": "min"}


@aten("scatter_reduce")
def scatter_reduce(
    call: Call, x: Tensor, axis: int, indices: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    g, mode = call.g, MODES[reduce]
    neutral = {"add": 0.0, "mul": 1.0, "max": -np.inf, "min": np.inf}[mode]
    if not x.dtype.is_float and (mode in ("max", "min") or reduce == "mean"):
        call.refuse("integers are supported only with reduce='sum' and reduce='prod'")
    indices = as_vector(call, indices)
    ones = g.constant(1, shape_of(indices), x.dtype)
    count = scattered(call, g.constant(0, shape_of(x), x.dtype), axis, indices, ones, "add")
    count = g.reshape(count, shape_of(x))
    hit = g.greater_than(count, g.constant(0, (), x.dtype))
    start = x if include_self else g.select(hit, call.cast(neutral, x.dtype), x)
    found = g.reshape(scattered(call, start, axis, indices, source, mode), shape_of(x))
    if reduce != "mean":
        return found
    count = g.maximum(count + 1.0 if include_self else count, 1.0)
    return g.select(hit, found / count, x)


@composed("index_reduce")
def index_reduce(x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Translate index_reduce to scatter_reduce with the same indices in every row."""
    if not x.dim():
        x, source, dim = x.reshape(1), source.reshape(1), 0
        return index_reduce(x, 0, index.reshape(-1), source, reduce, include_self=include_self).reshape(())
    sizes = [1] * x.dim()
    sizes[dim] = index.numel()
    source = source.reshape([index.numel() if i == dim % x.dim() else n for i, n in enumerate(x.shape)])
    places = index.reshape(sizes).expand(source.shape)
    reduce = {"mean": "mean", "prod": "prod", "amax": "amax", "amin": "amin"}[reduce]
    return torch.scatter_reduce(x, dim, places, source, reduce, include_self=include_self)


@composed("put")
def put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    places = index.reshape(-1)
    places = torch.where(places < 0, places + x.numel(), places)
    flat, values = x.reshape(-1), source.reshape(-1)
    found = flat.scatter_add(0, places, values) if accumulate else flat.scatter(0, places, values)
    return found.reshape(x.shape)


@composed("masked_scatter")
def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """Replace the elements of x that a mask selects: the k-th selected element becomes the k-th element of the
    source.
    """
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    x, mask = x.expand(shape), mask.expand(shape)
    if not source.numel():
        return x.clone()
    place = torch.clamp(torch.cumsum(mask.reshape(-1).to(torch.int64), 0) - 1, 0, source.numel() - 1)
    return torch.where(mask, source.reshape(-1)[place].reshape(shape), x)


@composed("masked_scatter_backward")
def masked_scatter_backward(incoming: Any, mask: Any, sizes: Any) -> Any:
    mask = mask.expand(incoming.shape).reshape(-1)
    count = math.prod(sizes)
    place = torch.cumsum(mask.to(torch.int64), 0) - 1
    place = torch.where(mask & (place < count), place, count)
    found = torch.zeros(count + 1, dtype=incoming.dtype).scatter_add(0, place, incoming.reshape(-1))
    return found[:count].reshape(sizes)


def _is_mask(i: Tensor) -> bool:
    return str(i.dtype) in ("bool", "uint8")


class _Places:
    """The index tensors of an advanced indexing expression, converted to index vectors for the graph's gather_nd and
    scatter_nd.

    The indexed axes are moved to the front, and their index tensors are stacked. The permutation `out` moves the index
    axes of a result from the front to PyTorch's position, and `back` moves them to the front again.
    """

    def __init__(self, call: Call, x: Tensor, indices: Sequence[Tensor | None]) -> None:
        g, sizes = call.g, shape_of(x)
        self.axes = [axis for axis, i in enumerate(indices) if i is not None]
        given = [i for i in indices if i is not None]
        if any(_is_mask(i) for i in given):
            call.refuse("masks are not supported as indices: the result size is known only at run time")
        self.shape = list(np.broadcast_shapes(*(tuple(shape_of(i)) for i in given)))
        self.rest = [axis for axis in range(len(sizes)) if axis not in self.axes]
        self.order = [*self.axes, *self.rest]
        parts = [
            g.broadcast_to(from_front(call, call.cast(i, int64), sizes[axis]), self.shape)
            for axis, i in zip(self.axes, given, strict=True)
        ]
        self.vectors = g.stack(parts, len(self.shape))
        # As in PyTorch, the index axes replace the indexed axes if the indexed axes are adjacent, and come first
        # otherwise.
        together = self.axes == list(range(self.axes[0], self.axes[0] + len(self.axes)))
        before, count = self.axes[0] if together else 0, len(self.shape)
        rank = count + len(self.rest)
        self.out = [*range(count, count + before), *range(count), *range(count + before, rank)]
        self.back = [*range(before, before + count), *range(before), *range(before + count, rank)]

    def front(self, call: Call, x: Tensor) -> Tensor:
        return x if self.order == list(range(len(self.order))) else call.g.transpose(x, self.order)


@aten("index", "_unsafe_index")
def index(call: Call, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    given = [(axis, i) for axis, i in enumerate(indices) if i is not None]
    if len(given) == 1 and not _is_mask(given[0][1]):
        axis, places = given[0]
        return call.g.gather(x, from_front(call, places, shape_of(x)[axis]), axis, out_of_range="error")
    at = _Places(call, x, indices)
    found = call.g.gather_nd(at.front(call, x), at.vectors, out_of_range="error")
    return found if at.out == list(range(len(at.out))) else call.g.transpose(found, at.out)


@aten("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(
    call: Call, x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False, *_: Any
) -> Tensor:
    g = call.g
    values = call.cast(values, x.dtype)
    only = [i for i in indices if i is not None]
    if len(only) == 1 and _is_mask(only[0]) and indices[0] is not None and len(shape_of(values)) == 0:
        rest = [1] * (len(shape_of(x)) - len(shape_of(only[0])))
        mask = g.reshape(call.cast(only[0], bool_), [*shape_of(only[0]), *rest])
        return g.select(mask, _sum(call, x, values) if accumulate else values, x)
    if len(only) == 1 and _is_mask(only[0]):
        return _put_where(call, x, list(indices).index(only[0]), only[0], values, accumulate)
    at = _Places(call, x, indices)
    rest = [shape_of(x)[axis] for axis in at.rest]
    wide = [*at.shape, *rest]
    updates = g.broadcast_to(values, [wide[axis] for axis in at.out])
    if at.out != list(range(len(at.out))):
        updates = g.transpose(updates, at.back)
    mode, data = "add" if accumulate else "set", at.front(call, x)
    if x.dtype == bool_:  # The sum of bools is their disjunction.
        mode = "max" if accumulate else "set"
        updates, data = g.cast(updates, int32), g.cast(data, int32)
    found = g.scatter_nd(updates, at.vectors, mode=mode, data=data, out_of_range="error")
    found = call.cast(found, x.dtype)
    if at.order == list(range(len(at.order))):
        return found
    return g.transpose(found, [at.order.index(axis) for axis in range(len(at.order))])


def _sum(call: Call, x: Tensor, y: Tensor) -> Tensor:
    """Return the sum of two tensors, which is the disjunction for bools."""
    return call.g.logical_or(x, y) if x.dtype == bool_ else x + y


def _put_where(call: Call, x: Tensor, at: int, mask: Tensor, values: Tensor, accumulate: bool) -> Tensor:
    """Write values to the elements that a mask selects, in row-major order. The mask covers the axes from `at` on."""
    g, rank, covered = call.g, len(shape_of(x)), len(shape_of(mask))
    order = [*range(at, at + covered), *range(at), *range(at + covered, rank)]  # The axes of the mask in front.
    rest = [shape_of(x)[axis] for axis in order[covered:]]
    values = g.reshape(values, [1] * max(rank - covered + 1 - len(shape_of(values)), 0) + shape_of(values))
    count = shape_of(values)[at]
    values = g.transpose(values, [at, *range(at), *range(at + 1, len(rest) + 1)])
    selected = g.reshape(call.cast(mask, int32), [-1])
    rank_of_each = g.cumulative_sum(selected, 0) - selected
    if count != 1:
        fits = g.equal(g.reduction_sum(selected), count)
        message = f"index_put writes {count} values, so the mask must select {count} elements"
        rank_of_each = g.check(fits, message, on=rank_of_each)
        values = g.gather(values, g.minimum(rank_of_each, max(count - 1, 0)), 0)
    size = shape_of(selected)[0]
    values = g.broadcast_to(values, [size, *rest])
    flat = g.reshape(g.transpose(x, order), [size, *rest])
    both = _sum(call, flat, values) if accumulate else values
    mixed = g.select(g.reshape(call.cast(selected, bool_), [size, *[1] * len(rest)]), both, flat)
    turned = g.reshape(mixed, [shape_of(x)[axis] for axis in order])
    return g.transpose(turned, [order.index(axis) for axis in range(rank)])


@aten("one_hot")
def one_hot(call: Call, indices: Tensor, classes: int = -1) -> Tensor:
    return call.g.one_hot(indices, call.sizes[-1], dtype=int64, on_value=1, off_value=0)
