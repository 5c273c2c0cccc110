"""Translations of gather and scatter. Negative indices count from the end, as in Core ML up to iOS16."""

from __future__ import annotations

import numpy as np

from ..._core import Tensor, int32
from ...interchange.renames import options
from .._operation import Call, Results, mil

_MODES = options("mil", "scatter mode")


def _indices(call: Call, x: Tensor, axis: int) -> Tensor:
    """Return the `indices` parameter with negative indices, which count from the end, made non-negative.

    Out-of-range indices are run-time errors.
    """
    g, given = call.g, call.tensor("indices")
    call.has("validate_indices")
    indices = given if str(given.dtype) in ("int32", "int64") else call.cast(given, int32)
    if given.operation.kind == "constant" and _known_inside(given):
        return indices
    if str(given.dtype).startswith("uint"):
        return indices
    size = call.dim(x, axis)
    whole = call.cast(g.reshape(size, []), indices.dtype) if isinstance(size, Tensor) else size
    return g.select(g.less_than(indices, 0), g.addition(indices, whole), indices)


def _known_inside(indices: Tensor) -> bool:
    value = np.asarray(indices.operation.attributes["value"].numpy())
    return value.size == 0 or int(value.min()) >= 0


@mil("gather")
def gather(call: Call) -> Results:
    x = call.weight("x")
    axis = call.axis(x, call.integer("axis", 0))
    batch = call.integer("batch_dims", 0)
    return call.g.gather(x, _indices(call, x, axis), axis, batch, out_of_range="error")


@mil("gather_along_axis")
def gather_along_axis(call: Call) -> Results:
    x = call.tensor("x")
    axis = call.axis(x, call.integer("axis", 0))
    return call.g.gather_along_axis(axis, x, _indices(call, x, axis), out_of_range="error")


def _vectors(call: Call, x: Tensor, batch: int) -> Tensor:
    """Return index vectors with negative components, which count from the end, made non-negative."""
    g, given = call.g, call.tensor("indices")
    call.has("validate_indices")
    indices = given if str(given.dtype) in ("int32", "int64") else call.cast(given, int32)
    if str(given.dtype).startswith("uint") or (given.operation.kind == "constant" and _known_inside(given)):
        return indices
    count = call.size(indices, -1)
    sizes = call.joined(call.dim(x, batch + i) for i in range(count))
    whole = g.constant(np.array(sizes, np.int32), dtype=indices.dtype) if isinstance(sizes, list) else call.cast(
        sizes, indices.dtype
    )  # fmt: skip
    return g.select(g.less_than(indices, 0), g.addition(indices, whole), indices)


@mil("gather_nd")
def gather_nd(call: Call) -> Results:
    x, batch = call.tensor("x"), call.integer("batch_dims", 0)
    return call.g.gather_nd(x, _vectors(call, x, batch), batch, out_of_range="error")


def _mode(call: Call, default: str) -> str:
    mode = call.text("mode", default)
    if mode not in _MODES:
        call.refuse(f"mode {mode!r} is not supported")
    return _MODES[mode]


@mil("scatter")
def scatter(call: Call) -> Results:
    data = call.tensor("data")
    axis, mode = call.axis(data, call.integer("axis", 0)), _mode(call, "add")
    indices = _indices(call, data, axis)
    indices = indices if call.rank(indices) else call.g.reshape(indices, [1])
    return call.g.scatter(call.tensor("updates"), indices, axis, mode, data=data, out_of_range="error")


@mil("scatter_along_axis")
def scatter_along_axis(call: Call) -> Results:
    data = call.tensor("data")
    axis, mode = call.axis(data, call.integer("axis", 0)), _mode(call, "add")
    indices = _indices(call, data, axis)
    return call.g.scatter_along_axis(axis, call.tensor("updates"), indices, mode, data=data, out_of_range="error")


@mil("scatter_nd")
def scatter_nd(call: Call) -> Results:
    data = call.tensor("data")
    mode = _mode(call, "add")
    return call.g.scatter_nd(call.tensor("updates"), _vectors(call, data, 0), 0, mode, data=data, out_of_range="error")


@mil("one_hot")
def one_hot(call: Call) -> Results:
    g, indices = call.g, call.tensor("indices")
    depth, axis = call.integer("one_hot_vector_size"), call.integer("axis", -1)
    on, off = (np.asarray(call.value(name, number)).item() for name, number in (("on_value", 1), ("off_value", 0)))
    if str(call.dtype) == "bool":
        return g.cast(g.one_hot(indices, depth, axis, "int32", int(on), int(off)), "bool")
    return g.one_hot(indices, depth, axis, call.dtype, on, off)


@mil("non_zero")
def non_zero(call: Call) -> Results:
    return call.g.non_zero_indices(call.tensor("x"))
