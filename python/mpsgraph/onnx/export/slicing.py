"""Export of slices and slice updates, with constant or computed bounds, to ONNX.

An update is written one axis at a time, as a concatenation of the data before the slice, the update, and the data after
it.
"""

from __future__ import annotations

import numpy as np

from ..._core import Operation
from ...interchange.export import NotExpressible, attribute, known_array, required_shape
from ._writer import Writer, writes

_END = np.iinfo(np.int64).max


@writes("slice")
def slice_(w: Writer, op: Operation) -> str:
    """Export a slice as Slice, taking into account masks for omitted starts and ends and for squeezed axes."""
    rank = len(required_shape(op.inputs[0]))
    x, a = w.name(op.inputs[0]), op.attributes
    squeezed = [axis for axis in range(rank) if int(a["squeeze_mask"]) >> axis & 1]
    masked = [axis for axis in range(rank) if (int(a["start_mask"]) | int(a["end_mask"])) >> axis & 1]
    if len(op.inputs) > 1 and any(known_array(t) is None for t in op.inputs[1:]):
        stated = w.shape_operand(op.inputs[3]) if len(op.inputs) > 3 else w.ints(list(a["strides"]) or [1] * rank)
        operands = [w.shape_operand(t) for t in op.inputs[1:3]]
        if len(operands) < 2:
            operands.append(w.ints(list(a["ends"])))
        if masked:
            strides = [int(v) for v in attribute(op, "strides", 3)] or [1] * rank
            whole = [[0 if step > 0 else _END for step in strides], [_END if step > 0 else -_END for step in strides]]
            for i, key in enumerate(("start_mask", "end_mask")):
                open_axes = np.array([int(a[key]) >> axis & 1 for axis in range(rank)], bool)
                operands[i] = w.add("Where", w.constant(open_axes), w.ints(whole[i]), operands[i])
        result = w.add("Slice", x, operands[0], operands[1], w.ints(list(range(rank))), stated)
        return w.add("Squeeze", result, w.ints(squeezed)) if squeezed else result
    starts, ends, strides = _ranges(op, 1, rank)
    axes = [
        axis
        for axis in range(rank)
        if strides[axis] != 1 or not (_whole_start(a, axis, starts) and int(a["end_mask"]) >> axis & 1)
    ]
    if axes:
        numbers = [[values[axis] for axis in axes] for values in (starts, ends)]
        steps = [strides[axis] for axis in axes]
        x = w.add("Slice", x, w.ints(numbers[0]), w.ints(numbers[1]), w.ints(axes), w.ints(steps))
    return w.add("Squeeze", x, w.ints(squeezed)) if squeezed else x if axes else w.add("Identity", x)


def _ranges(op: Operation, place: int, rank: int) -> tuple[list[int], list[int], list[int]]:
    """Return the starts, ends, and strides of a slice, which must be constant.

    They are attributes of the operation, or its operands from index `place` on. Bounds omitted by a mask extend to the
    end of the axis.
    """
    starts, ends, strides = (
        [int(v) for v in attribute(op, key, place + i)] for i, key in enumerate(("starts", "ends", "strides"))
    )
    strides = strides or [1] * rank
    for axis in range(rank):
        backwards = strides[axis] < 0
        if int(op.attributes["start_mask"]) >> axis & 1:
            starts[axis] = _END if backwards else 0
        if int(op.attributes["end_mask"]) >> axis & 1:
            ends[axis] = -_END if backwards else _END
    return starts, ends, strides


def _whole_start(a: dict[str, object], axis: int, starts: list[int]) -> bool:
    return bool(int(a["start_mask"]) >> axis & 1) or starts[axis] == 0  # type: ignore[call-overload]


def spans(op: Operation, axis: int, start: int, end: int) -> bool:
    """Return whether an operation slices one axis from start to end and keeps all other axes whole."""
    if op.kind != "slice" or len(op.inputs) > 1 or int(op.attributes["squeeze_mask"]):
        return False
    shape = required_shape(op.inputs[0])
    starts, ends, strides = _ranges(op, 1, len(shape))
    if strides != [1] * len(shape):
        return False
    stated = {axis: (start, end)}
    for i, size in enumerate(shape):
        low, high = stated.get(i, (0, size))
        same_end = ends[i] == high or (ends[i] == _END and high in (size, _END)) or (high == _END and ends[i] == size)
        same_start = starts[i] == low or (low < 0 <= size and starts[i] == low + size)
        if not same_start or not same_end:
            return False
    return True


def ends_of(op: Operation, axis: int, at_end: bool) -> bool:
    """Return whether an operation slices only the last element of an axis (`at_end` true) or only the first
    (`at_end` false).
    """
    return spans(op, axis, -1, _END) if at_end else spans(op, axis, 0, 1)


@writes("dynamic_slice")
def dynamic_slice(w: Writer, op: Operation) -> str:
    """Export a slice of given sizes, whose starts are computed at run time, as Slice.

    ONNX clips out-of-range slices instead of raising an error.
    """
    rank = len(required_shape(op.inputs[0]))
    starts, ends, strides = _places(w, op, 1, rank)
    return w.add("Slice", w.name(op.inputs[0]), starts, ends, w.ints(list(range(rank))), w.ints(strides))


