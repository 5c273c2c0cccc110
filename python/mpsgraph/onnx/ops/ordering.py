"""Translations of top-k, cumulative operations, and unique."""

from __future__ import annotations

from ..._core import Tensor, int32, int64
from ...errors import UnsupportedError
from ..building.node import Node, Results, operator
from ._compose import as_vectors

MOST_KEYS = 10_000  # Maximum number of elements of a slice in Unique, which sorts slices by each of their elements.


@operator("TopK", upto=24)
def top_k(node: Node) -> Results:
    g = node.g
    (x,) = as_vectors(node, node.tensor(0))
    axis = node.axis(x, node.attribute("axis", -1))
    node.without_effect("sorted")  # If sorted=0, any order is allowed.
    k: int | Tensor = node.attribute("k") if node.version < 10 else _one(node, 1)
    method = g.top_k if node.attribute("largest", 1) else g.bottom_k
    values, indices = method(x, k, axis)
    if not node.rank(node.tensor(0)):
        values, indices = g.reshape(values, ()), g.reshape(indices, ())
    return [values, g.cast(indices, int64)]


def _one(node: Node, i: int) -> int | Tensor:
    """Return operand i, which has one element, as an int if it is known and as a scalar tensor otherwise."""
    g, known = node.g, node.known_ints(i)
    if known:
        return known[0]
    # Values beyond the range of int32 saturate.
    bounded = g.clamp(node.cast(node.tensor(i), int64), -(2**31), 2**31 - 1)
    return g.reshape(g.cast(bounded, int32), ())


@operator("CumSum", upto=14)
@operator("CumProd", upto=26)
def cumulative(node: Node) -> Results:
    g = node.g
    method = g.cumulative_sum if node.name == "CumSum" else g.cumulative_product
    return method(
        node.tensor(0), _one(node, 1), bool(node.attribute("exclusive", 0)), bool(node.attribute("reverse", 0))
    )


@operator("Unique", upto=28)
def unique(node: Node) -> Results:
    """Translate Unique by marking each element that differs from its predecessor in sorted order.

    The sort is stable, so the first occurrence of equal elements comes first. Slices are sorted by each of their
    elements in turn, from the last element to the first.
    """
    g, x = node.g, node.tensor(0)
    axis = node.attribute("axis", None)
    if axis is None:
        x, axis = g.reshape(x, (-1,)), 0
    axis = node.axis(x, axis)
    rows = g.swap_axes(x, 0, axis) if axis else x
    flat = g.flatten2d(rows, 1) if node.rank(x) > 1 else g.expand_dims(rows, 1)
    count = node.dim(flat, 0)
    if node.size(flat, 1) > MOST_KEYS:
        raise UnsupportedError(
            f"Unique supports slices of at most {MOST_KEYS} elements along the axis, got {node.size(flat, 1)}"
        )
    order = g.coordinate_along_axis(0, [count] if isinstance(count, int) else count)
    for column in range(node.size(flat, 1) - 1, -1, -1):
        keys = g.squeeze(g.slice_axis(flat, 1, column, 1), [1])
        if keys.dtype.is_float:  # Treat -0 and 0 as equal.
            keys = g.select(g.equal(keys, 0.0), 0.0, keys)
        order = g.gather(order, g.arg_sort(g.gather(keys, order, 0), 0), 0)
    ordered = g.gather(flat, order, 0)
    before, behind = g.slice(ordered, [0, 0], [-1, 0], end_mask=2), g.slice(ordered, [1, 0], [0, 0], end_mask=3)
    differs = g.squeeze(g.reduction_or(g.not_equal(before, behind), 1), [1])
    new = g.slice(g.concat([g.constant([True]), differs], 0), [0], node.joined([count]))
    leaders = g.squeeze(g.non_zero_indices(new), [1])  # Positions of the first occurrences in sorted order.
    first = g.gather(order, leaders, 0)
    group = g.subtraction(g.cumulative_sum(g.cast(new, int32), 0), 1)
    edges = g.concat([leaders, g.shape_of(order)], 0)
    counts = g.subtraction(g.slice(edges, [1], [0], end_mask=1), g.slice(edges, [0], [-1]))
    if not node.attribute("sorted", 1):  # If sorted=0, the results are in the order of first occurrence.
        by_place = g.arg_sort(first, 0)
        first, counts = g.gather(first, by_place, 0), g.gather(counts, by_place, 0)
        group = g.gather(g.arg_sort(by_place, 0), group, 0)
    inverse = g.scatter_along_axis(0, group, order, "set", shape=g.shape_of(order))
    return [g.gather(x, first, axis), *(g.cast(part, int64) for part in (first, inverse, counts))]
