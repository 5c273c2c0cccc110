"""Elements by index: gather, scatter, one-hot, top-k, cumulative sums, and orders turned round."""

from __future__ import annotations

import numpy as np

from ..._core import Tensor, int32, int64
from ...errors import GraphError, ShapeError
from .._registry import Node, Results, operator
from ._compose import cast


def wrapped(node: Node, index: Tensor, size: int | Tensor) -> Tensor:
    """Indices counted from the front, as int32; those that count from the end are negative."""
    g = node.g
    index = cast(node, index, int32)
    if isinstance(size, Tensor):
        size = g.reshape(g.cast(size, int32), ())
    return g.select(g.less_than(index, 0), g.addition(index, size), index)


@operator("Gather", upto=13)
def gather(node: Node) -> Results:
    x = node.tensor(0)
    axis = node.axis(x, node.attribute("axis", 0))
    return node.g.gather(x, wrapped(node, node.tensor(1), node.dim(x, axis)), axis)


@operator("OneHot", upto=11)
def one_hot(node: Node) -> Results:
    g, index, values = node.g, node.tensor(0), node.tensor(2)
    rank = node.rank(index) + 1
    axis = node.attribute("axis", -1)
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} of a result of rank {rank}")
    known = node.known_ints(1) if node.tensor(1).dtype.is_integer else [int(node.scalar(1, 0))]
    depth: int | Tensor = known[0] if known else g.reshape(g.cast(node.tensor(1), int64), (1,))
    classes = g.coordinate_along_axis(0, [depth] if isinstance(depth, int) else depth)
    classes = g.reshape(classes, [-1 if i == axis % rank else 1 for i in range(rank)])
    hot = g.equal(g.expand_dims(wrapped(node, index, depth), axis), classes)
    off, on = (g.reshape(g.slice(values, [i], [i + 1]), ()) for i in (0, 1))
    return g.select(hot, on, off)


@operator("ReverseSequence", upto=10)
def reverse_sequence(node: Node) -> Results:
    """result[t] = x[length - 1 - t] for t < length, else x[t], along the time axis, for each entry of the batch."""
    g, x = node.g, node.tensor(0)
    batch, time = node.attribute("batch_axis", 1), node.attribute("time_axis", 0)
    if {batch, time} != {0, 1}:
        raise GraphError(f"batch_axis {batch} and time_axis {time} must be 0 and 1")
    if time == 0:
        x = g.swap_axes(x, 0, 1)
    steps = g.constant(np.arange(node.size(x, 1), dtype=np.int32)[None])
    lengths = g.expand_dims(cast(node, node.tensor(1), int32), 1)
    turned = g.subtraction(g.subtraction(lengths, 1), steps)
    index = g.select(g.less_than(steps, lengths), turned, steps)
    result = g.gather(x, index, 1, 1)
    return g.swap_axes(result, 0, 1) if time == 0 else result


@operator("NonZero", upto=13)
def non_zero(node: Node) -> Results:
    x = node.value(0)
    places = np.argwhere(x)  # (count, rank); a number has no coordinates
    return node.g.constant(np.ascontiguousarray(places.T.astype(np.int64)))


@operator("Compress", upto=11)
def compress(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    index = np.flatnonzero(node.value(1))
    axis = node.attribute("axis", None)
    if axis is None:
        x, axis = g.reshape(x, (-1,)), 0
    return g.gather(x, g.constant(index.astype(np.int32)), node.axis(x, axis))


@operator("TensorScatter", upto=24)
def tensor_scatter(node: Node) -> Results:
    """A cache with an update written at a place of its own for each entry of the batch, from the front again at the end
    when it is circular."""
    g, cache, update = node.g, node.tensor(0), node.tensor(1)
    axis, mode = node.axis(cache, node.attribute("axis", -2)), node.attribute("mode", "linear")
    batch, size, count = node.size(cache, 0), node.size(cache, axis), node.size(update, axis)
    start = cast(node, node.tensor(2), int32) if node.has(2) else g.constant(0, shape=(batch,), dtype=int32)
    place = g.subtraction(g.constant(np.arange(size, dtype=np.int32)[None]), g.expand_dims(start, 1))
    if mode == "circular":
        place = g.floor_modulo(place, size)
    written = g.logical_and(g.greater_than_or_equal_to(place, 0), g.less_than(place, count))
    new = g.gather(update, g.clamp(place, 0, count - 1), axis, 1)
    shape = [batch, *(size if a == axis else 1 for a in range(1, node.rank(cache)))]
    return g.select(g.reshape(written, shape), new, cache)
