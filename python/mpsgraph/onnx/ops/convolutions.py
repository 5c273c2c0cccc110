"""Translations of convolutions and transposed convolutions, including quantized ones."""

from __future__ import annotations

import math
from itertools import product

from ..._core import Tensor, float32, float64
from ...errors import ShapeError
from ...interchange.renames import options
from ...interchange.windows import Window, convolved, halves, transposed_convolution
from ..building.node import Node, Results, operator
from ._compose import folded
from ._windows import window_of
from .integers import BYTES, block_size, in_blocks


def convolution(node: Node, x: Tensor, w: Tensor) -> Tensor:
    """Convolve x of shape (n, channels, ...) with weights w of shape (out, channels / groups, ...).

    The node's attributes specify strides, dilations, padding, and groups.
    """
    window = window_of(node, x, node.attribute("kernel_shape", list(node.shape(w)[2:])))
    if tuple(window.kernel) != node.shape(w)[2:]:
        raise ShapeError(f"kernel_shape must match the spatial axes of the weights {w.shape}, got {window.kernel}")
    return convolved(node, x, w, window, node.attribute("group", 1))


def with_bias(node: Node, y: Tensor, i: int) -> Tensor:
    """Return y plus the bias in operand i, which has one element per channel, or y itself if the node has no such
    operand.
    """
    if not node.has(i):
        return y
    return node.g.addition(y, node.by_channel(node.tensor(i), y))


@operator("Conv", upto=22)
def conv(node: Node) -> Results:
    return with_bias(node, convolution(node, node.tensor(0), node.tensor(1)), 2)


@operator("ConvTranspose", upto=22)
def conv_transpose(node: Node) -> Results:
    """Translate ConvTranspose to the gradient of a convolution with respect to the convolution's input."""
    x, w, count = node.tensor(0), node.tensor(1), node.rank(node.tensor(0)) - 2
    window = window_of(node, x, node.attribute("kernel_shape", list(node.shape(w)[2:])))
    extra = node.attribute("output_padding", [0] * count)
    growths = _growths(node, window, [span + e for span, e in zip(window.spans, extra, strict=True)])
    return with_bias(node, transposed_convolution(node, x, w, window, growths, node.attribute("group", 1)), 2)


def _growths(node: Node, window: Window, full: list[int]) -> list[int]:
    """Return, for each axis, the size of a transposed convolution's result minus the input size times the stride.

    `full` is this difference without padding. If auto_pad or output_shape determines the padding, the function also
    stores it in `window`.
    """
    auto, count = node.attribute("auto_pad", "NOTSET"), len(full)
    wanted = node.attribute("output_shape", None)
    if wanted is not None:
        known = [node.size(node.tensor(0), 2 + i) * s for i, s in enumerate(window.strides)]
        growths = [size - n for size, n in zip(wanted[-count:], known, strict=True)]
    elif auto.startswith("SAME"):
        growths = [0] * count
    else:
        return [f - b - a for f, b, a in zip(full, window.before, window.after, strict=True)]
    # If the total padding is odd, the extra element is in front, unless auto_pad is SAME_UPPER.
    totals = [max(0, f - more) for f, more in zip(full, growths, strict=True)]
    window.before, window.after = halves(totals, options("onnx", "padding style").get(auto, ""))
    return growths


@operator("ConvInteger", upto=10)
def conv_integer(node: Node) -> Results:
    x, w = node.tensor(0), node.tensor(1)
    return convolution_of_integers(node, x, node.optional(2), w, node.optional(3))


def convolution_of_integers(node: Node, x: Tensor, x_zero: Tensor | None, w: Tensor, w_zero: Tensor | None) -> Tensor:
    """Convolve 8-bit integers minus their zero points, with exact int32 results.

    The channels are split into blocks whose sums are exact in float32.
    """
    g, size, groups = node.g, node.shape(w), node.attribute("group", 1)
    taps, most = math.prod(size[2:]), block_size(BYTES)
    exact = taps <= most if groups == 1 else taps * size[1] <= most
    wide = float32 if exact else float64
    x, w = g.cast(x, wide), g.cast(w, wide)
    if x_zero is not None:
        x = g.subtraction(x, g.reshape(node.cast(x_zero, wide), ()))
    if w_zero is not None:
        w = g.subtraction(w, per_channel(node, w_zero, w))

    def of(start: int, length: int) -> Tensor:
        if length == size[1]:
            return convolution(node, x, w)
        return convolution(node, g.slice_axis(x, 1, start, length), g.slice_axis(w, 1, start, length))

    return in_blocks(node, size[1], max(1, most // max(1, taps)) if exact and groups == 1 else size[1], of)


def per_channel(node: Node, parameter: Tensor, w: Tensor) -> Tensor:
    """Convert a parameter to w's dtype and reshape it to broadcast against w.

    The parameter is a scalar, or a vector with one element per entry of w's first axis.
    """
    parameter = node.cast(parameter, w.dtype)
    if node.rank(parameter) == 0 or parameter.shape == (1,):
        return node.g.reshape(parameter, ())
    return node.g.reshape(parameter, [-1, *[1] * (node.rank(w) - 1)])


@operator("Col2Im", upto=18)
def columns_to_image(node: Node) -> Results:
    """Translate Col2Im, which adds up blocks of an image where they overlap.

    For each element of a block, the gradient of a strided slice puts the values of all blocks in their places.
    """
    g, x = node.g, node.tensor(0)
    image, block = node.ints(1), node.ints(2)
    count = len(image)
    strides, dilations = node.attribute("strides", [1] * count), node.attribute("dilations", [1] * count)
    pads = node.attribute("pads", [0] * (2 * count))
    window = Window(block, list(strides), list(dilations), list(pads[:count]), list(pads[count:]))
    places = window.sizes(image)
    batch, columns, _ = node.shape(x)
    channels = columns // math.prod(block)
    x = g.reshape(x, [batch, channels, math.prod(block), *places])
    wide = [batch, channels, *(n + b + a for n, b, a in zip(image, window.before, window.after, strict=True))]
    parts = []
    for i, offset in enumerate(product(*(range(k) for k in block))):
        first = [o * d for o, d in zip(offset, window.dilations, strict=True)]
        last = [f + (p - 1) * s + 1 for f, p, s in zip(first, places, window.strides, strict=True)]
        part = g.squeeze(g.slice_axis(x, 2, i, 1), [2])
        whole = [batch, channels, *last]
        parts.append(g.slice_gradient(part, wide, [0, 0, *first], whole, [1, 1, *window.strides]))
    ends = [b + n for b, n in zip(window.before, image, strict=True)]
    return g.slice(folded(parts, g.addition), [0, 0, *window.before], [batch, channels, *ends])
