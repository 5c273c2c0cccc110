"""Shapes, axes, slices, borders, tiles, blocks, casts."""

from __future__ import annotations

import numpy as np

from ..._core import Operation
from ...interchange.leaving import Unsaid, attribute, axis_of, known_array, required_shape
from ._writer import Writer, writes

_MODES = {"constant": "constant", "zero": "constant", "reflect": "reflect", "clamp_to_edge": "edge", "periodic": "wrap"}
_END = np.iinfo(np.int64).max


@writes("reshape")
def reshape(w: Writer, op: Operation) -> str:
    """Reshape; a size of 0 is meant, not copied."""
    return w.add("Reshape", w.name(op.inputs[0]), w.shape_operand(op.inputs[1]), allowzero=_allow_zero(op))


def _allow_zero(op: Operation) -> int | None:
    shape = op.inputs[1].operation
    sizes = shape.attributes["value"].numpy().tolist() if shape.kind == "constant" else []
    return 1 if 0 in sizes else None


@writes("broadcast_to")
def broadcast_to(w: Writer, op: Operation) -> str:
    """Expand."""
    return w.add("Expand", w.name(op.inputs[0]), w.shape_operand(op.inputs[1]))


@writes("transpose")
def transpose(w: Writer, op: Operation) -> str:
    """Transpose; of a transposed tensor, one of both."""
    return w.transpose(w.name(op.inputs[0]), [int(axis) for axis in op.attributes["permutation"]])


@writes("expand_dims", "squeeze")
def axes_of_one(w: Writer, op: Operation) -> str:
    """Unsqueeze and Squeeze; the latter of all axes of size 1 when none is named."""
    axes = attribute(op, "axes")
    x = w.name(op.inputs[0])
    if op.kind == "squeeze":
        return w.add("Squeeze", x, w.ints(list(axes))) if axes else w.add("Squeeze", x)
    return w.add("Unsqueeze", x, w.ints(list(axes)))


@writes("flatten2d")
def flatten2d(w: Writer, op: Operation) -> str:
    """Flatten."""
    return w.add("Flatten", w.name(op.inputs[0]), axis=axis_of(op))


@writes("shape_of")
def shape_of(w: Writer, op: Operation) -> str:
    """Shape, as int32."""
    return w.cast(w.add("Shape", w.name(op.inputs[0])), op.outputs[0].dtype)


@writes("cast")
def cast(w: Writer, op: Operation) -> str:
    """Cast."""
    return w.cast(w.name(op.inputs[0]), op.outputs[0].dtype)


@writes("concat")
def concat(w: Writer, op: Operation) -> str:
    """Concat; interleaved, of an axis more that is folded in again."""
    axis = int(op.attributes["axis"])
    if not op.attributes["interleave"]:
        return w.add("Concat", *w.inputs(op), axis=axis)
    shape = required_shape(op.inputs[0])
    axis %= len(shape)
    parts = [w.add("Unsqueeze", name, w.ints([axis + 1])) for name in w.inputs(op)]
    sizes = [0] * axis + [-1] + list(shape[axis + 1 :])
    if any(size < 0 for size in shape[axis + 1 :]):
        raise Unsaid("interleaves in front of sizes that only a run knows")
    return w.reshape(w.add("Concat", *parts, axis=axis + 1), sizes)


@writes("stack")
def stack(w: Writer, op: Operation) -> str:
    """Concat of tensors with an axis more."""
    axis = int(op.attributes["axis"])
    axis = axis + len(required_shape(op.outputs[0])) if axis < 0 else axis
    return w.add("Concat", *(w.add("Unsqueeze", name, w.ints([axis])) for name in w.inputs(op)), axis=axis)


@writes("split")
def split(w: Writer, op: Operation) -> list[str]:
    """Split by sizes."""
    sizes = w.shape_operand(op.inputs[1]) if len(op.inputs) > 1 else w.ints(list(op.attributes["sizes"]))
    return w.add_several("Split", [w.name(op.inputs[0]), sizes], len(op.outputs), axis=int(op.attributes["axis"]))


@writes("slice")
def slice_(w: Writer, op: Operation) -> str:
    """Slice; with masks that mean whole ranges, and axes that disappear."""
    rank = len(required_shape(op.inputs[0]))
    x, a = w.name(op.inputs[0]), op.attributes
    squeezed = [axis for axis in range(rank) if int(a["squeeze_mask"]) >> axis & 1]
    masked = [axis for axis in range(rank) if (int(a["start_mask"]) | int(a["end_mask"])) >> axis & 1]
    if len(op.inputs) > 1 and not masked:
        operands = [w.shape_operand(t) for t in op.inputs[1:]]
        if len(operands) < 2:
            operands.append(w.ints(list(a["ends"])))
        steps_operand = operands[2] if len(operands) > 2 else w.ints(list(a["strides"]) or [1] * rank)
        result = w.add("Slice", x, operands[0], operands[1], w.ints(list(range(rank))), steps_operand)
        return w.add("Squeeze", result, w.ints(squeezed)) if squeezed else result
    starts, ends = [int(v) for v in attribute(op, "starts", 1)], [int(v) for v in attribute(op, "ends", 2)]
    strides = [int(v) for v in attribute(op, "strides", 3)] or [1] * rank
    axes = [
        axis
        for axis in range(rank)
        if strides[axis] != 1 or not (_whole_start(a, axis, starts) and int(a["end_mask"]) >> axis & 1)
    ]
    for axis in axes:
        backwards = strides[axis] < 0
        if int(a["start_mask"]) >> axis & 1:
            starts[axis] = _END if backwards else 0
        if int(a["end_mask"]) >> axis & 1:
            ends[axis] = -_END if backwards else _END
    if axes:
        numbers = [[values[axis] for axis in axes] for values in (starts, ends)]
        steps = [strides[axis] for axis in axes]
        x = w.add("Slice", x, w.ints(numbers[0]), w.ints(numbers[1]), w.ints(axes), w.ints(steps))
    return w.add("Squeeze", x, w.ints(squeezed)) if squeezed else x if axes else w.add("Identity", x)


