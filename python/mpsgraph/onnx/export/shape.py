"""Export of reshapes, axis operations, padding, tiling, space-depth rearrangement, and casts to ONNX."""

from __future__ import annotations

import numpy as np

from ..._core import Operation
from ...interchange.export import NotExpressible, attribute, axis_of, required_shape
from ...interchange.renames import names
from ._writer import Writer, writes

_MODES = {"zero": "constant", **names("onnx", "padding mode")}
_END = np.iinfo(np.int64).max


@writes("reshape")
def reshape(w: Writer, op: Operation) -> str:
    """Export a reshape as Reshape.

    If the shape contains zeros, attribute allowzero is set, because ONNX would otherwise copy the size of the input
    there.
    """
    return w.add("Reshape", w.name(op.inputs[0]), w.shape_operand(op.inputs[1]), allowzero=_allow_zero(op))


def _allow_zero(op: Operation) -> int | None:
    shape = op.inputs[1].operation
    sizes = shape.attributes["value"].numpy().tolist() if shape.kind == "constant" else []
    return 1 if 0 in sizes else None


@writes("broadcast_to")
def broadcast_to(w: Writer, op: Operation) -> str:
    """Export a broadcast as Expand."""
    return w.add("Expand", w.name(op.inputs[0]), w.shape_operand(op.inputs[1]))


@writes("transpose")
def transpose(w: Writer, op: Operation) -> str:
    """Export a permutation of axes as Transpose, merged with a preceding Transpose if there is one."""
    return w.transpose(w.name(op.inputs[0]), [int(axis) for axis in op.attributes["permutation"]])


@writes("expand_dims", "squeeze")
def axes_of_one(w: Writer, op: Operation) -> str:
    """Export the insertion or removal of axes as Unsqueeze or Squeeze.

    If the operation lists no axes, neither does the Squeeze node, which then removes all axes of size 1.
    """
    axes = attribute(op, "axes")
    x = w.name(op.inputs[0])
    if op.kind == "squeeze":
        return w.add("Squeeze", x, w.ints(list(axes))) if axes else w.add("Squeeze", x)
    return w.add("Unsqueeze", x, w.ints(list(axes)))


@writes("flatten2d")
def flatten2d(w: Writer, op: Operation) -> str:
    """Export the flattening of a tensor to a matrix as Flatten."""
    return w.add("Flatten", w.name(op.inputs[0]), axis=axis_of(op))


@writes("shape_of")
def shape_of(w: Writer, op: Operation) -> str:
    """Export a query of a tensor's shape as Shape, with the int64 result converted to int32."""
    return w.cast(w.add("Shape", w.name(op.inputs[0])), op.outputs[0].dtype)


@writes("cast")
def cast(w: Writer, op: Operation) -> str:
    """Export a type conversion as Cast."""
    return w.cast(w.name(op.inputs[0]), op.outputs[0].dtype)


@writes("concat")
def concat(w: Writer, op: Operation) -> str:
    """Export a concatenation as Concat.

    To interleave elements, the operands are concatenated along a new axis, which is then merged with the original one.
    """
    axis = int(op.attributes["axis"])
    if not op.attributes["interleave"]:
        return w.add("Concat", *w.all(op), axis=axis)
    shape = required_shape(op.inputs[0])
    axis %= len(shape)
    parts = [w.add("Unsqueeze", name, w.ints([axis + 1])) for name in w.all(op)]
    together = w.add("Concat", *parts, axis=axis + 1)
    behind = [(op.inputs[0], i) for i in range(axis + 1, len(shape))]
    return w.add("Reshape", together, w.sizes(*[0] * axis, -1, *behind))


@writes("stack")
def stack(w: Writer, op: Operation) -> str:
    """Export the stacking of tensors along a new axis as Unsqueeze and Concat."""
    axis = int(op.attributes["axis"])
    axis = axis + len(required_shape(op.outputs[0])) if axis < 0 else axis
    return w.add("Concat", *(w.add("Unsqueeze", name, w.ints([axis])) for name in w.all(op)), axis=axis)


@writes("split")
def split(w: Writer, op: Operation) -> list[str]:
    """Export a split into parts of explicit sizes as Split."""
    sizes = w.shape_operand(op.inputs[1]) if len(op.inputs) > 1 else w.ints(list(op.attributes["sizes"]))
    return w.add_several("Split", [w.name(op.inputs[0]), sizes], len(op.outputs), axis=int(op.attributes["axis"]))


