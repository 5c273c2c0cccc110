"""Shapes and places: reshape, transpose, join, cut, pad, repeat, and blocks of space moved into channels."""

from __future__ import annotations

import numpy as np

from ..._core import Tensor, bool_, int64
from ...errors import GraphError, ShapeError
from .._registry import Node, Results, Undecided, operator
from ._compose import size_tensor
from .values import shape_of_operand


@operator("Reshape", upto=25)
def reshape(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    if node.version < 5:
        shape = list(node.attribute("shape"))
    else:
        try:
            shape = node.ints(1)
        except Undecided as undecided:
            if undecided.values:
                raise
            return g.reshape(x, _without_zeros(node, x))
    if not node.attribute("allowzero", 0) and 0 in shape:
        if any(size == 0 and i >= node.rank(x) for i, size in enumerate(shape)):
            raise ShapeError(f"a 0 in {tuple(shape)} stands for an axis that the operand {x.shape} does not have")
        known = [node.dims(x)[i] if size == 0 else size for i, size in enumerate(shape)]
        copied = [i for i, size in enumerate(shape) if size == 0 and known[i] < 0]
        if len(copied) == 1 and -1 not in shape:
            known[copied[0]] = -1  # what is left
        elif copied:
            parts = [
                size_tensor(node, x, i) if i in copied else g.constant([known[i]], dtype=int64)
                for i in range(len(known))
            ]
            return g.reshape(x, g.concat(parts, 0))
        shape = known
    if 0 in shape and -1 in shape:  # the free axis of an empty tensor has what makes the product right: 0 elements
        shape = [0 if size == -1 and node.attribute("allowzero", 0) == 0 else size for size in shape]
    return g.reshape(x, shape)


def _without_zeros(node: Node, x: Tensor) -> Tensor:
    """The shape operand; a 0 in it, which only a run shows, is the operand's own size there."""
    g, shape = node.g, node.tensor(1)
    if node.attribute("allowzero", 0) or shape.shape is None or x.shape is None or shape.shape[0] < 0:
        return shape
    length = shape.shape[0]
    own = g.cast(g.shape_of(x), int64)
    rank = node.rank(x)
    own = (
        g.slice(own, [0], [length])
        if rank >= length
        else g.concat([own, g.constant([0] * (length - rank), dtype=int64)], 0)
    )
    return g.select(g.equal(shape, 0), own, shape)


@operator("Flatten", upto=25)
def flatten(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    axis = node.attribute("axis", 1)
    rank = node.rank(x)
    axis = axis + rank if axis < 0 else axis
    if rank == 0:
        return g.reshape(x, (1, 1))
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
        axes = [i for i, size in enumerate(node.shape(x)) if size == 1]
    return g.squeeze(x, node.axes(x, axes)) if axes else g.identity(x)


@operator("Unsqueeze", upto=25)
def unsqueeze(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    axes = node.ints_attribute_or_operand("axes", 1)
    if axes is None:
        raise GraphError("axes are missing")
    rank = node.rank(x) + len(axes)
    if any(not -rank <= a < rank for a in axes) or len({a % rank for a in axes}) < len(axes):
        raise ShapeError(f"axes {tuple(axes)} are not axes of the result, each once: it has the rank {rank}")
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
    sizes = node.ints_attribute_or_operand("split", 1)
    if sizes is None:
        count = node.attribute("num_outputs", len(node.outputs))
        total = node.size(x, axis)
        each = -(-total // count)
        sizes = [min(each, max(0, total - i * each)) for i in range(count)]
    return g.split(x, sizes, axis)


@operator("Slice", upto=13)
def slice_(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    rank = node.rank(x)
    if node.version < 10:
        starts, ends = list(node.attribute("starts")), list(node.attribute("ends"))
        axes, steps = list(node.attribute("axes", list(range(len(starts))))), [1] * len(starts)
    else:
        starts, ends = node.ints(1), node.ints(2)
        axes = node.ints(3) if node.has(3) else list(range(len(starts)))
        steps = node.ints(4) if node.has(4) else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise ShapeError(f"starts {starts}, ends {ends}, axes {axes} and steps {steps} do not fit, or a step is 0")
    first, last, stride = [0] * rank, [0] * rank, [1] * rank
    whole = mask = (1 << rank) - 1
    for axis, start, end, step in zip(node.axes(x, axes), starts, ends, steps, strict=True):
        first[axis], last[axis], stride[axis] = _bounded(start), _bounded(end), _bounded(step)
        mask &= ~(1 << axis)
    return g.identity(x) if mask == whole else g.slice(x, first, last, stride, mask, mask)


def _bounded(value: int) -> int:
    """ONNX says "to the end" with the largest number there is."""
    return max(-(2**60), min(value, 2**60))


@operator("Expand", upto=13)
def expand(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    shape = shape_of_operand(node, 1)
    if isinstance(shape, Tensor):  # axes of size 1 in the shape take the operand's
        if x.shape is None or min(x.shape, default=0) < 0 or any(s != 1 for s in x.shape):
            ones = g.broadcast_to(g.constant(1, dtype=x.dtype) if x.dtype != bool_ else g.constant(True), shape)
            return g.logical_and(x, ones) if x.dtype == bool_ else g.multiplication(x, ones)
        return g.broadcast_to(x, shape)
    own = list(x.shape or ())
    length = max(len(shape), node.rank(x))
    own, shape = [1] * (length - len(own)) + own, [1] * (length - len(shape)) + shape
    if any(a not in (1, b) and b != 1 and a >= 0 for a, b in zip(own, shape, strict=True)):
        raise ShapeError(f"{x.shape} cannot be expanded to {tuple(shape)}")
    if min(own, default=0) >= 0:
        return g.broadcast_to(x, [b if a == 1 else a for a, b in zip(own, shape, strict=True)])
    sizes = g.concat([g.constant([1] * (length - node.rank(x)), dtype=int64), g.cast(g.shape_of(x), int64)], 0)
    return g.broadcast_to(x, g.maximum(sizes, g.constant(shape, dtype=int64)))


@operator("Tile", upto=13)
def tile(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    if node.version < 6:
        repeats = [1] * node.rank(x)
        repeats[node.axis(x, node.scalar(2, 0))] = node.scalar(1, 1)
    else:
        repeats = node.ints(1)
    return g.tile(x, repeats)


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "edge": "clamp_to_edge", "wrap": "periodic"}


@operator("Pad", upto=25)
def pad(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    rank, mode = node.rank(x), node.attribute("mode", "constant")
    if node.version < 11:
        pads = list(node.attribute("pads" if node.version > 1 else "paddings"))
        value: float = node.attribute("value", 0.0)
    else:
        pads, value = node.ints(1), node.scalar(2, 0)
    axes = node.axes(x, node.ints(3)) if node.has(3) else list(range(rank))
    if len(pads) != 2 * len(axes) or mode not in _PAD_MODES:
        raise ShapeError(f"pads {tuple(pads)} for {len(axes)} axes, mode {mode!r}")
    before, after = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        before[axis], after[axis] = pads[i], pads[i + len(axes)]
    if min((*before, *after), default=0) < 0:  # negative ones cut
        starts = [max(0, -b) for b in before]
        ends = [-max(0, -a) for a in after]
        mask = sum((e == 0) << i for i, e in enumerate(ends))
        x = g.slice(x, starts, ends, end_mask=mask)
        before, after = [max(0, b) for b in before], [max(0, a) for a in after]
    return padded(node, x, before, after, _PAD_MODES[mode], value)


def padded(
    node: Node, x: Tensor, before: list[int], after: list[int], mode: str = "constant", value: float = 0
) -> Tensor:
    """x padded, or itself when there is nothing to do."""
    g = node.g
    return g.pad(x, before, after, mode, float(value)) if any(before) or any(after) else g.identity(x)


# --- blocks of space ------------------------------------------------------------------------------------------------
def split_axes(node: Node, x: Tensor, parts: list[list[int]], order: list[int], groups: list[int]) -> Tensor:
    """x reshaped so that axis i has the sizes parts[i], its axes then put in `order` and joined in `groups`."""
    g = node.g
    flat = [size for part in parts for size in part]
    moved = g.transpose(g.reshape(x, flat), order)
    sizes, position, joined = [flat[i] for i in order], 0, []
    for count in groups:
        product = 1
        for size in sizes[position : position + count]:
            product *= size
        joined.append(product)
        position += count
    return g.reshape(moved, joined)


@operator("DepthToSpace", upto=13)
def depth_to_space(node: Node) -> Results:
    x, block = node.tensor(0), node.attribute("blocksize")
    n, c, h, w = node.shape(x)
    if block < 1 or c % (block * block):
        raise ShapeError(f"{c} channels are no multiple of {block}²")
    if node.attribute("mode", "DCR") == "CRD":
        return split_axes(node, x, [[n], [c // block**2, block, block], [h], [w]], [0, 1, 4, 2, 5, 3], [1, 1, 2, 2])
    return split_axes(node, x, [[n], [block, block, c // block**2], [h], [w]], [0, 3, 4, 1, 5, 2], [1, 1, 2, 2])


@operator("SpaceToDepth", upto=13)
def space_to_depth(node: Node) -> Results:
    x, block = node.tensor(0), node.attribute("blocksize")
    n, c, h, w = node.shape(x)
    if block < 1 or h % block or w % block:
        raise ShapeError(f"{h} x {w} are no multiples of {block}")
    parts = [[n], [c], [h // block, block], [w // block, block]]
    return split_axes(node, x, parts, [0, 3, 5, 1, 2, 4], [1, 3, 1, 1])


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
    g, x = node.g, node.tensor(0)
    k, upper = node.scalar(1, 0), node.attribute("upper", 1)
    rows, columns = node.size(x, -2), node.size(x, -1)
    k = max(-rows - 1, min(k, columns + 1))
    kept = np.triu(np.ones((rows, columns), bool), k) if upper else np.tril(np.ones((rows, columns), bool), k)
    zero = g.constant(False) if x.dtype == bool_ else g.constant(0, dtype=x.dtype)
    return g.select(g.constant(kept), x, zero)
