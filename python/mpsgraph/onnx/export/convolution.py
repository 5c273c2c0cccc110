"""Export of convolutions (plain, depthwise, and transposed), pooling, im_to_col, and col_to_im to ONNX.

ONNX expects channels first in images and weights. For other layouts, Transpose nodes are added before and after; pairs
that cancel are dropped. Weights keep their original shape in the file and are transposed by a node.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import Operation
from ...interchange.export import NotExpressible, known_array, required_shape
from ...interchange.renames import names
from ...interchange.windows import (
    Window,
    channels_first,
    explicit_padding,
    ints_of,
    inverse,
    layout_of,
    pooled_axes,
    transposed_ends,
)
from ._writer import Writer, writes

_AUTO = names("onnx", "padding style")


def _windows(op: Operation, axes: list[int], kernel: list[int], sizes: list[int]) -> dict[str, Any]:
    """Return ONNX attributes for strides, dilations, and padding along the windowed axes.

    The padding of TF_SAME and ONNX_SAME_LOWER depends on the image size. If the size is known, the attributes contain
    explicit padding; otherwise they contain auto_pad.
    """
    style = str(op.attributes["padding_style"])
    if style not in _AUTO:
        raise NotExpressible(f"ONNX has no equivalent of padding style {style}")
    strides, dilations = (ints_of(op, key, axes) for key in ("strides", "dilations"))
    result: dict[str, Any] = {"strides": strides, "dilations": dilations}
    if style == "TF_VALID":
        return result
    window = Window(kernel, strides, dilations, *explicit_padding(op, axes))
    if style != "EXPLICIT":
        if min(*sizes, *kernel) < 0:
            return {**result, "auto_pad": _AUTO[style]}
        window.pad_same(sizes, style)
    return {**result, "pads": window.before + window.after}


def _sizes(op: Operation, source: list[int]) -> list[int]:
    """Return the sizes of the windowed axes of operand 0, with -1 for dynamic dimensions."""
    return [required_shape(op.inputs[0])[axis] for axis in source[2:]]


@writes("convolution2d", "convolution3d")
def convolution(w: Writer, op: Operation) -> str:
    """Export a 2-D or 3-D convolution as Conv."""
    count = 2 if op.kind == "convolution2d" else 3
    source = channels_first(layout_of(op, count))
    weights = channels_first(str(op.attributes["weights_layout"]))
    operands = w.transpose(w.name(op.inputs[0]), source), w.transpose(w.name(op.inputs[1]), weights)
    kernel = [required_shape(op.inputs[1])[axis] for axis in weights[2:]]
    windows = _windows(op, list(range(count)), kernel, _sizes(op, source))
    result = w.add("Conv", *operands, group=int(op.attributes["groups"]), **windows)
    return w.transpose(result, inverse(source))


@writes("depthwise_convolution2d")
def depthwise(w: Writer, op: Operation) -> str:
    """Export a depthwise convolution as Conv with one group per channel.

    Weights are reshaped from (h, w, C, M) to (C M, 1, h, w), where M is the number of filters per channel.
    """
    source = channels_first(layout_of(op, 2))
    layout = str(op.attributes["weights_layout"])
    channels, kernel_y, kernel_x = (required_shape(op.inputs[1])[layout.index(letter)] for letter in "IHW")
    if min(channels, kernel_y, kernel_x) < 0:
        raise NotExpressible(
            "the shape of the weights is dynamic, but ONNX's Conv needs static channels and kernel sizes"
        )
    if channels == 0:
        raise NotExpressible("the input has 0 channels, but ONNX's Conv needs at least one group")
    turned = w.transpose(w.name(op.inputs[1]), [layout.index(letter) for letter in "IOHW"])
    weights = w.reshape(turned, [-1, 1, kernel_y, kernel_x])
    windows = _windows(op, [0, 1], [kernel_y, kernel_x], _sizes(op, source))
    result = w.add("Conv", w.transpose(w.name(op.inputs[0]), source), weights, group=channels, **windows)
    return w.transpose(result, inverse(source))


@writes(
    "convolution_transpose2d",
    "convolution2d_data_gradient",
    "convolution3d_data_gradient",
)
def transposed(w: Writer, op: Operation) -> str:
    """Export a transposed convolution as ConvTranspose, cropped to the requested output size.

    ConvTranspose expects weights of shape (O, C / groups, ...), which is the shape of the weights of the forward
    convolution. Cropping uses pads and output_padding if sizes are known, and a Slice node otherwise.
    """
    count = 3 if op.kind.startswith("convolution3d") else 2
    layout, weights_layout = layout_of(op, count), str(op.attributes["weights_layout"])
    source, weights = channels_first(layout), channels_first(weights_layout)
    strides, dilations = ([int(v) for v in op.attributes[key]] for key in ("strides", "dilations"))
    kernel = [required_shape(op.inputs[1])[axis] for axis in weights[2:]]
    if min(kernel) < 0:
        raise NotExpressible("the kernel size is dynamic, but ONNX's ConvTranspose needs a static one")
    operands = w.transpose(w.name(op.inputs[0]), source), w.transpose(w.name(op.inputs[1]), weights)
    common = {"group": int(op.attributes["groups"]), "strides": strides, "dilations": dilations}
    style = op.attributes["padding_style"]
    if style not in _AUTO:
        raise NotExpressible(f"ONNX has no equivalent of padding style {style}")
    before, _ = explicit_padding(op, range(count))
    known_out = _known_sizes(op, source)
    known_in = [required_shape(op.inputs[0])[axis] for axis in source[2:]]
    if min(known_in) >= 0 and min(known_out) >= 0:
        before, after, outside = transposed_ends(op, known_in, known_out, kernel)
        return w.transpose(
            w.add("ConvTranspose", *operands, **common, pads=before + after, output_padding=outside), inverse(source)
        )
    wider = [stride - 1 for stride in strides]
    full_name = w.add("ConvTranspose", *operands, **common, output_padding=wider)
    shape = w.add("Gather", w.shape_operand(op.inputs[2]), w.ints(source[2:]), axis=0)
    starts = w.ints(before)
    if style in ("TF_SAME", "ONNX_SAME_LOWER"):
        all_sizes = w.add("Slice", w.add("Shape", full_name), w.ints([2]), w.ints([2 + count]))
        beyond = w.add("Sub", w.add("Sub", all_sizes, w.ints(wider)), shape)
        beyond = w.add("Max", beyond, w.ints([0] * count))
        half = w.add("Div", beyond, w.ints([2] * count))
        starts = half if style == "TF_SAME" else w.add("Sub", beyond, half)
    kept = w.add("Slice", full_name, starts, w.add("Add", starts, shape), w.ints(list(range(2, 2 + count))))
    return w.transpose(kept, inverse(source))


def _known_sizes(op: Operation, source: list[int]) -> list[int]:
    stated = known_array(op.inputs[2])
    if stated is not None:
        return [int(stated[axis]) for axis in source[2:]]
    shape = op.outputs[0].shape
    return [shape[axis] for axis in source[2:]] if shape is not None else [-1]


@writes("max_pooling2d", "avg_pooling2d")
def pooling2d(w: Writer, op: Operation) -> str:
    """Export 2-D pooling as MaxPool or AveragePool."""
    source = channels_first(layout_of(op, 2))
    kernel = [int(v) for v in op.attributes["kernel"]]
    turned = w.transpose(w.name(op.inputs[0]), source)
    windows = _closed(op, source[2:], kernel, _windows(op, [0, 1], kernel, _sizes(op, source)))
    return w.transpose(_pool(w, op, turned, kernel, windows), inverse(source))


def _closed(op: Operation, axes: list[int], kernel: list[int], windows: dict[str, Any]) -> dict[str, Any]:
    """Replace ceil_mode with explicit padding if sizes are known.

    With ceil_mode, ONNX's shape inference counts windows that begin in the trailing padding, but mpsgraph omits them.
    """
    sizes, results = ([required_shape(t)[axis] for axis in axes] for t in (op.inputs[0], op.outputs[0]))
    if not op.attributes["ceil_mode"] or windows.get("auto_pad") or min(*sizes, *results) < 1:
        return windows
    count = len(axes)
    before = windows.get("pads", [0] * 2 * count)[:count]
    reached = [
        (n - 1) * stride + (k - 1) * dilation + 1
        for n, stride, k, dilation in zip(results, windows["strides"], kernel, windows["dilations"], strict=True)
    ]
    behind = [max(end - size - b, 0) for end, size, b in zip(reached, sizes, before, strict=True)]
    return {**windows, "pads": before + behind, "ceil_mode": 0}


def _pool(w: Writer, op: Operation, source: str, kernel: list[int], windows: dict[str, Any]) -> str:
    ceil = windows.get("ceil_mode", int(op.attributes["ceil_mode"]))
    windows = {key: value for key, value in windows.items() if key != "ceil_mode"}
    more: dict[str, Any] = {"kernel_shape": kernel, "ceil_mode": ceil or None}
    if op.kind.startswith("max"):
        return w.add("MaxPool", source, **windows, **more)
    if w.opset < 19:
        if any(step != 1 for step in windows["dilations"]):
            raise NotExpressible("ONNX's AveragePool supports dilations only from opset 19: pass a higher opset")
        windows = {**windows, "dilations": None}
    counted = int(op.attributes["include_zero_pad_to_average"]) or None
    if counted and op.attributes["ceil_mode"]:
        raise NotExpressible(
            "ONNX runtimes disagree about average pooling that combines ceil_mode with padding counted in the average"
        )
    return w.add("AveragePool", source, **windows, **more, count_include_pad=counted)


@writes("max_pooling4d", "avg_pooling4d")
def pooling4d(w: Writer, op: Operation) -> str:
    """Export pooling over up to three of the last four axes as MaxPool or AveragePool.

    An axis that is not pooled becomes the channel axis.
    """
    rank = len(required_shape(op.inputs[0]))
    if rank not in (4, 5):
        raise NotExpressible(
            f"pooling over four axes of a tensor of rank {rank} cannot be exported, because ONNX's pooling needs a "
            "batch and a channel axis"
        )
    found = pooled_axes(op)
    if found is None:
        raise NotExpressible("pooling over four axes at once cannot be exported: ONNX runtimes support at most three")
    kept, forth = found
    x = w.name(op.inputs[0])
    if rank == 4:
        x = w.add("Unsqueeze", x, w.ints([0]))
    kernel = ints_of(op, "kernel", kept)
    windows = _windows(op, kept, kernel, [required_shape(op.inputs[0])[i - 4] for i in kept])
    windows = _closed(op, [rank - 4 + i for i in kept], kernel, windows)
    result = w.transpose(_pool(w, op, w.transpose(x, forth), kernel, windows), inverse(forth))
    return w.add("Squeeze", result, w.ints([0])) if rank == 4 else result


@writes("im_to_col")
def im_to_col(w: Writer, op: Operation) -> str:
    """Export im_to_col as Conv with one-hot weights that each select one element of the window."""
    source = channels_first(layout_of(op, 2))
    channels = required_shape(op.inputs[0])[source[1]]
    if channels < 1 or str(op.inputs[0].dtype) not in ("float32", "float64", "float16"):
        raise NotExpressible(
            f"im_to_col needs a static, positive number of channels and dtype float16, float32, or float64, got "
            f"{channels} channels and {op.inputs[0].dtype}"
        )
    kernel_y, kernel_x = (int(v) for v in op.attributes["kernel"])
    taps = kernel_y * kernel_x
    pick = np.eye(taps, dtype=op.inputs[0].dtype.numpy).reshape(taps, 1, kernel_y, kernel_x)
    weights = w.constant(np.ascontiguousarray(np.tile(pick, (channels, 1, 1, 1))))
    padding = [int(v) for v in op.attributes["padding"]]
    windows = {key: [int(v) for v in op.attributes[key]] for key in ("strides", "dilations")}
    pads = padding[0::2] + padding[1::2]
    turned = w.transpose(w.name(op.inputs[0]), source)
    # Shape (n, channels * taps, y, x), with all filter taps of a channel next to each other.
    columns = w.add("Conv", turned, weights, group=channels, pads=pads, **windows)
    columns = w.reshape(columns, [0, channels * taps, -1])
    if str(op.attributes["data_layout"]) == "NCHW":
        return columns
    apart = w.transpose(w.reshape(columns, [0, channels, taps, -1]), [0, 3, 2, 1])
    return w.reshape(apart, [0, 0, channels * taps])


@writes("col_to_im")
def col_to_im(w: Writer, op: Operation) -> str:
    """Export col_to_im as ConvTranspose with one-hot weights that each place one element of the window."""
    source = channels_first(layout_of(op, 2))
    shape = required_shape(op.outputs[0])
    channels, *size = (shape[axis] for axis in source[1:])
    if min(channels, *size) < 1 or str(op.inputs[0].dtype) not in ("float32", "float64", "float16"):
        raise NotExpressible(
            "col_to_im needs a static, positive image size and number of channels and dtype float16, float32, or "
            f"float64, got {[channels, *size]} and {op.inputs[0].dtype}"
        )
    kernel, strides, dilations, padding = (
        [int(v) for v in op.attributes[key]] for key in ("kernel", "strides", "dilations", "padding")
    )
    before, after, taps = padding[0::2], padding[1::2], kernel[0] * kernel[1]
    room = [n + b + a - (k - 1) * d - 1 for n, b, a, k, d in zip(size, before, after, kernel, dilations, strict=True)]
    places = [n // stride + 1 for n, stride in zip(room, strides, strict=True)]
    columns = w.name(op.inputs[0])
    # The columns have shape (n, positions, taps * channels), with all channels of a filter tap next to each other.
    if str(op.attributes["data_layout"]) != "NCHW":
        columns = w.transpose(w.reshape(columns, [0, 0, taps, channels]), [0, 3, 2, 1])
    columns = w.reshape(columns, [-1, taps, *places])  # Treat each channel as a separate image.
    weights = w.constant(np.eye(taps, dtype=op.inputs[0].dtype.numpy).reshape(taps, 1, *kernel))
    outside = [n % stride for n, stride in zip(room, strides, strict=True)]
    windows = {"strides": strides, "dilations": dilations, "pads": before + after}
    images = w.add("ConvTranspose", columns, weights, output_padding=outside, **windows)
    return w.transpose(w.reshape(images, [-1, channels, *size]), inverse(source))
