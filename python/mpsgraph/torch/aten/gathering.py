"""Reading and writing by index: embeddings, gather, scatter, index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core import Tensor, int64
from ._table import Call, aten, shape_of, stopped


def from_front(call: Call, indices: Tensor, size: int) -> Tensor:
    """Indices that may count from the end, counted from the front."""
    return call.g.select(call.g.less_than(indices, 0), indices + size, indices)


@aten("embedding")
def embedding(
    call: Call, weight: Tensor, indices: Tensor, padding: int = -1, by_frequency: bool = False, sparse: bool = False
) -> Tensor:
    """Padding matters to the gradient alone: its row gets none."""
    if by_frequency or sparse:
        call.refuse("with gradients by frequency or sparse ones")
    if padding >= 0:  # its row is read, and has no gradient
        count = shape_of(weight)[0]
        fixed = call.g.reshape(call.g.constant(np.arange(count) == padding), [count, 1])
        weight = call.g.select(fixed, stopped(call, weight), weight)
    return call.g.gather(weight, indices, out_of_range="error")


@aten("index_select")
def index_select(call: Call, x: Tensor, axis: int, indices: Tensor) -> Tensor:
    return call.g.gather(x, indices, axis % max(len(shape_of(x)), 1), out_of_range="error")


@aten("gather")
def gather(call: Call, x: Tensor, axis: int, indices: Tensor, *, sparse_grad: bool = False) -> Tensor:
    sizes, wanted = shape_of(x), shape_of(indices)
    if not sizes or not wanted:
        call.refuse("of a number")
    axis %= len(sizes)
    ends = [size if i == axis else wanted[i] for i, size in enumerate(sizes)]
    part = x if ends == sizes else call.g.slice(x, [0] * len(sizes), ends)
    return call.g.gather_along_axis(axis, part, indices, out_of_range="error")


@aten("scatter_add")
def scatter_add(call: Call, x: Tensor, axis: int, indices: Tensor, source: Tensor) -> Tensor:
    return _scattered(call, x, axis, indices, source, "add")


@aten("scatter")
def scatter(call: Call, x: Tensor, axis: int, indices: Tensor, source: Any, **named: Any) -> Tensor:
    if named:
        call.refuse("with a reduction")
    if not isinstance(source, Tensor):
        source = call.g.constant(source, shape_of(indices), x.dtype)
    return _scattered(call, x, axis, indices, source, "set")


def _scattered(call: Call, x: Tensor, axis: int, indices: Tensor, source: Tensor, mode: str) -> Tensor:
    sizes, places = shape_of(x), shape_of(indices)
    if not sizes:
        call.refuse("of a number")
    axis %= len(sizes)
    if any(i != axis and size != places[i] for i, size in enumerate(sizes)) or shape_of(source) != places:
        call.refuse("of a part of its axes")
    return call.g.scatter_along_axis(axis, source, indices, mode, data=x, out_of_range="error")


def _vectors(call: Call, x: Tensor, indices: Sequence[Tensor | None]) -> tuple[Tensor, list[int]]:
    """Index vectors for the leading axes, and the shape of what they pick. Refuses masks and gaps."""
    if any(i is None or str(i.dtype) in ("bool", "uint8") for i in indices):
        call.refuse("by masks, or by indices of axes that are not the first")
    sizes = shape_of(x)
    places = np.broadcast_shapes(*(tuple(shape_of(i)) for i in indices if i is not None))
    parts = [
        call.g.broadcast_to(from_front(call, call.cast(i, int64), sizes[axis]), list(places))
        for axis, i in enumerate(indices)
        if i is not None
    ]
    return call.g.stack(parts, len(places)), list(places)


@aten("index")
def index(call: Call, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    given = [(axis, i) for axis, i in enumerate(indices) if i is not None]
    if len(given) == 1 and str(given[0][1].dtype) not in ("bool", "uint8"):
        axis, places = given[0]
        return call.g.gather(x, from_front(call, places, shape_of(x)[axis]), axis, out_of_range="error")
    return call.g.gather_nd(x, _vectors(call, x, indices)[0], out_of_range="error")


@aten("index_put")
def index_put(
    call: Call, x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:
    vectors, places = _vectors(call, x, indices)
    updates = call.g.broadcast_to(values, [*places, *shape_of(x)[len(indices) :]])
    mode = "add" if accumulate else "set"
    return call.g.scatter_nd(updates, vectors, mode=mode, data=x, out_of_range="error")


@aten("one_hot")
def one_hot(call: Call, indices: Tensor, classes: int = -1) -> Tensor:
    return call.g.one_hot(indices, call.shape[-1], dtype=int64, on_value=1, off_value=0)