@writes("reverse")
def reverse(w: Writer, op: Operation) -> str:
    """Export the reversal of axes as Slice with strides of -1."""
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
    """Export padding as Pad, for the modes that ONNX supports."""
    mode = op.attributes["mode"]
    if mode not in _MODES:
        raise NotExpressible(f"ONNX's Pad does not support mode '{mode}'")
    if mode == "periodic" and w.opset < 19:
        raise NotExpressible("ONNX's Pad supports periodic padding only from opset 19: pass a higher opset")
    sizes = [int(v) for side in ("left", "right") for v in op.attributes[side]]
    operands = [w.name(op.inputs[0]), w.ints(sizes)]
    if mode == "constant" and op.attributes["value"] != 0:
        operands.append(w.number(op.attributes["value"], op.inputs[0].dtype))
    return w.add("Pad", *operands, mode=_MODES[mode])


@writes("tile")
def tile(w: Writer, op: Operation) -> str:
    """Export the repetition of a tensor along its axes as Tile."""
    return w.add("Tile", w.name(op.inputs[0]), w.ints([int(v) for v in op.attributes["multiplier"]]))


@writes("depth_to_space2d", "space_to_depth2d")
def blocks(w: Writer, op: Operation) -> str:
    """Export depth-to-space or space-to-depth rearrangement as DepthToSpace or SpaceToDepth, with channels moved to
    the front.
    """
    rank = len(required_shape(op.inputs[0]))
    keys = ("width_axis", "height_axis", "depth_axis")
    width, height, depth = (axis_of(op, key, 1 + i) for i, key in enumerate(keys))
    block, shuffle = int(op.attributes["block_size"]), bool(op.attributes["use_pixel_shuffle_order"])
    others = [axis for axis in range(rank) if axis not in (width, height, depth)]
    if len(others) != 1:
        raise NotExpressible(
            f"ONNX's {'DepthToSpace' if op.kind.startswith('depth') else 'SpaceToDepth'} needs a tensor of rank 4, "
            f"got rank {rank}"
        )
    forth = [*others, depth, height, width]
    back = [forth.index(axis) for axis in range(rank)]
    x = w.transpose(w.name(op.inputs[0]), forth)
    if op.kind == "depth_to_space2d":
        turned = w.add("DepthToSpace", x, blocksize=block, mode="CRD" if shuffle else "DCR")
        return w.transpose(turned, back)
    turned = w.add("SpaceToDepth", x, blocksize=block)
    # ONNX orders the channels of the result as (block y, block x, depth), and pixel shuffle as (depth, block y, block
    # x).
    if shuffle:
        channels = required_shape(op.inputs[0])[depth]
        if channels < 0:
            raise NotExpressible("the size of the depth axis is dynamic, but the export needs a static one")
        order = [b * channels + c for c in range(channels) for b in range(block**2)]
        turned = w.add("Gather", turned, w.ints(order), axis=1)
    return w.transpose(turned, back)


@writes("coordinate_along_axis")
def coordinate_along_axis(w: Writer, op: Operation) -> str:
    """Export the index of each element along an axis: as a constant for static shapes, and as a broadcast Range
    otherwise.
    """
    shape = required_shape(op.outputs[0])
    axis = axis_of_shape(op, len(shape))
    along = [-1 if i == axis else 1 for i in range(len(shape))]
    if min(shape, default=0) >= 0:
        places = np.arange(shape[axis]).reshape(along)
        return w.constant(np.ascontiguousarray(np.broadcast_to(places, shape), np.int32))
    sizes = w.shape_operand(op.inputs[0])
    size = w.add("Squeeze", w.add("Slice", sizes, w.ints([axis]), w.ints([axis + 1])), w.ints([0]))
    counted = w.cast(w.add("Range", w.ints(0), size, w.ints(1)), op.outputs[0].dtype)
    return counted if len(shape) == 1 else w.add("Expand", w.reshape(counted, along), sizes)


def axis_of_shape(op: Operation, rank: int) -> int:
    """Return the operation's axis attribute as a non-negative axis of a tensor of the given rank."""
    axis = attribute(op, "axis")
    axis = int(axis[0] if isinstance(axis, list) else axis)
    return axis + rank if axis < 0 else axis
