"""Writers of convolutions (plain, depthwise, and transposed), pooling, im_to_col, and col_to_im.

MIL expects channels first in images and weights. For other layouts, transposes are added before and after, and
coremltools removes pairs that cancel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import Operation
from ...interchange.export import NotExpressible, required_shape
from ...interchange.renames import names
from ...interchange.windows import (
    channels_first,
    explicit_padding,
    ints_of,
    inverse,
    layout_of,
    pooled_axes,
    transposed_ends,
)
from ._writer import Var, Writer, writes

_STYLES = names("mil", "padding style")


def _padding(op: Operation, axes: list[int]) -> dict[str, Any]:
    style = str(op.attributes["padding_style"])
    if style not in _STYLES:
        raise NotExpressible(f"MIL has no equivalent of padding style {style}")
    if style != "EXPLICIT":
        return {"pad_type": _STYLES[style]}
    pairs = zip(*explicit_padding(op, axes), strict=True)
    return {"pad_type": "custom", "pad": [side for pair in pairs for side in pair]}


def _weight(w: Writer, x: Var, permutation: list[int]) -> Any:
    """Permute weights so that the axes of output and input channels come first.

    Constant weights are returned as an array, which MIL prefers.
    """
    turned = w.turned(x, permutation)
    return turned if turned.val is None else np.ascontiguousarray(turned.val)


@writes("convolution2d", "convolution3d")
def convolution(w: Writer, op: Operation) -> Var:
    """Export a 2-D or 3-D convolution as MIL's conv."""
    count = 2 if op.kind == "convolution2d" else 3
    source, axes = channels_first(layout_of(op, count)), list(range(count))
    weight = _weight(w, w[op.inputs[1]], channels_first(str(op.attributes["weights_layout"])))
    y = w.mb.conv(
        x=w.turned(w[op.inputs[0]], source), weight=weight, strides=ints_of(op, "strides", axes),
        dilations=ints_of(op, "dilations", axes), groups=int(op.attributes["groups"]), **_padding(op, axes),
    )  # fmt: skip
    return w.turned(y, inverse(source))


@writes("depthwise_convolution2d")
def depthwise(w: Writer, op: Operation) -> Var:
    """Export a depthwise convolution as MIL's conv with one group per channel.

    Weights are reshaped from (h, w, C, M) to (C M, 1, h, w), where M is the number of filters per channel.
    """
    source, layout = channels_first(layout_of(op, 2)), str(op.attributes["weights_layout"])
    channels, height, width = (required_shape(op.inputs[1])[layout.index(letter)] for letter in "IHW")
    numbers = w.known(w.turned(w[op.inputs[1]], [layout.index(letter) for letter in "IOHW"]), "the weights")
    y = w.mb.conv(
        x=w.turned(w[op.inputs[0]], source), weight=numbers.reshape(-1, 1, height, width), groups=channels,
        strides=ints_of(op, "strides", [0, 1]), dilations=ints_of(op, "dilations", [0, 1]), **_padding(op, [0, 1]),
    )  # fmt: skip
    return w.turned(y, inverse(source))


@writes("convolution_transpose2d", "convolution2d_data_gradient", "convolution3d_data_gradient")
def transposed(w: Writer, op: Operation) -> Var:
    """Export a transposed convolution as MIL's conv_transpose, cropped or zero-padded to the requested output size."""
    count = 3 if op.kind.startswith("convolution3d") else 2
    source, order = channels_first(layout_of(op, count)), channels_first(str(op.attributes["weights_layout"]))
    axes = list(range(count))
    strides, dilations = ints_of(op, "strides", axes), ints_of(op, "dilations", axes)
    weight = w.known(w.turned(w[op.inputs[1]], order), "the weights")
    given = [required_shape(op.inputs[0])[axis] for axis in source[2:]]
    wanted = [required_shape(op.outputs[0])[axis] for axis in source[2:]]
    if min(*given, *wanted) < 0:
        raise NotExpressible("the spatial sizes of the input and output must be known")
    _padding(op, axes)
    before, after, behind = transposed_ends(op, given, wanted, weight.shape[2:])
    pads = [side for pair in zip(before, after, strict=True) for side in pair]
    y = w.mb.conv_transpose(
        x=w.turned(w[op.inputs[0]], source), weight=np.ascontiguousarray(weight), strides=strides, dilations=dilations,
        groups=int(op.attributes["groups"]), pad_type="custom", pad=pads,
    )  # fmt: skip
    if any(behind):
        y = w.mb.pad(x=y, pad=[v for n in behind for v in (0, n)], constant_val=w.number(0, op.inputs[0].dtype))
    return w.turned(y, inverse(source))


