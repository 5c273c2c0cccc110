"""Export of reshapes, axis operations, slices, padding, tiling, and space-depth rearrangement to MIL."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import Operation
from ...interchange.export import NotExpressible, attribute, axis_of, known_array, required_shape
from ...interchange.renames import names
from ._writer import Var, Writer, type_name, writes

_MODES = {"zero": "constant", **names("mil", "padding mode")}


@writes("reshape")
def reshape(w: Writer, op: Operation) -> Var:
    """Export a reshape. Shapes that contain 0 are rejected, because 0 in MIL copies the size of the operand's axis."""
    shape = w.shape_operand(op.inputs[1])
    if isinstance(shape, np.ndarray) and 0 in shape:
        raise NotExpressible("the result has no elements, but MIL's reshape cannot produce empty tensors")
    return w.mb.reshape(x=w[op.inputs[0]], shape=shape)


@writes("broadcast_to")
def broadcast_to(w: Writer, op: Operation) -> Var:
    """Export a broadcast as MIL's tile if shapes are static.

    If they are dynamic, zeros of the target shape are added to the operand; for bool, select is used instead.
    """
    x, old, new = w[op.inputs[0]], required_shape(op.inputs[0]), required_shape(op.outputs[0])
    wide = [1] * (len(new) - len(old)) + list(old)
    x = w.spread(x, range(len(new) - len(old))) if len(new) > len(old) else x
    if min(new, default=0) >= 0:
        reps = [n if o == 1 else 1 for o, n in zip(wide, new, strict=True)]
        return w.mb.tile(x=x, reps=reps) if any(n != 1 for n in reps) else w.mb.identity(x=x)
    dtype = op.inputs[0].dtype
    zeros = w.mb.fill(shape=w.shape_operand(op.inputs[1]), value=w.number(0, dtype))
    return (w.mb.logical_or if type_name(dtype) == "bool" else w.mb.add)(x=x, y=zeros)


@writes("transpose")
def transpose(w: Writer, op: Operation) -> Var:
    """Export a permutation of axes as MIL's transpose."""
    return w.mb.transpose(x=w[op.inputs[0]], perm=[int(axis) for axis in op.attributes["permutation"]])


@writes("expand_dims", "squeeze")
def axes_of_one(w: Writer, op: Operation) -> Var:
    """Export the insertion or removal of axes as MIL's expand_dims or squeeze.

    Without explicit axes, squeeze removes all axes of size 1.
    """
    axes, x = [int(axis) for axis in attribute(op, "axes")], w[op.inputs[0]]
    if op.kind == "expand_dims":
        return w.spread(x, axes)
    if not axes:
        axes = [axis for axis, size in enumerate(required_shape(op.inputs[0])) if size == 1]
    return w.mb.squeeze(x=x, axes=axes) if axes else w.mb.identity(x=x)


@writes("flatten2d")
def flatten2d(w: Writer, op: Operation) -> Var:
    """Export the flattening of a tensor to a matrix as MIL's flatten2d."""
    return w.mb.flatten2d(x=w[op.inputs[0]], axis=axis_of(op))


@writes("shape_of")
def shape_of(w: Writer, op: Operation) -> Var:
    """Export a query of a tensor's shape as MIL's shape."""
    return w.mb.shape(x=w[op.inputs[0]])


@writes("concat")
def concat(w: Writer, op: Operation) -> Var:
    """Export a concatenation as MIL's concat."""
    return w.mb.concat(values=w.all(op), axis=int(op.attributes["axis"]), interleave=bool(op.attributes["interleave"]))


@writes("stack")
def stack(w: Writer, op: Operation) -> Var:
    """Export the stacking of tensors along a new axis as MIL's stack."""
    axis, rank = int(op.attributes["axis"]), len(required_shape(op.outputs[0]))
    return w.mb.stack(values=w.all(op), axis=axis % rank)


@writes("split")
def split(w: Writer, op: Operation) -> list[Var]:
    """Export a split into parts of explicit sizes as MIL's split."""
    sizes = [int(v) for v in attribute(op, "sizes")]
    axis, x = int(op.attributes["axis"]), w[op.inputs[0]]
    if len(sizes) == 1:
        return [w.mb.identity(x=x)]
    return list(w.mb.split(x=x, split_sizes=sizes, axis=axis))


def _flags(mask: int, rank: int) -> list[bool]:
    return [bool(mask >> axis & 1) for axis in range(rank)]


@writes("slice")
def slice_(w: Writer, op: Operation) -> Var:
    """Export a slice with constant bounds as MIL's slice_by_index, with masks for omitted bounds and squeezed axes."""
    rank, a = len(required_shape(op.inputs[0])), op.attributes

    def part(key: str, place: int) -> Any:
        if len(op.inputs) > place:
            return w.shape_operand(op.inputs[place])
        return [int(v) for v in a[key]] or [1] * rank

    ranges = {"begin": part("starts", 1), "end": part("ends", 2), "stride": part("strides", 3)}
    squeezed = [axis for axis in range(rank) if int(a["squeeze_mask"]) >> axis & 1]
    masks = {"begin_mask": _flags(int(a["start_mask"]), rank), "end_mask": _flags(int(a["end_mask"]), rank)}
    limit = np.iinfo(np.int32)
    for key in ("begin", "end"):
        if isinstance(ranges[key], list):
            ranges[key] = [max(limit.min, min(limit.max, v)) for v in ranges[key]]
    y = w.mb.slice_by_index(x=w[op.inputs[0]], **ranges, **masks)
    return w.mb.squeeze(x=y, axes=squeezed) if squeezed else y


