"""Strides, dilations, padding, and output sizes of the windows in Conv and pooling operators.

ONNX's layout is batch, channels, then any number of spatial axes. MPSGraph's windows have two or three spatial axes, so
1-D inputs get an additional spatial axis of size 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..._core import Tensor
from ...errors import GraphError, ShapeError
from ..building.node import Node


@dataclass
class Window:
    """Parameters of a sliding window. Each list has one entry per spatial axis."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]
    style: str | None = None  # TF_SAME or ONNX_SAME_LOWER if the padding depends on dynamic sizes.

    @property
    def reach(self) -> list[int]:
        """The number of elements that the dilated window spans, per axis."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    def sizes(self, inputs: Sequence[int], ceil_mode: bool = False) -> list[int]:
        """Return the output sizes.

        With ceil_mode, the last window may extend past the end of the input, but must not begin in the trailing
        padding.
        """
        result = []
        for n, r, s, b, a in zip(inputs, self.reach, self.strides, self.before, self.after, strict=True):
            room = n + b + a - r
            count = (-(-room // s) if ceil_mode else room // s) + 1
            if ceil_mode and (count - 1) * s >= n + b:
                count -= 1
            if room < 0 and not (ceil_mode and count > 0):
                raise ShapeError(
                    f"a window spanning {r} elements does not fit into {n} elements padded by {b} before and {a} after"
                )
            result.append(count)
        return result


def window_of(node: Node, x: Tensor, kernel: Sequence[int]) -> Window:
    """Return the window specified by the node's attributes, or raise ShapeError if they are inconsistent."""
    count = node.rank(x) - 2
    if count < 1 or len(kernel) != count:
        raise ShapeError(
            f"the operand must have one batch, one channel, and one spatial axis per entry of the kernel shape, got "
            f"shape {x.shape} and kernel shape {list(kernel)}"
        )
    strides = node.attribute("strides", [1] * count)
    dilations = node.attribute("dilations", [1] * count)
    pads = node.attribute("pads", [0] * (2 * count))
    if len(strides) != count or len(dilations) != count or len(pads) != 2 * count:
        raise ShapeError(
            f"strides and dilations need {count} entries and pads {2 * count} for {count} spatial axes, got strides "
            f"{strides}, dilations {dilations}, and pads {pads}"
        )
    if min(*strides, *dilations, *kernel) < 1:
        raise ShapeError(
            f"kernel, strides, and dilations must be positive, got {list(kernel)}, {strides}, and {dilations}"
        )
    window = Window(list(kernel), list(strides), list(dilations), list(pads[:count]), list(pads[count:]))
    auto = node.attribute("auto_pad", "NOTSET")
    if auto == "VALID":
        window.before, window.after = [0] * count, [0] * count
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        spatial = (x.shape or ())[2:]
        if min(spatial) < 0:
            window.style = "TF_SAME" if auto == "SAME_UPPER" else "ONNX_SAME_LOWER"
        for i, (n, r, s) in enumerate(zip(spatial, window.reach, window.strides, strict=True)):
            total = max(0, (-(-n // s) - 1) * s + r - n)
            less, more = total // 2, total - total // 2
            window.before[i], window.after[i] = (less, more) if auto == "SAME_UPPER" else (more, less)
    elif auto != "NOTSET":
        raise GraphError(f"auto_pad must be NOTSET, VALID, SAME_UPPER, or SAME_LOWER, got {auto!r}")
    return window


def planar(node: Node, x: Tensor) -> Tensor:
    """Return x with at least two spatial axes: if it has only one, an additional axis of size 1 is inserted."""
    return node.g.expand_dims(x, 2) if node.rank(x) == 3 else x


def like_before(node: Node, y: Tensor, window: Window) -> Tensor:
    """Remove the spatial axis that `planar` added."""
    return node.g.squeeze(y, [2]) if len(window.kernel) == 1 else y


def pair(values: Sequence[int], missing: int) -> list[int]:
    """Return values, one per spatial axis, for at least two axes.

    If there is only one value, `missing` is put before it, for the axis that `planar` adds.
    """
    return [missing, *values] if len(values) == 1 else list(values)


def padding_of(window: Window, leading: int = 0) -> Any:
    """Return the window's padding as an argument for Graph methods.

    `leading` is the number of additional axes in front of the spatial axes, which are not padded.
    """
    if window.style:
        return window.style
    pairs = zip(pair(window.before, 0), pair(window.after, 0), strict=True)
    return ((0, 0),) * leading + tuple(pairs)
