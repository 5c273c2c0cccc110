"""Windows over spatial axes: strides, dilations, paddings and result sizes, as Conv and the pools state them.

ONNX's layout is batch, channels, then any number of spatial axes. MPSGraph's windows have two or three, so a single
axis gets a neighbour of size 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..._core import Tensor
from ...errors import GraphError, ShapeError
from .._registry import Node


@dataclass
class Window:
    """One entry for each spatial axis."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]
    style: str | None = None  # TF_SAME or ONNX_SAME_LOWER while the sizes that decide the padding are not known

    @property
    def reach(self) -> list[int]:
        """How many elements a window spans."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    def sizes(self, inputs: Sequence[int], ceil_mode: bool = False) -> list[int]:
        """The result's sizes. With ceil_mode a last window may stick out, but must begin before the padding behind."""
        result = []
        for n, r, s, b, a in zip(inputs, self.reach, self.strides, self.before, self.after, strict=True):
            room = n + b + a - r
            count = (-(-room // s) if ceil_mode else room // s) + 1
            if ceil_mode and (count - 1) * s >= n + b:
                count -= 1
            if room < 0 and not (ceil_mode and count > 0):
                raise ShapeError(f"a window of {r} does not fit into {n} elements with {b} and {a} of padding")
            result.append(count)
        return result


def window_of(node: Node, x: Tensor, kernel: Sequence[int]) -> Window:
    """The window that the node's attributes state. ShapeError when they do not fit."""
    count = node.rank(x) - 2
    if count < 1 or len(kernel) != count:
        raise ShapeError(f"a kernel of {len(kernel)} axes for an operand {x.shape} with {count} spatial axes")
    strides = node.attribute("strides", [1] * count)
    dilations = node.attribute("dilations", [1] * count)
    pads = node.attribute("pads", [0] * (2 * count))
    if len(strides) != count or len(dilations) != count or len(pads) != 2 * count:
        raise ShapeError(f"strides {strides}, dilations {dilations} and pads {pads} do not fit {count} spatial axes")
    if min(*strides, *dilations, *kernel) < 1:
        raise ShapeError(f"kernel {list(kernel)}, strides {strides} and dilations {dilations} must be positive")
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
        raise GraphError(f"auto_pad {auto!r}")
    return window


def planar(node: Node, x: Tensor) -> Tensor:
    """x with two spatial axes or more: a single one gets a neighbour before it."""
    return node.g.expand_dims(x, 2) if node.rank(x) == 3 else x


def like_before(node: Node, y: Tensor, window: Window) -> Tensor:
    """A result without the neighbour that `planar` gave."""
    return node.g.squeeze(y, [2]) if len(window.kernel) == 1 else y


def pair(values: Sequence[int], missing: int) -> list[int]:
    """Two entries or more: the neighbour's comes first."""
    return [missing, *values] if len(values) == 1 else list(values)


def padding_of(window: Window, leading: int = 0) -> Any:
    """As the methods of Graph take it, with axes before the spatial ones that are not padded."""
    if window.style:
        return window.style
    pairs = zip(pair(window.before, 0), pair(window.after, 0), strict=True)
    return ((0, 0),) * leading + tuple(pairs)
