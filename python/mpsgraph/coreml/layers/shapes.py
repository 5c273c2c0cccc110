"""Translations of layers on shapes and axes: older layers for rank 5, and newer layers for any rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import Tensor
from ...errors import ShapeError
from .._wire import Message
from ._layer import Layer, applies, layer


def _list(values: Any) -> list[int]:
    return [int(v) for v in values]


for _name, _translation in {
    "concatND": applies("concat", "values*", axis=(int, "axis"), interleave=(bool, "interleave")),
    "expandDims": applies("expand_dims", axes=(_list, "axes")),
    "fillDynamic": applies("fill", "shape#", value=(float, "value")),
    "fillLike": applies("fill_like", "ref_tensor", value=(float, "value")),
    "fillStatic": applies("fill", "", shape=(_list, "targetShape"), value=(float, "value")),
    "flattenTo2D": applies("flatten2d", axis=(int, "axis")),
    "getShape": applies("shape"),
    "matrixBandPart": applies("band_part", lower=(int, "numLower"), upper=(int, "numUpper")),
    "rangeStatic": applies(
        "range_1d", "", start=(float, "startValue"), end=(float, "endValue"), step=(float, "stepSizeValue")
    ),
    "rankPreservingReshape": applies("reshape", shape=(_list, "targetShape")),
    "reshapeDynamic": applies("reshape", "x shape#"),
    "reshapeStatic": applies("reshape", shape=(_list, "targetShape")),
    "reverseSeq": applies(
        "reverse_sequence", "x lengths#", seq_axis=(int, "sequenceAxis"), batch_axis=(int, "batchAxis")
    ),
    "stack": applies("stack", "values*", axis=(int, "axis")),
    "transpose": applies("transpose", perm=(_list, "axes")),
}.items():
    layer.enter(_name, _translation)


@layer("flatten")
def flatten(n: Layer) -> Tensor:
    """Translate flatten, which reshapes (..., C, H, W) to (..., C * H * W, 1, 1)."""
    x = n.x
    lead: list[int | Tensor] = [n.dim(x, i) for i in range(n.rank(x) - 3)]
    count = n.product(n.dim(x, i) for i in (-3, -2, -1))
    if n.p.mode == "CHANNEL_LAST":
        x = _channels_last(n, x)
    return n.reshape(x, [*lead, count, 1, 1])


def _channels_last(n: Layer, x: Tensor) -> Tensor:
    rank = n.rank(x)
    return n.g.transpose(x, [*range(rank - 3), rank - 2, rank - 1, rank - 3])


@layer("reshape")
def reshape(n: Layer) -> Tensor:
    """Translate reshape, whose result has shape (Seq, 1, C, H, W).

    Elements are read and written in channel-first or channel-last order.
    """
    x, target = n.x, _list(n.p.targetShape)
    if n.rank(x) != 5 or len(target) not in (3, 4):
        raise ShapeError(
            f"layer reshape needs an input of rank 5 and a target shape of 3 or 4 sizes, got {x.shape} and {target}"
        )
    lead = [n.dim(x, 0), n.dim(x, 1)] if len(target) == 3 else [target[0], n.dim(x, 1)]
    channels, height, width = target[-3:]
    if n.p.mode != "CHANNEL_LAST":
        return n.reshape(x, [*lead, channels, height, width])
    y = n.reshape(_channels_last(n, x), [*lead, height, width, channels])
    return n.g.transpose(y, [0, 1, 4, 2, 3])


@layer("permute")
def permute(n: Layer) -> Tensor:
    """Translate permute, which permutes the sequence, channel, height, and width axes, but not the batch axis."""
    places = [0, 2, 3, 4]
    order = [places[axis] for axis in (_list(n.p.axis) or [0, 1, 2, 3])]
    return n.g.transpose(n.x, [order[0], 1, *order[1:]])


@layer("concat")
def concat(n: Layer) -> Tensor:
    return n.mil("concat", values=n.xs, axis=-5 if n.p.sequenceConcat else -3)


@layer("split")
def split(n: Layer) -> Sequence[Tensor]:
    count = int(n.p.nOutputs) or n.results
    return n.several("split", count, x=n.x, num_splits=count, axis=-3)


@layer("splitND")
def split_nd(n: Layer) -> Sequence[Tensor]:
    sizes = _list(n.p.splitSizes)
    how = {"split_sizes": sizes} if sizes else {"num_splits": int(n.p.numSplits)}
    return n.several("split", n.results, x=n.x, axis=int(n.p.axis), **how)


@layer("sequenceRepeat")
def sequence_repeat(n: Layer) -> Tensor:
    reps = [1] * n.rank(n.x)
    reps[-5] = int(n.p.nRepetitions) or 1
    return n.mil("tile", x=n.x, reps=reps)


@layer("tile")
def tile(n: Layer) -> Tensor:
    return n.mil("tile", x=n.x, reps=n.ints(n.xs[1]) if len(n.xs) > 1 else _list(n.p.reps))


_SLICED = {"CHANNEL_AXIS": -3, "HEIGHT_AXIS": -2, "WIDTH_AXIS": -1}


@layer("slice")
def slice_(n: Layer) -> Tensor:
    rank = n.rank(n.x)
    axis = rank + _SLICED[n.p.axis]
    begin, end, stride = [0] * rank, [0] * rank, [1] * rank
    begin[axis], end[axis], stride[axis] = int(n.p.startIndex), int(n.p.endIndex), int(n.p.stride) or 1
    mask = [i != axis for i in range(rank)]
    return n.mil("slice_by_index", x=n.x, begin=begin, end=end, stride=stride, begin_mask=mask, end_mask=mask)


def _masks(p: Message) -> dict[str, Any]:
    found = {"begin_mask": p.beginMasks, "end_mask": p.endMasks, "squeeze_mask": p.squeezeMasks}
    return {name: [bool(v) for v in values] for name, values in found.items() if values.size}


@layer("sliceStatic")
def slice_static(n: Layer) -> Tensor:
    p = n.p
    how = {"begin": _list(p.beginIds), "end": _list(p.endIds), "stride": _list(p.strides)}
    return n.mil("slice_by_index", x=n.x, **how, **_masks(p))


@layer("sliceDynamic")
def slice_dynamic(n: Layer) -> Tensor:
    p, more = n.p, [n.ints(x) for x in n.xs[1:]]
    names = ("begin", "end", "stride", "begin_mask", "end_mask", "squeeze_mask")
    given: dict[str, Any] = {"end": _list(p.endIds), "stride": _list(p.strides), **_masks(p)}
    given |= dict(zip(names, more, strict=False))
    return n.mil("slice_by_index", x=n.x, **{name: v for name, v in given.items() if isinstance(v, Tensor) or len(v)})


@layer("sliceBySize")
def slice_by_size(n: Layer) -> Tensor:
    """Translate sliceBySize, which takes `size` elements along an axis. The second input is the start."""
    g, axis = n.g, n.axis(n.x, int(n.p.axis))
    places = g.addition(g.reshape(n.ints(n.xs[1]), [1]), g.coordinate_along_axis(0, [int(n.p.size)]))
    return g.gather(n.x, places, axis, out_of_range="error")


@layer("slidingWindows")
def sliding_windows(n: Layer) -> Tensor:
    how = {"axis": int(n.p.axis), "size": int(n.p.windowSize), "stride": int(n.p.step) or 1}
    return n.mil("sliding_windows", x=n.x, **how)


@layer("reverse")
def reverse(n: Layer) -> Tensor:
    return n.mil("reverse", x=n.x, axes=[i for i, turned in enumerate(n.p.reverseDim) if turned])


# --- any rank ---------------------------------------------------------------------------------------------------------
@layer("squeeze")
def squeeze(n: Layer) -> Tensor:
    return n.mil("squeeze", x=n.x, axes=None if n.p.squeezeAll else _list(n.p.axes))


@layer("reshapeLike")
def reshape_like(n: Layer) -> Tensor:
    like = n.xs[1]
    return n.reshape(n.x, [n.dim(like, axis) for axis in range(n.rank(like))])


@layer("broadcastToStatic")
def broadcast_static(n: Layer) -> Tensor:
    return n.g.broadcast_to(n.x, _list(n.p.targetShape))


@layer("broadcastToDynamic")
def broadcast_dynamic(n: Layer) -> Tensor:
    return n.g.broadcast_to(n.x, n.ints(n.xs[1]))


@layer("broadcastToLike")
def broadcast_like(n: Layer) -> Tensor:
    like = n.xs[1]
    return n.g.broadcast_to(n.x, n.joined(n.dim(like, axis) for axis in range(n.rank(like))))


@layer("loadConstant", "loadConstantND")
def load_constant(n: Layer) -> Tensor:
    """Translate loadConstant, whose result has rank 5, and loadConstantND."""
    shape = _list(n.p.shape)
    fixed = n.weight(n.p.data, [1, 1, *shape] if n.name == "loadConstant" else shape, "data")
    return n.importer.weight(fixed, True)


@layer("rangeDynamic")
def range_dynamic(n: Layer) -> Tensor:
    start = n.xs[1] if len(n.xs) > 1 else float(n.p.startValue)
    step = n.xs[2] if len(n.xs) > 2 else float(n.p.stepSizeValue)
    return n.mil("range_1d", start=start, end=n.x, step=step)


@layer("constantPad")
def constant_pad(n: Layer) -> Tensor:
    if len(n.xs) > 1 or n.p.padToGivenOutputSizeMode:
        n.refuse("padding amounts must be constants, not inputs or output sizes")
    return n.mil("pad", x=n.x, pad=_list(n.p.padAmounts), mode="constant", constant_val=float(n.p.value))


@layer("lowerTriangular", "upperTriangular")
def triangular(n: Layer) -> Tensor:
    """Translate lowerTriangular and upperTriangular, which zero elements above or below diagonal k."""
    g, rank, k, x = n.g, n.rank(n.x), int(n.p.k), n.x
    rows, columns = (n.size(x, i) for i in (-2, -1))
    row, column = g.coordinate_along_axis(0, [rows, columns]), g.coordinate_along_axis(1, [rows, columns])
    reach = g.subtraction(column, row)
    kept = g.less_than_or_equal_to(reach, k) if n.name == "lowerTriangular" else g.greater_than_or_equal_to(reach, k)
    return g.select(g.reshape(kept, [*[1] * (rank - 2), rows, columns]), x, 0.0)
