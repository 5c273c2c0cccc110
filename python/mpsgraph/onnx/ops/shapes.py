"""Translations of operators on shapes: reshape, transpose, concat, split, slice, pad, tile, and DepthToSpace."""

from __future__ import annotations

import math

from ..._core import Tensor, bool_, int64
from ...errors import GraphError, ShapeError
from ...interchange.renames import options
from ..building.node import Node, Results, operator


@operator("Reshape", upto=25)
def reshape(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    shape = list(node.attribute("shape")) if node.version < 5 else node.known_ints(1)
    # A 0 in the shape copies the size of the operand's axis at the same index.
    copies = not node.attribute("allowzero", 0)
    if shape is None:
        return g.reshape(x, _with_own_sizes(node, x) if copies else node.tensor(1))
    if copies and 0 in shape:
        if any(size == 0 and i >= node.rank(x) for i, size in enumerate(shape)):
            raise ShapeError(
                f"each 0 in shape {tuple(shape)} must have an axis of the operand to copy the size from, got operand "
                f"shape {x.shape}"
            )
        wanted = [node.dim(x, i) if size == 0 else size for i, size in enumerate(shape)]
        sizes = [size for size in wanted if isinstance(size, int)]
        # Zeros that both shapes have at the same index are left out when -1 is inferred, because they would make the
        # number of elements 0.
        if -1 in sizes and 0 in sizes:
            kept = [size for i, size in enumerate(node.dims(x)) if not (i < len(shape) and shape[i] == 0 == size)]
            others = math.prod(size for size in sizes if size > 0)
            rest = math.prod(kept) // others if min(kept, default=0) >= 0 else 0
            wanted = [rest if isinstance(size, int) and size == -1 else size for size in wanted]
        return node.reshape(x, wanted)
    return g.reshape(x, shape)


def _with_own_sizes(node: Node, x: Tensor) -> Tensor:
    """Return Reshape's shape operand. Each 0 in it is replaced with x's size along the axis at the same index."""
    g, shape = node.g, node.tensor(1)
    length, rank = node.size(shape, 0), node.rank(x)
    own = g.cast(g.shape_of(x), shape.dtype)
    if rank < length:
        own = g.concat([own, g.constant([0] * (length - rank), dtype=shape.dtype)], 0)
    elif rank > length:
        own = g.slice(own, [0], [length])
    return g.select(g.equal(shape, 0), own, shape)


@operator("Flatten", upto=25)
def flatten(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    axis = node.attribute("axis", 1)
    rank = node.rank(x)
    if rank == 0:
        return g.reshape(x, (1, 1))
    if not -rank <= axis <= rank:
        raise ShapeError(f"axis must be between {-rank} and {rank} for an operand of shape {x.shape}, got {axis}")
    axis = axis + rank if axis < 0 else axis
    if axis in (0, rank):
        return g.reshape(x, (1, -1) if axis == 0 else (-1, 1))
    return g.flatten2d(x, axis)


@operator("Transpose", upto=25)
def transpose(node: Node) -> Results:
    x = node.tensor(0)
    order = node.attribute("perm", None)
    return node.g.transpose(x, list(range(node.rank(x)))[::-1] if order is None else order)


@operator("Squeeze", upto=25)
def squeeze(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    axes = node.ints_attribute_or_operand("axes", 1)
    if axes is None:
        if x.shape is None or min(x.shape, default=0) < 0:
            # Without axes, squeeze removes all axes of size 1, so the rank of the result is unknown.
            return g.squeeze(x)
        axes = [i for i, size in enumerate(x.shape) if size == 1]
    return g.squeeze(x, node.axes(x, axes)) if axes else g.identity(x)


@operator("Unsqueeze", upto=25)
def unsqueeze(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    axes = node.ints_attribute_or_operand("axes", 1)
    if axes is None:
        raise GraphError("Unsqueeze needs axes, but the attribute or operand is missing")
    rank = node.rank(x) + len(axes)
    if any(not -rank <= a < rank for a in axes) or len({a % rank for a in axes}) < len(axes):
        raise ShapeError(f"axes must be distinct and between {-rank} and {rank - 1}, got {tuple(axes)}")
    return g.expand_dims(x, sorted(a % rank for a in axes)) if axes else g.identity(x)


@operator("Concat", upto=13)
def concat(node: Node) -> Results:
    tensors = node.tensors()
    return node.g.concat(
        tensors, node.axis(tensors[0], node.attribute("axis", 1) if node.version < 4 else node.attribute("axis"))
    )


@operator("Split", upto=18)
def split(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    axis = node.axis(x, node.attribute("axis", 0))
    if node.has(1):
        return g.split(x, node.known_ints(1) or g.reshape(node.tensor(1), (len(node.outputs),)), axis)
    sizes = node.attribute("split", None)
    if sizes is None:
        count = node.attribute("num_outputs", len(node.outputs))
        if count != len(node.outputs):
            raise GraphError(f"num_outputs must equal the number of outputs, {len(node.outputs)}, got {count}")
        total = node.dim(x, axis)
        if isinstance(total, Tensor):  # The size of the axis is known only at run time.
            part = g.division(g.addition(total, count - 1), count)
            left = [g.subtraction(total, g.multiplication(part, i)) for i in range(count)]
            return g.split(x, g.concat([g.clamp(more, 0, part) for more in left], 0), axis)
        each = -(-total // count)
        sizes = [min(each, max(0, total - i * each)) for i in range(count)]
    return g.split(x, sizes, axis)


@operator("Slice", upto=13)
def slice_(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    rank = node.rank(x)
    if node.version < 10:
        ranges: list[list[int] | None] = [list(node.attribute("starts")), list(node.attribute("ends"))]
        axes = node.attribute("axes", None)
    else:
        ranges = [node.known_ints(1), node.known_ints(2)]
        axes = node.ints(3) if node.has(3) else None
    ranges.append(node.known_ints(4) if node.has(4) else [1] * rank)
    if axes is None:
        axes = list(range(len(next((r for r in ranges if r is not None), range(node.size(node.tensor(1), 0))))))
    axes = node.axes(x, axes)
    if not axes:
        return g.identity(x)
    mask = ((1 << rank) - 1) & ~sum(1 << axis for axis in axes)
    unsure = _limit_starts(ranges, [node.dims(x)[axis] for axis in axes])
    if unsure or any(r is None for r in ranges):  # Some bounds are known only at run time.
        told = [
            _spread(node, node.optional(i), known, axes, rank, default)
            for (i, default), known in zip(((1, 0), (2, 0), (4, 1)), ranges, strict=True)
        ]
        if unsure:
            told[0] = g.maximum(told[0], g.negative(g.cast(g.shape_of(x), int64)))
        return g.slice(x, told[0], told[1], told[2], mask, mask)
    first, last, stride = [0] * rank, [0] * rank, [1] * rank
    starts, ends, steps = (r for r in ranges if r is not None)
    for axis, start, end, step in zip(axes, starts, ends, steps[: len(axes)], strict=True):
        first[axis], last[axis], stride[axis] = _bounded(start), _bounded(end), _bounded(step)
    return g.slice(x, first, last, stride, mask, mask)


def _limit_starts(ranges: list[list[int] | None], sizes: list[int]) -> bool:
    """In a slice with negative steps, clamp starts that lie before the beginning of their axes.

    Returns True if some start may need to be clamped, but the size of its axis is known only at run time.
    """
    starts, _, steps = ranges
    if starts is None or steps is None:
        return steps is None or min(steps) < 0
    unsure = False
    for i, (start, step, size) in enumerate(zip(starts, steps, sizes, strict=False)):
        if step < 0 and size >= 0:
            starts[i] = max(start, -size)
        unsure |= step < 0 and size < 0 and start < -1
    return unsure


def _bounded(value: int) -> int:
    """Clamp a slice bound to 60 bits. In ONNX, the largest int64 means the end of the axis."""
    return max(-(2**60), min(value, 2**60))


def _spread(
    node: Node, values: Tensor | None, known: list[int] | None, axes: list[int], rank: int, default: int
) -> Tensor:
    """Return a vector with one value per axis: the given values for some axes, and a default for the others."""
    g = node.g
    if known is not None:
        told = dict(zip(axes, known, strict=False))
        return g.constant([_bounded(told.get(axis, default)) for axis in range(rank)], dtype=int64)
    parts = [g.constant([default], dtype=int64)] * rank
    if values is not None:
        bounded = g.clamp(g.cast(values, int64), -(2**60), 2**60)
        for i, axis in enumerate(axes):
            parts[axis] = g.slice(bounded, [i], [i + 1])
    return g.concat(parts, 0)


@operator("Expand", upto=13)
def expand(node: Node) -> Results:
    """Translate Expand, which broadcasts x to a shape. Where the shape has 1, the size of x is kept."""
    g, x = node.g, node.tensor(0)
    own, shape = list(node.dims(x)), node.known_ints(1)
    if shape is None or min(own, default=0) < 0:
        length = len(shape) if shape is not None else node.size(node.tensor(1), 0)
        sizes, wanted = g.cast(g.shape_of(x), int64), g.cast(node.tensor(1), int64)
        if length > len(own):
            sizes = g.concat([g.constant([1] * (length - len(own)), dtype=int64), sizes], 0)
        elif length < len(own):
            wanted = g.concat([g.constant([1] * (len(own) - length), dtype=int64), wanted], 0)
        return g.broadcast_to(x, g.select(g.equal(wanted, 1), sizes, wanted))
    length = max(len(shape), len(own))
    own, shape = [1] * (length - len(own)) + own, [1] * (length - len(shape)) + shape
    if any(a not in (1, b) and b != 1 for a, b in zip(own, shape, strict=True)):
        raise ShapeError(f"an operand of shape {x.shape} cannot be broadcast to {tuple(shape)}")
    return g.broadcast_to(x, [b if a == 1 else a for a, b in zip(own, shape, strict=True)])


@operator("Tile", upto=13)
def tile(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    if node.version < 6:
        repeats: list[int] | None = [1] * node.rank(x)
        repeats[node.axis(x, node.scalar(2, 0))] = node.scalar(1, 1)  # type: ignore[index]
    else:
        repeats = node.known_ints(1)
    if repeats is not None:
        return g.tile(x, repeats)
    # Insert an axis for the count in front of each axis, broadcast, and merge each pair of axes.
    rank, counts = node.rank(x), g.cast(node.tensor(1), int64)
    sizes = g.cast(g.shape_of(x), int64)
    beside = g.expand_dims(x, list(range(0, 2 * rank, 2)))
    repeated = g.broadcast_to(beside, g.reshape(g.stack([counts, sizes], 1), (2 * rank,)))
    return g.reshape(repeated, g.multiplication(counts, sizes))


_PAD_MODES = options("onnx", "padding mode")


@operator("Pad", upto=25)
def pad(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    rank, mode = node.rank(x), node.attribute("mode", "constant")
    if node.version < 11:
        pads = list(node.attribute("pads" if node.version > 1 else "paddings"))
        value: float = node.attribute("value", 0.0)
    else:
        known = node.known_ints(1)
        if known is None and mode in _PAD_MODES and not node.has(3):
            return _padded_as_told(node, x) if mode == "constant" else _continued_as_told(node, x, mode)
        pads, value = known if known is not None else node.ints(1), node.scalar(2, 0)
    axes = node.axes(x, node.ints(3)) if node.has(3) else list(range(rank))
    if len(pads) != 2 * len(axes) or mode not in _PAD_MODES:
        raise ShapeError(
            f"pads must have {2 * len(axes)} elements for {len(axes)} axes and mode must be one of "
            f"{', '.join(_PAD_MODES)}, got {tuple(pads)} and {mode!r}"
        )
    before, after = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        before[axis], after[axis] = pads[i], pads[i + len(axes)]
    more = [max(0, b) for b in before], [max(0, a) for a in after]

    def cut(y: Tensor) -> Tensor:
        ends = [min(0, a) for a in after]
        return g.slice(y, [max(0, -b) for b in before], ends, end_mask=sum((e == 0) << i for i, e in enumerate(ends)))

    if min((*before, *after), default=0) >= 0:
        return padded(node, x, *more, _PAD_MODES[mode], value)
    if mode == "wrap":  # Cropped elements must not be repeated by wrapping around, so crop first.
        return padded(node, cut(x), *more, _PAD_MODES[mode])
    # Crop negative pads after padding, so that they can remove padded elements.
    return cut(padded(node, x, *more, _PAD_MODES[mode], value))


def _padded_as_told(node: Node, x: Tensor) -> Tensor:
    """Pad by amounts known only at run time, writing x into a tensor filled with the padding value."""
    g, rank = node.g, node.rank(x)
    pads = g.cast(node.tensor(1), int64)
    before, after = g.slice(pads, [0], [rank]), g.slice(pads, [rank], [2 * rank])
    sizes = g.cast(g.shape_of(x), int64)
    none = g.constant([0] * rank, dtype=int64)
    cut = g.slice(x, g.maximum(g.negative(before), none), g.addition(sizes, g.minimum(after, none)))
    zero = g.constant(False) if x.dtype == bool_ else g.cast(g.constant(0), x.dtype)
    value = g.reshape(node.tensor(2), ()) if node.has(2) else zero
    whole = g.broadcast_to(value, g.addition(g.addition(sizes, before), after))
    return g.slice_update_data(whole, cut, g.maximum(before, none), sizes=g.shape_of(cut))


def _continued_as_told(node: Node, x: Tensor, mode: str) -> Tensor:
    """Pad by amounts known only at run time in modes edge, reflect, and wrap, with one gather per axis.

    Negative pads crop, and can remove padded elements, as in mode constant.
    """
    g, rank, known = node.g, node.rank(x), node.partly_known_ints(1)
    pads = g.cast(node.tensor(1), int64)
    for axis in range(rank):
        if known is not None and len(known) == 2 * rank and known[axis] == known[rank + axis] == 0:
            continue
        before, after = (g.slice(pads, [i], [i + 1]) for i in (axis, rank + axis))
        size = g.cast(g.slice(g.shape_of(x), [axis], [axis + 1]), int64)
        if mode == "wrap":  # Cropped elements must not be repeated by wrapping around.
            cut = g.minimum(before, 0), g.minimum(after, 0)
            kept = g.addition(g.addition(size, cut[0]), cut[1])
        else:
            kept = size
        count = g.addition(g.addition(size, before), after)
        place = g.subtraction(g.cast(g.coordinate_along_axis(0, count), int64), before)
        if mode == "edge":
            index = g.minimum(g.maximum(place, 0), g.subtraction(size, 1))
        elif mode == "reflect":  # Reflected positions run forward and backward with a period of 2 * (size - 1).
            turn = g.subtraction(size, 1)
            place = g.floor_modulo(place, g.maximum(g.multiplication(turn, 2), 1))
            index = g.minimum(place, g.subtraction(g.multiplication(turn, 2), place))
        else:
            index = g.subtraction(g.floor_modulo(g.addition(place, cut[0]), kept), cut[0])
        x = g.gather(x, index, axis)
    return x


def padded(
    node: Node, x: Tensor, before: list[int], after: list[int], mode: str = "constant", value: float = 0
) -> Tensor:
    """Return x padded, or x itself if there is no padding."""
    g = node.g
    border = float(value) if x.dtype.is_float else int(value)
    return g.pad(x, before, after, mode, border) if any(before) or any(after) else g.identity(x)


@operator("DepthToSpace", upto=28)
def depth_to_space(node: Node) -> Results:
    return node.g.depth_to_space2d(node.tensor(0), 3, 2, 1, node.attribute("blocksize"), _channels_first(node))


@operator("SpaceToDepth", upto=28)
def space_to_depth(node: Node) -> Results:
    return node.g.space_to_depth2d(node.tensor(0), 3, 2, 1, node.attribute("blocksize"), _channels_first(node))


def _channels_first(node: Node) -> bool:
    """Return whether DepthToSpace or SpaceToDepth stores the elements of a block next to each other within each
    channel.

    That is the case in mode CRD. In mode DCR, all channels of one element of a block are stored next to each other.
    """
    mode = node.attribute("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise GraphError(f"mode must be DCR or CRD, got {mode!r}")
    return mode == "CRD"


@operator("CenterCropPad", upto=18)
def center_crop_pad(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    wanted, rank = node.ints(1), node.rank(x)
    axes = node.axes(x, node.attribute("axes", list(range(rank))))
    for axis, size in zip(axes, wanted, strict=True):
        have = node.size(x, axis)
        if have > size:
            x = g.slice_axis(x, axis, (have - size) // 2, size)
        elif have < size:
            before, after = [0] * rank, [0] * rank
            before[axis] = (size - have) // 2
            after[axis] = size - have - before[axis]
            x = padded(node, x, before, after)
    return x


@operator("Trilu", upto=14)
def triangle(node: Node) -> Results:
    g, x, upper = node.g, node.tensor(0), bool(node.attribute("upper", 1))
    known = node.known_ints(1) if node.has(1) else [0]
    if known and (known[0] <= 0 if upper else known[0] >= 0):  # The diagonal is inside the kept triangle.
        return g.band_part(x, -known[0] if upper else -1, -1 if upper else known[0])
    shape = node.joined([node.dim(x, -2), node.dim(x, -1)])
    row, column = (g.cast(g.coordinate_along_axis(axis, shape), int64) for axis in (0, 1))
    distance = g.subtraction(column, row)
    k = g.cast(g.reshape(node.tensor(1), ()), int64)
    kept = g.greater_than_or_equal_to(distance, k) if upper else g.less_than_or_equal_to(distance, k)
    zero = g.constant(False) if x.dtype == bool_ else g.cast(g.constant(0), x.dtype)
    return g.select(kept, x, zero)
