"""The windows of Conv and pooling operators, as their attributes specify them."""

from __future__ import annotations

from collections.abc import Sequence

from ..._core import Tensor
from ...errors import GraphError, ShapeError
from ...interchange.renames import options
from ...interchange.windows import Window
from ..building.node import Node


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
        window.pad_same((x.shape or ())[2:], options("onnx", "padding style")[auto])
    elif auto != "NOTSET":
        raise GraphError(f"auto_pad must be NOTSET, VALID, SAME_UPPER, or SAME_LOWER, got {auto!r}")
    return window