@writes("dynamic_slice")
def dynamic_slice(w: Writer, op: Operation) -> Var:
    """Export a slice whose starts are computed at run time as MIL's slice_by_size."""
    rank = len(required_shape(op.inputs[0]))
    strides = [int(v) for v in op.attributes["strides"]] or [1] * rank
    if any(stride != 1 for stride in strides):
        raise NotExpressible("dynamic_slice with strides cannot be expressed in MIL")
    known = known_array(op.inputs[1])
    if known is not None and (known < 0).any():
        raise NotExpressible(f"the starts of dynamic_slice must not be negative, got {known.tolist()}")
    sizes = w.shape_operand(op.inputs[2]) if len(op.inputs) > 2 else [int(v) for v in op.attributes["sizes"]]
    return w.mb.slice_by_size(x=w[op.inputs[0]], begin=w.shape_operand(op.inputs[1]), size=sizes)


@writes("reverse")
def reverse(w: Writer, op: Operation) -> Var:
    """Export the reversal of axes as MIL's reverse."""
    rank = len(required_shape(op.inputs[0]))
    axes = range(rank) if op.attributes["all_axes"] else [int(axis) % rank for axis in attribute(op, "axes")]
    return w.mb.reverse(x=w[op.inputs[0]], axes=list(axes)) if axes else w.mb.identity(x=w[op.inputs[0]])


@writes("pad")
def pad(w: Writer, op: Operation) -> Var:
    """Export padding as MIL's pad.

    For modes other than constant, MIL needs the padded axes last, so they are moved to the end and back.
    """
    mode, x = op.attributes["mode"], w[op.inputs[0]]
    if mode not in _MODES:
        raise NotExpressible(f"MIL's pad does not support mode '{mode}'")
    pairs = list(zip(*([int(v) for v in op.attributes[side]] for side in ("left", "right")), strict=True))
    wide = [axis for axis, pair in enumerate(pairs) if pair != (0, 0)]
    if not wide:
        return w.mb.identity(x=x)
    if any(v < 0 for pair in pairs for v in pair):
        raise NotExpressible("negative padding cannot be expressed in MIL")
    if _MODES[mode] == "constant":
        value = w.number(op.attributes["value"] if mode == "constant" else 0, op.inputs[0].dtype)
        return w.mb.pad(x=x, pad=[v for pair in pairs[wide[0] :] for v in pair], constant_val=value)
    if len(wide) > 2 or len(pairs) < 2:
        raise NotExpressible(f"MIL's pad supports mode '{mode}' for at most two axes of a tensor of rank 2 or more")
    last = wide if len(wide) == 2 else [next(axis for axis in range(len(pairs)) if axis not in wide), *wide]
    forth = [axis for axis in range(len(pairs)) if axis not in last] + last
    y = w.mb.pad(x=w.turned(x, forth), pad=[v for axis in last for v in pairs[axis]], mode=_MODES[mode])
    return w.turned(y, [forth.index(axis) for axis in range(len(pairs))])


@writes("tile")
def tile(w: Writer, op: Operation) -> Var:
    """Export the repetition of a tensor along its axes as MIL's tile."""
    return w.mb.tile(x=w[op.inputs[0]], reps=[int(v) for v in op.attributes["multiplier"]])


@writes("depth_to_space2d", "space_to_depth2d")
def blocks(w: Writer, op: Operation) -> Var:
    """Export depth-to-space or space-to-depth rearrangement, with channels moved to the front.

    The MIL operation is depth_to_space, space_to_depth, pixel_shuffle, or pixel_unshuffle.
    """
    rank = len(required_shape(op.inputs[0]))
    keys = ("width_axis", "height_axis", "depth_axis")
    width, height, depth = (axis_of(op, key, 1 + i) for i, key in enumerate(keys))
    others = [axis for axis in range(rank) if axis not in (width, height, depth)]
    if len(others) != 1:
        raise NotExpressible(f"MIL's depth_to_space and space_to_depth need a tensor of rank 4, got rank {rank}")
    forth, block = [*others, depth, height, width], int(op.attributes["block_size"])
    x, shuffle = w.turned(w[op.inputs[0]], forth), bool(op.attributes["use_pixel_shuffle_order"])
    if op.kind == "depth_to_space2d":
        y = w.mb.pixel_shuffle(x=x, upscale_factor=block) if shuffle else w.mb.depth_to_space(x=x, block_size=block)
    elif shuffle:
        y = w.mb.pixel_unshuffle(x=x, downscale_factor=np.uint32(block))
    else:
        y = w.mb.space_to_depth(x=x, block_size=block)
    return w.turned(y, [forth.index(axis) for axis in range(rank)])


@writes("coordinate_along_axis")
def coordinate_along_axis(w: Writer, op: Operation) -> Var:
    """Export the index of each element along an axis.

    For static shapes, this is a constant. For a vector of dynamic length, it is MIL's range_1d.
    """
    shape = required_shape(op.outputs[0])
    if min(shape, default=0) < 0:
        if len(shape) != 1:
            raise NotExpressible(f"the shape must be static unless it has one axis, got {shape}")
        size = w.mb.squeeze(x=w.shape_operand(op.inputs[0]), axes=[0])
        return w.mb.range_1d(start=np.int32(0), end=size, step=np.int32(1))
    axis = attribute(op, "axis")
    axis = int(axis[0] if isinstance(axis, list) else axis) % len(shape)
    places = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return w.constant(np.ascontiguousarray(np.broadcast_to(places, shape)), op.outputs[0].dtype)
