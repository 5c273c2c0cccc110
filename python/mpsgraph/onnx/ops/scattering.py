"""Translations of scatter operators."""

from __future__ import annotations

import numpy as np

from ..._core import Tensor, int32
from ...errors import GraphError
from ...interchange.renames import options
from ..building.node import Node, Results, operator
from ._compose import as_vectors
from .gathering import cut_to, wrapped, wrapped_vectors

_MODES = options("onnx", "scatter mode")


def _mode(node: Node) -> str:
    reduction = node.attribute("reduction", "none")
    if reduction not in _MODES:
        raise GraphError(f"reduction must be one of {', '.join(_MODES)}, got {reduction!r}")
    return _MODES[reduction]


@operator("ScatterElements", upto=18)
@operator("Scatter", upto=11)
def scatter_elements(node: Node) -> Results:
    """Translate ScatterElements.

    The indices may cover only a part of the data, which is sliced, updated, and written back.
    """
    g, scalar = node.g, not node.rank(node.tensor(0))
    x, index, updates = as_vectors(node, *(node.tensor(i) for i in range(3)))
    axis = node.axis(x, node.attribute("axis", 0))
    index = wrapped(node, index, [node.dim(x, axis)])
    part, updates = cut_to(node, x, index, axis), cut_to(node, updates, index, axis)
    changed = g.scatter_along_axis(axis, updates, index, _mode(node), data=part, out_of_range="error")
    if part is x:
        return g.reshape(changed, ()) if scalar else changed
    return g.slice_update_data(x, changed, [0] * node.rank(x), sizes=_sizes(node, changed))


def _sizes(node: Node, x: Tensor) -> list[int] | Tensor:
    return node.joined([node.dim(x, i) for i in range(node.rank(x))])


@operator("ScatterND", upto=18)
def scatter_nd(node: Node) -> Results:
    g, x, mode = node.g, node.tensor(0), _mode(node)
    index = wrapped_vectors(node, node.tensor(1), x)
    return g.scatter_nd(node.tensor(2), index, 0, mode, data=x, out_of_range="error")


@operator("TensorScatter", upto=24)
def tensor_scatter(node: Node) -> Results:
    """Translate TensorScatter, which writes an update into a cache at a separate position per batch entry.

    A circular cache wraps around at the end.
    """
    g, cache, update = node.g, node.tensor(0), node.tensor(1)
    axis, mode = node.axis(cache, node.attribute("axis", -2)), node.attribute("mode", "linear")
    if mode not in ("linear", "circular"):
        raise GraphError(f"mode must be linear or circular, got {mode!r}")
    batch, size, count = node.size(cache, 0), node.size(cache, axis), node.size(update, axis)
    start = node.cast(node.tensor(2), int32) if node.has(2) else g.constant(0, shape=(batch,), dtype=int32)
    place = g.subtraction(g.constant(np.arange(size, dtype=np.int32)[None]), g.expand_dims(start, 1))
    if mode == "circular":
        place = g.floor_modulo(place, size)
    written = g.logical_and(g.greater_than_or_equal_to(place, 0), g.less_than(place, count))
    new = g.gather(update, g.clamp(place, 0, count - 1), axis, 1)
    shape = [batch, *(size if a == axis else 1 for a in range(1, node.rank(cache)))]
    return g.select(g.reshape(written, shape), new, cache)