def _whole_start(a: dict[str, object], axis: int, starts: list[int]) -> bool:
    return bool(int(a["start_mask"]) >> axis & 1) or starts[axis] == 0  # type: ignore[call-overload]


@writes("reverse")
def reverse(w: Writer, op: Operation) -> str:
    """Slice with strides of -1."""
    rank = len(required_shape(op.inputs[0]))
    every = op.attributes["all_axes"]
    axes = list(range(rank)) if every else [int(axis) % rank for axis in attribute(op, "axes")]
    if not axes:
        return w.add("Identity", w.name(op.inputs[0]))
    ends = [-1], [-_END], [-1]
    starts, stops, strides = (w.ints(value * len(axes)) for value in ends)
    return w.add("Slice", w.name(op.inputs[0]), starts, stops, w.ints(axes), strides)


@writes("pad")
def pad(w: Writer, op: Operation) -> str:
    """Pad, in the modes that ONNX has."""
    mode = op.attributes["mode"]
    if mode not in _MODES:
        raise Unsaid(f"ONNX's Pad has no mode like '{mode}'")
    if mode == "periodic" and w.opset < 19:
        raise Unsaid("ONNX's Pad has 'wrap' from opset 19 on")
    sizes = [int(v) for side in ("left", "right") for v in op.attributes[side]]
    operands = [w.name(op.inputs[0]), w.ints(sizes)]
    if mode == "constant" and op.attributes["value"] != 0:
        operands.append(w.number(op.attributes["value"], op.inputs[0].dtype))
    return w.add("Pad", *operands, mode=_MODES[mode])


@writes("tile")
def tile(w: Writer, op: Operation) -> str:
    """Tile."""
    return w.add("Tile", w.name(op.inputs[0]), w.ints([int(v) for v in op.attributes["multiplier"]]))


@writes("depth_to_space2d", "space_to_depth2d")
def blocks(w: Writer, op: Operation) -> str:
    """Blocks of the plane in the depth: one axis becomes three, or three become one, by Reshape and Transpose.

    DepthToSpace has the channels in front; so the axes are brought there, and back.
    """
    rank = len(required_shape(op.inputs[0]))
    keys = ("width_axis", "height_axis", "depth_axis")
    width, height, depth = (axis_of(op, key, 1 + i) for i, key in enumerate(keys))
    block, shuffle = int(op.attributes["block_size"]), bool(op.attributes["use_pixel_shuffle_order"])
    others = [axis for axis in range(rank) if axis not in (width, height, depth)]
    if len(others) != 1:
        raise Unsaid(f"ONNX's {'DepthToSpace' if op.kind.startswith('depth') else 'SpaceToDepth'} takes rank 4")
    forth = [*others, depth, height, width]
    back = [forth.index(axis) for axis in range(rank)]
    x = w.transpose(w.name(op.inputs[0]), forth)
    if op.kind == "depth_to_space2d":
        turned = w.add("DepthToSpace", x, blocksize=block, mode="CRD" if shuffle else "DCR")
        return w.transpose(turned, back)
    turned = w.add("SpaceToDepth", x, blocksize=block)
    if shuffle:  # ONNX has (block y, block x, depth); this one has the depth first
        channels = required_shape(op.inputs[0])[depth]
        if channels < 0:
            raise Unsaid("the depth must be known")
        order = [b * channels + c for c in range(channels) for b in range(block**2)]
        turned = w.add("Gather", turned, w.ints(order), axis=1)
    return w.transpose(turned, back)


@writes("coordinate_along_axis")
def coordinate_along_axis(w: Writer, op: Operation) -> str:
    """Range along an axis, in the result's shape."""
    shape = required_shape(op.outputs[0])
    if any(size < 0 for size in shape):
        raise Unsaid("the shape must be known")
    axis = axis_of_shape(op, len(shape))
    places = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return w.constant(np.ascontiguousarray(np.broadcast_to(places, shape), np.int32))


def axis_of_shape(op: Operation, rank: int) -> int:
    """The axis of an operation whose first operand is a shape."""
    axis = attribute(op, "axis")
    axis = int(axis[0] if isinstance(axis, list) else axis)
    return axis + rank if axis < 0 else axis


@writes("dynamic_slice")
def dynamic_slice(w: Writer, op: Operation) -> str:
    """Slice from starts that are data, of a stated size; what reaches outside is cut off in ONNX, and no error."""
    rank = len(required_shape(op.inputs[0]))
    strides = [int(v) for v in op.attributes["strides"]] or [1] * rank
    starts = w.shape_operand(op.inputs[1])
    if len(op.inputs) > 2:
        sizes = w.shape_operand(op.inputs[2])
    else:
        sizes = w.ints([int(v) for v in op.attributes["sizes"]])
    if any(stride != 1 for stride in strides):
        raise Unsaid("slices of a stated size with strides")
    ends = w.add("Add", starts, sizes)
    known = known_array(op.inputs[1])
    if known is None or (known < 0).any():  # -1 + 1 is the end, not the front
        from_behind = w.add("And", w.add("Less", starts, w.ints(0)), w.add("Equal", ends, w.ints(0)))
        ends = w.add("Where", from_behind, w.ints(_END), ends)
    return w.add("Slice", w.name(op.inputs[0]), starts, ends, w.ints(list(range(rank))))
