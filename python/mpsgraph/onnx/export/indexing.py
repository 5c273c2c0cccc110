"""Export of gather, scatter, one-hot, and non-zero operations to ONNX.

In ONNX, negative indices count from the end, and out-of-range indices are errors. In mpsgraph, each operation has a
rule for out-of-range indices. To implement the rule, the exporter clamps the indices to the valid range. The elements
at clamped indices are then masked (rules "zeros" and "drop") or kept (rule "clip").
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from ..._core import Operation, Tensor
from ...interchange.export import NotExpressible, axis_of, known_array, required_shape
from ...interchange.renames import names
from ._writer import Writer, writes

_REDUCTIONS = {**names("onnx", "scatter mode"), "set": None, "sub": "add", "div": "mul"}


def _int64(w: Writer, tensor: Tensor) -> str:
    name = w.name(tensor)
    return name if str(tensor.dtype) == "int64" else w.add("Cast", name, to=TensorProto.INT64)


def _are_inside(indices: Tensor, size: int) -> bool:
    """Return whether all indices are constants that lie within an axis of the given size."""
    known = known_array(indices)
    return known is not None and size >= 0 and (known.size == 0 or (known.min() >= 0 and known.max() < size))


def _held(w: Writer, index: str, size: str) -> str:
    """Clamp indices to the range 0 to size - 1, as int64."""
    return w.add("Max", w.add("Min", index, w.add("Sub", size, w.ints(1))), w.ints(0))


def _inside(w: Writer, index: str, size: str) -> str:
    """Return a mask that is true where int64 indices are between 0 and size - 1."""
    return w.add("And", w.add("GreaterOrEqual", index, w.ints(0)), w.add("Less", index, size))


def _looked_up(w: Writer, op: Operation, axis: int) -> tuple[str, str]:
    """Return the indices of an operation, clamped to the valid range, and a mask of those that were in range before.

    The mask is an empty name if no element has to be masked.
    """
    rule, indices = op.attributes["out_of_range"], op.inputs[1]
    if rule == "error" or _are_inside(indices, required_shape(op.inputs[0])[axis]):
        return w.name(indices), ""
    index, size = _int64(w, indices), w.sizes((op.inputs[0], axis))
    size = w.add("Squeeze", size, w.ints([0]))
    return _held(w, index, size), _inside(w, index, size) if rule == "zeros" else ""


def _zeros_elsewhere(w: Writer, op: Operation, found: str, inside: str, axes: list[int]) -> str:
    """Replace elements with zeros where the mask `inside` is false.

    For broadcasting, axes of size 1 are inserted into the mask at the positions `axes`.
    """
    if not inside:
        return found
    if axes:
        inside = w.add("Unsqueeze", inside, w.ints(axes))
    dtype = op.outputs[0].dtype
    zero = w.constant(np.asarray(False)) if str(dtype) == "bool" else w.number(0, dtype)
    return w.add("Where", inside, found, zero)


@writes("gather")
def gather(w: Writer, op: Operation) -> str:
    """Export a gather along one axis as Gather, or as GatherND if there are batch dimensions.

    GatherND gathers along the axis after the batch dimensions, so the gathered axis is moved there first.
    """
    axis, batch = axis_of(op, place=9), int(op.attributes["batch_dimensions"])
    rank, count = len(required_shape(op.inputs[0])), len(required_shape(op.inputs[1]))
    index, inside = _looked_up(w, op, axis)
    behind = [axis + count - batch + i for i in range(rank - axis - 1)]
    if batch == 0:
        found = w.add("Gather", w.name(op.inputs[0]), index, axis=axis)
        return _zeros_elsewhere(w, op, found, inside, list(range(axis)) + behind)
    if not inside and str(op.inputs[1].dtype) != "int64":
        index = w.add("Cast", index, to=TensorProto.INT64)
    forth = [*range(batch), axis, *range(batch, axis), *range(axis + 1, rank)]
    vectors = w.add("Unsqueeze", index, w.ints([-1]))
    found = w.add("GatherND", w.transpose(w.name(op.inputs[0]), forth), vectors, batch_dims=batch)
    # GatherND orders the axes as batch, indices, axes before the gathered one, axes after it. Move the axes before the
    # gathered one in front of the indices.
    back = [
        *range(batch),
        *range(count, count + axis - batch),
        *range(batch, count),
        *range(count + axis - batch, rank + count - batch - 1),
    ]
    found = w.transpose(found, back)
    return _zeros_elsewhere(w, op, found, inside, list(range(batch, axis)) + behind)


@writes("gather_along_axis")
def gather_along_axis(w: Writer, op: Operation) -> str:
    """Export a gather with a separate index per element as GatherElements."""
    axis = axis_of(op, place=2)
    index, inside = _looked_up(w, op, axis)
    found = w.add("GatherElements", w.name(op.inputs[0]), index, axis=axis)
    return _zeros_elsewhere(w, op, found, inside, [])


@writes("gather_nd")
def gather_nd(w: Writer, op: Operation) -> str:
    """Export a gather by index vectors as GatherND."""
    batch, rule = int(op.attributes["batch_dimensions"]), op.attributes["out_of_range"]
    index, inside, every = _int64(w, op.inputs[1]), "", ""
    if rule != "error":
        index, inside, every = _vectors_inside(w, op, op.inputs[1], batch)
    found = w.add("GatherND", w.name(op.inputs[0]), index, batch_dims=batch)
    count = len(required_shape(op.inputs[1])) - 1
    return _zeros_elsewhere(
        w, op, found, every if rule == "zeros" else "", list(range(count, len(required_shape(op.outputs[0]))))
    )


def _vectors_inside(w: Writer, op: Operation, indices: Tensor, batch: int) -> tuple[str, str, str]:
    """Clamp each component of index vectors to the valid range for operand 0.

    Returns the clamped vectors, a mask of the components that were in range, and a mask of the vectors all of whose
    components were in range.
    """
    length = required_shape(indices)[-1]
    if length < 0:
        raise NotExpressible("the length of the index vectors is dynamic, but ONNX needs a static one")
    size = w.sizes(*((op.inputs[0], batch + i) for i in range(length)))
    index = _int64(w, indices)
    inside = _inside(w, index, size)
    numbers = w.add("ReduceMin", w.add("Cast", inside, to=TensorProto.INT32), w.ints([-1]), keepdims=0)
    return _held(w, index, size), inside, w.add("Cast", numbers, to=TensorProto.BOOL)


@writes("one_hot")
def one_hot(w: Writer, op: Operation) -> str:
    """Export one-hot encoding as a comparison of the indices with all class numbers, at most one of which equals the
    index.

    ONNX's OneHot is not used, because it would count negative indices from the end.
    """
    rule, depth = op.attributes["out_of_range"], int(op.attributes["depth"])
    if rule == "error" and not _are_inside(op.inputs[0], depth):
        raise NotExpressible("ONNX has no equivalent of a one-hot encoding with out_of_range='error'")
    rank = len(required_shape(op.outputs[0]))
    axis = int(op.attributes["axis"]) % rank
    number = op.inputs[0].dtype.numpy
    given = w.name(op.inputs[0])
    if rule == "clip":
        low, high = (w.constant(np.asarray(v, number)) for v in (0, min(depth - 1, np.iinfo(number).max)))
        given = w.add("Max", w.add("Min", given, high), low)
    classes = np.arange(depth, dtype=number).reshape([-1 if i == axis else 1 for i in range(rank)])
    given = w.add("Unsqueeze", given, w.ints([axis]))
    dtype = op.outputs[0].dtype
    on, off = (w.number(op.attributes[key], dtype) for key in ("on_value", "off_value"))
    return w.add("Where", w.add("Equal", given, w.constant(classes)), on, off)


@writes("non_zero_indices")
def non_zero_indices(w: Writer, op: Operation) -> str:
    """Export the indices of non-zero elements as NonZero, transposed to (count, axes) and converted to int32."""
    places = w.add("NonZero", w.name(op.inputs[0]))
    if required_shape(op.inputs[0]) == ():  # ONNX treats a scalar as a vector.
        places = w.add("Slice", places, w.ints([0]), w.ints([0]), w.ints([0]))
    return w.cast(w.transpose(places, [1, 0]), op.outputs[0].dtype)


# --- scatter ----------------------------------------------------------------------------------------------------------


def _updates(w: Writer, op: Operation) -> tuple[str, str | None]:
    """Return the updates of a scatter operation and the ONNX reduction mode that applies them.

    Subtraction becomes addition of negated updates, and division becomes multiplication by reciprocals.
    """
    mode, updates = str(op.attributes["mode"]), op.inputs[1]
    name, dtype = w.name(updates), str(updates.dtype)
    if mode == "sub":
        name = w.add("Neg", name)
    if mode == "div":
        if "int" in dtype:
            raise NotExpressible(
                "the operation divides integers, but ONNX's scatter operators can only multiply: cast to float32"
            )
        name = w.add("Reciprocal", name)
    if dtype == "bool" and mode != "set":
        raise NotExpressible(f"ONNX's scatter operators do not support mode '{mode}' for bool")
    return name, _REDUCTIONS[mode]


def _with_room(w: Writer, op: Operation, axis: int) -> str:
    """Return the data of a scatter operation, padded by one element along an axis. This element receives the dropped
    updates.
    """
    rank = len(required_shape(op.inputs[0]))
    pads = [0] * (2 * rank)
    pads[rank + axis] = 1
    return w.add("Pad", w.name(op.inputs[0]), w.ints(pads))


def _scattered(w: Writer, op: Operation, axis: int, index: str) -> tuple[str, str, bool]:
    """Apply a scatter operation's rule for out-of-range indices.

    Returns the data and the int64 indices to use, and whether the data was padded by an element that receives dropped
    updates.
    """
    data, indices, rule = op.inputs[0], op.inputs[2], op.attributes["out_of_range"]
    if rule == "error" or _are_inside(indices, required_shape(data)[axis]):
        return w.name(data), index, False
    size = w.add("Squeeze", w.sizes((data, axis)), w.ints([0]))
    if rule == "clip":
        return w.name(data), _held(w, index, size), False
    return _with_room(w, op, axis), w.add("Where", _inside(w, index, size), index, size), True


def _without_room(w: Writer, op: Operation, result: str, axis: int, room: bool) -> str:
    if not room:
        return result
    return w.add("Slice", result, w.ints([0]), w.ints([-1]), w.ints([axis]))


@writes("scatter_along_axis")
def scatter_along_axis(w: Writer, op: Operation) -> str:
    """Export a scatter with a separate index per element as ScatterElements."""
    updates, reduction = _updates(w, op)
    axis = axis_of(op, place=3)
    data, index, room = _scattered(w, op, axis, _int64(w, op.inputs[2]))
    result = w.add("ScatterElements", data, index, updates, axis=axis, reduction=reduction)
    return _without_room(w, op, result, axis, room)


@writes("scatter")
def scatter(w: Writer, op: Operation) -> str:
    """Export a scatter of slices along one axis as ScatterND, after moving this axis to the front."""
    updates, reduction = _updates(w, op)
    axis, rank = axis_of(op, place=9), len(required_shape(op.inputs[0]))
    data, index, room = _scattered(w, op, axis, _int64(w, op.inputs[2]))
    forth = [axis, *(i for i in range(rank) if i != axis)]
    vectors = w.add("Unsqueeze", index, w.ints([-1]))
    result = w.add("ScatterND", w.transpose(data, forth), vectors, w.transpose(updates, forth), reduction=reduction)
    return _without_room(w, op, w.transpose(result, [forth.index(i) for i in range(rank)]), axis, room)


@writes("scatter_nd")
def scatter_nd(w: Writer, op: Operation) -> str:
    """Export a scatter by index vectors as ScatterND. Dropped updates go to an additional element of the first axis."""
    if op.attributes["batch_dimensions"]:
        raise NotExpressible("ONNX's ScatterND does not support batch dimensions")
    updates, reduction = _updates(w, op)
    rule, index = op.attributes["out_of_range"], _int64(w, op.inputs[2])
    if rule == "error" or required_shape(op.inputs[2])[-1] == 0:
        return w.add("ScatterND", w.name(op.inputs[0]), index, updates, reduction=reduction)
    held, _, every = _vectors_inside(w, op, op.inputs[2], 0)
    if rule == "clip":
        return w.add("ScatterND", w.name(op.inputs[0]), held, updates, reduction=reduction)
    length = required_shape(op.inputs[2])[-1]
    outside = w.add("Concat", w.sizes((op.inputs[0], 0)), w.ints([0] * (length - 1)), axis=0)
    vectors = w.add("Where", w.add("Unsqueeze", every, w.ints([-1])), held, outside)
    result = w.add("ScatterND", _with_room(w, op, 0), vectors, updates, reduction=reduction)
    return _without_room(w, op, result, 0, True)
