"""Translations of convolutions and transposed convolutions, including quantized ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

from ..._core import Tensor, float32, float64
from ...errors import ShapeError, UnsupportedError
from ..building.node import Node, Results, operator
from ._compose import folded
from ._windows import Window, like_before, padding_of, pair, planar, window_of
from .integers import BYTES, block_size, in_blocks

Method = Callable[..., Tensor]


def convolution(node: Node, x: Tensor, w: Tensor) -> Tensor:
    """Convolve x of shape (n, channels, ...) with weights w of shape (out, channels / groups, ...).

    The node's attributes specify strides, dilations, padding, and groups.
    """
    window = window_of(node, x, node.attribute("kernel_shape", list(node.shape(w)[2:])))
    if tuple(window.kernel) != node.shape(w)[2:]:
        raise ShapeError(f"kernel_shape must match the spatial axes of the weights {w.shape}, got {window.kernel}")
    groups = node.attribute("group", 1)
    method, layouts = _of_axes(node, window, node.g.convolution2d, node.g.convolution3d)
    y = method(planar(node, x), planar(node, w), **layouts, **_steps(window), groups=groups)
    return like_before(node, y, window)


def _of_axes(node: Node, window: Window, plane: Method, space: Method) -> tuple[Method, dict[str, Any]]:
    """Return a convolution method for the window's number of spatial axes, and its layouts as keyword arguments.

    The method is `plane` for up to two axes, and `space` for three.
    """
    if len(window.kernel) <= 2:
        return plane, {"data_layout": "NCHW", "weights_layout": "OIHW"}
    if len(window.kernel) == 3:
        return space, {"data_layout": "NCDHW", "weights_layout": "OIDHW"}
    raise UnsupportedError(f"convolution supports at most 3 spatial axes, got {len(window.kernel)}")


def _steps(window: Window) -> dict[str, Any]:
    return {
        "strides": pair(window.strides, 1),
        "dilations": pair(window.dilations, 1),
        "padding": padding_of(window),
    }


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
    g, x, w = node.g, node.tensor(0), node.tensor(1)
    groups, count = node.attribute("group", 1), node.rank(x) - 2
    window = window_of(node, x, node.attribute("kernel_shape", list(node.shape(w)[2:])))
    window.style = None  # The padding applies to the result, so it is computed below from the size of the result.
    extra = node.attribute("output_padding", [0] * count)
    sizes = [node.dim(x, 2 + i) for i in range(count)]
    # Along each axis, all windows together cover size * stride + span elements, and the result has size * stride +
    # growth elements.
    spans = [r - s for r, s in zip(window.reach, window.strides, strict=True)]
    growths = _growths(node, window, sizes, [span + e for span, e in zip(spans, extra, strict=True)])
    results = [_grown(node, n, s, more) for n, s, more in zip(sizes, window.strides, growths, strict=True)]
    if min((size for size in results if isinstance(size, int)), default=1) < 1:
        raise ShapeError(f"the result must not be empty, but its spatial sizes would be {results}")
    # The gradient operation computes only elements that windows reach. Elements of the result that no window reaches
    # are appended as zeros.
    after = [span - b - more for span, b, more in zip(spans, window.before, growths, strict=True)]
    # Growths limited to the elements that windows reach.
    reached = [more + min(0, a) for more, a in zip(growths, after, strict=True)]
    made = [_grown(node, n, s, more) for n, s, more in zip(sizes, window.strides, reached, strict=True)]
    window.after = [max(0, a) for a in after]
    method, layouts = _of_axes(node, window, g.convolution2d_data_gradient, g.convolution3d_data_gradient)
    lead: list[int | Tensor] = [1] if count == 1 else []  # The size of the axis that `planar` adds.
    shape = node.joined([node.dim(x, 0), node.size(w, 1) * groups, *lead, *made])
    y = method(planar(node, x), planar(node, w), shape, **layouts, **_steps(window), groups=groups)
    behind = [more - part for more, part in zip(growths, reached, strict=True)]
    if any(behind):
        y = g.pad(y, [0] * node.rank(y), [0, 0, *pair(behind, 0)])
    return with_bias(node, like_before(node, y, window), 2)


def _growths(node: Node, window: Window, sizes: list[int | Tensor], full: list[int]) -> list[int]:
    """Return, for each axis, the size of a transposed convolution's result minus the input size times the stride.

    `full` is this difference without padding. If auto_pad or output_shape determines the padding, the function also
    stores it in `window`.
    """
    auto, count = node.attribute("auto_pad", "NOTSET"), len(sizes)
    wanted = node.attribute("output_shape", None)
    if wanted is not None:
        known = [node.size(node.tensor(0), 2 + i) * s for i, s in enumerate(window.strides)]
        growths = [size - n for size, n in zip(wanted[-count:], known, strict=True)]
    elif auto.startswith("SAME"):
        growths = [0] * count
    else:
        return [f - b - a for f, b, a in zip(full, window.before, window.after, strict=True)]
    for i, (f, more) in enumerate(zip(full, growths, strict=True)):
        total = max(0, f - more)
        # If the total padding is odd, the extra element is in front, unless auto_pad is SAME_UPPER.
        half, rest = total // 2, total - total // 2
        window.before[i], window.after[i] = (half, rest) if auto == "SAME_UPPER" else (rest, half)
    return growths


def _grown(node: Node, size: int | Tensor, stride: int, more: int) -> int | Tensor:
    """Return size * stride + more as an int, or as a tensor if the size is dynamic."""
    if isinstance(size, int):
        return size * stride + more
    return node.g.addition(node.g.multiplication(size, stride), more)


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