def _places(w: Writer, op: Operation, place: int, rank: int) -> tuple[str, str, list[int]]:
    """Return the starts, ends, and strides of a slice.

    The starts and sizes of the slice are the operands from index `place` on.
    """
    strides = [int(v) for v in op.attributes["strides"]] or [1] * rank
    if min(strides) < 1:
        raise NotExpressible("dynamic_slice with negative strides cannot be exported to ONNX")
    starts = w.shape_operand(op.inputs[place])
    if len(op.inputs) > place + 1:
        sizes = w.shape_operand(op.inputs[place + 1])
    else:
        sizes = w.ints([int(v) for v in op.attributes["sizes"]])
    if any(stride != 1 for stride in strides):
        reach = w.add("Mul", w.add("Sub", sizes, w.ints(1)), w.ints(strides))
        sizes = w.add("Add", reach, w.ints(1))
    ends = w.add("Add", starts, sizes)
    known = known_array(op.inputs[place])
    # A negative start counts from the end of the axis. If such a slice ends with the axis, start + size is 0, which
    # ONNX would take for the beginning of the axis.
    if known is None or (known < 0).any():
        from_behind = w.add("And", w.add("Less", starts, w.ints(0)), w.add("Equal", ends, w.ints(0)))
        ends = w.add("Where", from_behind, w.ints(_END), ends)
    return starts, ends, strides


@writes("dynamic_slice_update_data")
def dynamic_update(w: Writer, op: Operation) -> str:
    """Export a slice update at computed starts as a Concat of the data before the slice, the update, and the data
    after it.
    """
    rank = len(required_shape(op.inputs[0]))
    starts, ends, strides = _places(w, op, 2, rank)
    if max(strides) > 1:
        raise NotExpressible("dynamic_slice_update_data with strides cannot be exported to ONNX")
    partly = _partial_axes(op)
    if not partly:
        return w.identity(w.name(op.inputs[1]))

    def part(name: str, axis: int) -> str:
        return name if rank == 1 else w.add("Slice", name, w.ints([axis]), w.ints([axis + 1]))

    places = {axis: (part(starts, axis), part(ends, axis)) for axis in partly}
    return _written(w, w.name(op.inputs[0]), w.name(op.inputs[1]), places)


def _partial_axes(op: Operation) -> list[int]:
    """Return the axes along which a slice's update is shorter than the data, or may be because a size is dynamic."""
    data, update = required_shape(op.inputs[0]), required_shape(op.inputs[1])
    return [axis for axis, (a, b) in enumerate(zip(data, update, strict=True)) if a != b or a < 0]


def _written(w: Writer, data: str, update: str, places: dict[int, tuple[str, str]]) -> str:
    """Add nodes that replace a slice of `data` with `update`, one axis at a time.

    `places` maps each sliced axis to the names of its start and end.
    """
    axis, *more = places
    (start, end), on = places[axis], w.ints([axis])
    before, behind = w.add("Slice", data, w.ints([0]), start, on), w.add("Slice", data, end, w.ints([_END]), on)
    if more:
        update = _written(w, w.add("Slice", data, start, end, on), update, {key: places[key] for key in more})
    return w.add("Concat", before, update, behind, axis=axis)


@writes("slice_update_data")
def update(w: Writer, op: Operation) -> str:
    """Export a slice update at constant positions as ScatterND, one axis at a time."""
    shape, rank = required_shape(op.inputs[0]), len(required_shape(op.inputs[0]))
    starts, ends, strides = _ranges(op, 2, rank)
    new = w.name(op.inputs[1])
    squeezed = [axis for axis in range(rank) if int(op.attributes["squeeze_mask"]) >> axis & 1]
    if squeezed:
        new = w.add("Unsqueeze", new, w.ints(squeezed))
    spans = {}
    for axis in range(rank):
        if (starts[axis], strides[axis]) == (0, 1) and ends[axis] in (_END, shape[axis]) and axis not in squeezed:
            continue
        if shape[axis] < 0:
            raise NotExpressible(
                "the size of an axis that the update covers only partly is dynamic, but must be static"
            )
        if axis in squeezed:
            spans[axis] = range(starts[axis] % shape[axis], starts[axis] % shape[axis] + 1)
            continue
        spans[axis] = range(shape[axis])[slice(_given(starts[axis]), _given(ends[axis]), strides[axis])]
    return _at_places(w, w.name(op.inputs[0]), new, spans, rank)


def _given(bound: int) -> int | None:
    return None if abs(bound) == _END else bound


def _at_places(w: Writer, data: str, new: str, spans: dict[int, range], rank: int) -> str:
    """Add nodes that replace the elements of `data` at constant positions with `new`, one axis at a time.

    `spans` maps each axis to a range of positions.
    """
    if not spans:
        return w.identity(new)
    axis, *more = spans
    span = spans[axis]
    if more:
        inner = w.add("Gather", data, w.ints(list(span)), axis=axis)
        new = _at_places(w, inner, new, {key: spans[key] for key in more}, rank)
    forth = [axis, *(i for i in range(rank) if i != axis)]
    index = w.constant(np.asarray(list(span), np.int64).reshape(-1, 1))
    result = w.add("ScatterND", w.transpose(data, forth), index, w.transpose(new, forth))
    return w.transpose(result, [forth.index(i) for i in range(rank)])