def _pool(w: Writer, op: Operation, x: Var, axes: list[int]) -> Var:
    if any(step != 1 for step in ints_of(op, "dilations", axes)):
        raise NotExpressible("MIL's pooling supports only dilations of 1, but this operation uses larger dilations")
    how = {"kernel_sizes": ints_of(op, "kernel", axes), "strides": ints_of(op, "strides", axes), **_padding(op, axes)}
    ceil = bool(op.attributes["ceil_mode"]) and how["pad_type"] in ("valid", "custom")
    if ceil:
        how["ceil_mode"] = True
    if op.kind.startswith("max"):
        return w.mb.max_pool(x=x, **how)
    counted = bool(op.attributes["include_zero_pad_to_average"])
    if counted and ceil:
        raise NotExpressible(
            "average pooling that combines ceil_mode with padding counted in the average cannot be expressed in MIL"
        )
    return w.mb.avg_pool(x=x, exclude_padding_from_average=not counted, **how)


@writes("max_pooling2d", "avg_pooling2d")
def pooling2d(w: Writer, op: Operation) -> Var:
    """Export 2-D pooling as MIL's max_pool or avg_pool."""
    source = channels_first(layout_of(op, 2))
    return w.turned(_pool(w, op, w.turned(w[op.inputs[0]], source), [0, 1]), inverse(source))


@writes("max_pooling4d", "avg_pooling4d")
def pooling4d(w: Writer, op: Operation) -> Var:
    """Export pooling over up to three of the last four axes. An axis that is not pooled becomes MIL's channel axis."""
    rank = len(required_shape(op.inputs[0]))
    found = pooled_axes(op)
    if found is None:
        raise NotExpressible(
            "MIL's pooling supports at most three spatial axes, so one of the four axes must not be pooled and the "
            f"rank must be 4 or 5, got rank {rank}"
        )
    kept, forth = found
    x = w[op.inputs[0]] if rank == 5 else w.spread(w[op.inputs[0]], [0])
    y = w.turned(_pool(w, op, w.turned(x, forth), kept), inverse(forth))
    return y if rank == 5 else w.mb.squeeze(x=y, axes=[0])


@writes("im_to_col")
def im_to_col(w: Writer, op: Operation) -> Var:
    """Export im_to_col as MIL's conv with one-hot weights that each select one element of the window."""
    source, dtype = channels_first(layout_of(op, 2)), op.inputs[0].dtype
    channels = required_shape(op.inputs[0])[source[1]]
    if channels < 1:
        raise NotExpressible("the number of channels is dynamic or zero, but im_to_col needs a static, positive number")
    height, width = ints_of(op, "kernel", [0, 1])
    taps = height * width
    pick = np.tile(np.eye(taps, dtype=dtype.numpy).reshape(taps, 1, height, width), (channels, 1, 1, 1))
    columns = w.mb.conv(
        x=w.turned(w[op.inputs[0]], source), weight=pick, groups=channels, strides=ints_of(op, "strides", [0, 1]),
        dilations=ints_of(op, "dilations", [0, 1]), pad_type="custom", pad=[int(v) for v in op.attributes["padding"]],
    )  # fmt: skip
    columns = w.mb.reshape(x=columns, shape=[0, channels, taps, -1])
    if str(op.attributes["data_layout"]) == "NCHW":
        return w.mb.reshape(x=columns, shape=[0, channels * taps, -1])
    return w.mb.reshape(x=w.turned(columns, [0, 3, 2, 1]), shape=[0, -1, channels * taps])


@writes("col_to_im")
def col_to_im(w: Writer, op: Operation) -> Var:
    """Export col_to_im as MIL's conv_transpose with one-hot weights that each place one element of the window."""
    source, shape = channels_first(layout_of(op, 2)), required_shape(op.outputs[0])
    channels, *size = (shape[axis] for axis in source[1:])
    if min(channels, *size) < 1:
        raise NotExpressible(
            f"col_to_im needs a static, positive image size and number of channels, got {[channels, *size]}"
        )
    kernel, strides, dilations = (ints_of(op, key, [0, 1]) for key in ("kernel", "strides", "dilations"))
    pads, taps = [int(v) for v in op.attributes["padding"]], kernel[0] * kernel[1]
    room = [size[i] + pads[2 * i] + pads[2 * i + 1] - (kernel[i] - 1) * dilations[i] - 1 for i in (0, 1)]
    places = [n // stride + 1 for n, stride in zip(room, strides, strict=True)]
    columns = w[op.inputs[0]]
    # The columns have shape (n, positions, taps * channels), with all channels of a filter tap next to each other.
    if str(op.attributes["data_layout"]) != "NCHW":
        apart = w.mb.reshape(x=columns, shape=[0, places[0] * places[1], taps, channels])
        columns = w.turned(apart, [0, 3, 2, 1])
    columns = w.mb.reshape(x=columns, shape=[-1, taps, *places])  # Treat each channel as a separate image.
    put = np.eye(taps, dtype=op.inputs[0].dtype.numpy).reshape(taps, 1, *kernel)
    images = w.mb.conv_transpose(
        x=columns, weight=put, strides=strides, dilations=dilations, pad_type="custom", pad=pads
    )
    outside = [n % stride for n, stride in zip(room, strides, strict=True)]
    if any(outside):
        zero = w.number(0, op.inputs[0].dtype)
        images = w.mb.pad(x=images, pad=[0, outside[0], 0, outside[1]], constant_val=zero)
    return w.turned(w.mb.reshape(x=images, shape=[-1, channels, *size]), inverse(source))
