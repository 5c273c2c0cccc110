"""Translations of gather operators, one-hot, non-zero indices, and sequence reversal.

An index outside its axis is an error, raised at load time for constant indices and at run time for others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._core import Tensor, int32, int64
from ...errors import GraphError, OutOfRangeError, ShapeError
from ..building.node import Node, Results, operator
from ._compose import as_vectors


def wrapped(node: Node, index: Tensor, sizes: Sequence[int | Tensor]) -> Tensor:
    """Convert negative indices, which count from the end, to non-negative indices.

    `sizes` has one entry that applies to all indices, or one entry for each component of the index vectors along the
    last axis. Raises OutOfRangeError if a constant index is out of range.
    """
    g = node.g
    if index.operation.kind == "constant" and all(isinstance(size, int) for size in sizes):
        return g.constant(_from_the_front(index.operation.attributes["value"].numpy(), sizes))
    kind = index.dtype if index.dtype == int32 else int64
    index, span = node.cast(index, kind), node.joined(sizes)
    span = node.cast(span, kind) if isinstance(span, Tensor) else g.constant(span, dtype=kind)
    span = g.reshape(span, ()) if len(sizes) == 1 else span
    return g.select(g.less_than(index, 0), g.addition(index, span), index)


def _from_the_front(index: np.ndarray, sizes: Sequence[int | Tensor]) -> np.ndarray:
    span = np.array(sizes[0] if len(sizes) == 1 else sizes, np.int64)
    places = np.where(index < 0, index + span, index.astype(np.int64))
    outside = np.argwhere((places < 0) | (places >= span))
    if outside.size:
        place, size = tuple(int(i) for i in outside[0]), int(span if len(sizes) == 1 else span[outside[0][-1]])
        raise OutOfRangeError(
            f"index {index[place]} at {place} must be between {-size} and {size - 1} for an axis of size {size}"
        )
    return places.astype(np.int32).reshape(index.shape)


@operator("Gather", upto=13)
def gather(node: Node) -> Results:
    x = node.tensor(0)
    axis = node.axis(x, node.attribute("axis", 0))
    return node.g.gather(x, wrapped(node, node.tensor(1), [node.dim(x, axis)]), axis, out_of_range="error")


@operator("OneHot", upto=28)
def one_hot(node: Node) -> Results:
    g, index, values = node.g, node.tensor(0), node.tensor(2)
    rank = node.rank(index) + 1
    axis = node.attribute("axis", -1)
    if not -rank <= axis < rank:
        raise ShapeError(f"axis must be between {-rank} and {rank - 1} for a result of rank {rank}, got {axis}")
    known = node.known_ints(1) if node.tensor(1).dtype.is_integer else [int(node.scalar(1, 0))]
    depth: int | Tensor = known[0] if known else g.reshape(g.cast(node.tensor(1), int64), (1,))
    classes = g.coordinate_along_axis(0, [depth] if isinstance(depth, int) else depth)
    classes = g.reshape(classes, [-1 if i == axis % rank else 1 for i in range(rank)])
    # Use 64 bits so that large indices do not wrap around to valid classes.
    place = g.expand_dims(node.cast(index, int64), axis)
    span = g.reshape(depth, ()) if isinstance(depth, Tensor) else depth
    place = g.select(g.less_than(place, 0), g.addition(place, span), place)
    hot = g.equal(place, g.cast(classes, int64))
    off, on = (g.reshape(g.slice(values, [i], [i + 1]), ()) for i in (0, 1))
    return g.select(hot, on, off)


@operator("ReverseSequence", upto=28)
def reverse_sequence(node: Node) -> Results:
    """Translate ReverseSequence, which reverses the first time steps of each batch entry.

    If an entry has the given length, result[t] = x[length - 1 - t] for t < length, and x[t] otherwise.
    """
    g, x = node.g, node.tensor(0)
    batch, time = node.attribute("batch_axis", 1), node.attribute("time_axis", 0)
    if {batch, time} != {0, 1}:
        raise GraphError(f"batch_axis and time_axis must be 0 and 1 in either order, got {batch} and {time}")
    if time == 0:
        x = g.swap_axes(x, 0, 1)
    steps = g.coordinate_along_axis(1, node.joined([1, node.dim(x, 1)]))
    lengths = g.expand_dims(node.cast(node.tensor(1), int32), 1)
    turned = g.subtraction(g.subtraction(lengths, 1), steps)
    index = g.select(g.less_than(steps, lengths), turned, steps)
    result = g.gather(x, index, 1, 1, out_of_range="error")  # Raises an error if a length exceeds the time axis.
    return g.swap_axes(result, 0, 1) if time == 0 else result


@operator("GatherElements", upto=13)
def gather_elements(node: Node) -> Results:
    g, scalar = node.g, not node.rank(node.tensor(1))
    x, index = as_vectors(node, node.tensor(0), node.tensor(1))
    axis = node.axis(x, node.attribute("axis", 0))
    index = wrapped(node, index, [node.dim(x, axis)])
    result = g.gather_along_axis(axis, cut_to(node, x, index, axis), index, out_of_range="error")
    return g.reshape(result, ()) if scalar else result


def cut_to(node: Node, x: Tensor, other: Tensor, axis: int) -> Tensor:
    """Crop x to the shape of another tensor, except along one axis."""
    g, have, wanted = node.g, node.dims(x), node.dims(other)
    if len(have) != len(wanted):
        raise ShapeError(f"indices must have the same rank as the data, got shapes {other.shape} and {x.shape}")
    same = (a == axis or (size == want and size >= 0) for a, (size, want) in enumerate(zip(have, wanted, strict=True)))
    if all(same):
        return x
    ends = [node.dim(x if a == axis else other, a) for a in range(len(have))]
    return g.slice(x, [0] * len(have), node.joined(ends))


@operator("GatherND", upto=13)
def gather_nd(node: Node) -> Results:
    x, batch = node.tensor(0), node.attribute("batch_dims", 0)
    return node.g.gather_nd(x, wrapped_vectors(node, node.tensor(1), x, batch), batch, out_of_range="error")


def wrapped_vectors(node: Node, index: Tensor, x: Tensor, batch: int = 0) -> Tensor:
    """Return index vectors into x with negative components, which count from the end, made non-negative."""
    count = node.size(index, -1)
    if not 0 < count <= node.rank(x) - batch:
        raise ShapeError(
            f"index vectors must have between 1 and {node.rank(x) - batch} components for data of shape {x.shape} with "
            f"{batch} batch axes, got {count}"
        )
    return wrapped(node, index, [node.dim(x, batch + i) for i in range(count)])


@operator("NonZero", upto=13)
def non_zero(node: Node) -> Results:
    g = node.g
    return g.cast(g.transpose(g.non_zero_indices(node.tensor(0)), [1, 0]), int64)


@operator("Compress", upto=28)
def compress(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    index = g.squeeze(g.non_zero_indices(node.tensor(1)), [1])
    axis = node.attribute("axis", None)
    if axis is None:
        x, axis = g.reshape(x, (-1,)), 0
    return g.gather(x, index, node.axis(x, axis))
