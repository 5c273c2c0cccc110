"""Export of scatter operations to MIL.

In MIL, out-of-range indices are run-time errors. If the graph drops updates with such indices, the data is padded with
one slice that receives them, and this slice is removed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._core import Operation
from ...interchange.export import NotExpressible, known_array, required_shape
from ...interchange.renames import names
from ._writer import Var, Writer, type_name, writes

_MODES = names("mil", "scatter mode")


def _placed(w: Writer, op: Operation, axis: int, scatter: Callable[[Var, Var, Var], Var]) -> Var:
    """Call `scatter(data, updates, indices)` along one axis, with out-of-range indices handled as the operation
    specifies.
    """
    mb, (data, updates, indices), rule = w.mb, w.all(op), op.attributes["out_of_range"]
    shape, known = required_shape(op.inputs[0]), known_array(op.inputs[2])
    size = shape[axis]
    inside = known is not None and size >= 0 and (known.size == 0 or (known.min() >= 0 and known.max() < size))
    if rule == "error" or inside:
        return scatter(data, updates, indices)
    end = np.int32(size) if size >= 0 else mb.gather(x=mb.shape(x=data), indices=np.int32(axis), axis=0)
    if rule == "clip":
        last = mb.sub(x=end, y=np.int32(1))
        return scatter(data, updates, mb.minimum(x=mb.maximum(x=indices, y=np.int32(0)), y=last))
    one = [1 if i == axis else n for i, n in enumerate(shape)]
    if min(one) < 0:
        raise NotExpressible(
            "dropping out-of-range updates needs slices of static size, but a size is dynamic: use "
            "out_of_range='error' or 'clip'"
        )
    dtype = op.inputs[0].dtype
    # The slice for dropped updates holds ones, so that dropped divisions are defined.
    spare = w.constant(np.ones(one, dtype.numpy), dtype, "spare")
    outside = mb.logical_or(x=mb.less(x=indices, y=np.int32(0)), y=mb.greater_equal(x=indices, y=end))
    made = scatter(mb.concat(values=[data, spare], axis=axis), updates, mb.select(cond=outside, a=end, b=indices))
    whole = [i != axis for i in range(len(shape))]
    return mb.slice_by_index(
        x=made, begin=[0] * len(shape), end=[0 if w else -1 for w in whole], begin_mask=[True] * len(shape),
        end_mask=whole,
    )  # fmt: skip


def _mode(op: Operation) -> str:
    if type_name(op.inputs[0].dtype) == "bool":
        raise NotExpressible("MIL's scatter operations do not support bool: cast the operands first")
    return _MODES[op.attributes["mode"]]


@writes("scatter")
def scatter(w: Writer, op: Operation) -> Var:
    """Export a scatter of slices along one axis as MIL's scatter."""
    axis, mode = int(op.attributes["axis"]) % len(required_shape(op.inputs[0])), _mode(op)
    return _placed(w, op, axis, lambda data, u, i: w.mb.scatter(data=data, indices=i, updates=u, axis=axis, mode=mode))


@writes("scatter_along_axis")
def scatter_along_axis(w: Writer, op: Operation) -> Var:
    """Export a scatter with a separate index per element as MIL's scatter_along_axis."""
    axis, mode = int(op.attributes["axis"]) % len(required_shape(op.inputs[0])), _mode(op)
    if len(op.inputs) > 3:
        raise NotExpressible("axis must be an attribute, got a tensor")

    def scattered(data: Var, updates: Var, indices: Var) -> Var:
        return w.mb.scatter_along_axis(data=data, indices=indices, updates=updates, axis=axis, mode=mode)

    return _placed(w, op, axis, scattered)


@writes("scatter_nd")
def scatter_nd(w: Writer, op: Operation) -> Var:
    """Export a scatter by index vectors, without batch axes, as MIL's scatter_nd."""
    mode, depth = _mode(op), required_shape(op.inputs[2])[-1]
    if int(op.attributes["batch_dimensions"]):
        raise NotExpressible(
            "MIL's scatter_nd does not support batch dimensions, got "
            f"batch_dimensions={op.attributes['batch_dimensions']}"
        )

    def scattered(data: Var, updates: Var, indices: Var) -> Var:
        return w.mb.scatter_nd(data=data, indices=indices, updates=updates, mode=mode)

    if op.attributes["out_of_range"] == "error":
        return scattered(*w.all(op))
    if depth != 1:
        raise NotExpressible(
            "out-of-range updates along several axes cannot be dropped or clipped: use out_of_range='error'"
        )
    return _placed(w, op, 0, scattered)
