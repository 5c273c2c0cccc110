"""Windows of convolutions and pooling: their sizes, padding, and layouts, for import and for export.

A format states a window by attributes of its own. Importers convert them to a Window and call `convolved`,
`transposed_convolution`, or `pooled`; exporters read the graph's attributes with the functions at the end of this file.
Formats have channels first and any number of spatial axes. MPSGraph's windows have two or three, so 1-D inputs get an
additional spatial axis of size 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._core import Operation, Tensor
from ..errors import ShapeError
from .export import required_shape
from .node_view import SizedNode

Method = Callable[..., Any]


@dataclass
class Window:
    """Parameters of a sliding window. Each list has one entry per spatial axis."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]
    style: str | None = None  # TF_SAME or ONNX_SAME_LOWER if the padding is computed when the graph runs.

    @property
    def reach(self) -> list[int]:
        """The number of elements that the dilated window spans, per axis."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    @property
    def spans(self) -> list[int]:
        """The number of elements by which all windows together exceed the number of windows times the stride."""
        return [reach - stride for reach, stride in zip(self.reach, self.strides, strict=True)]

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

    def pad_same(self, sizes: Sequence[int], style: str) -> None:
        """Pad inputs of the given sizes so that every stride-th element begins a window, as in `style`.

        If a size is dynamic, the style is stored instead of the padding.
        """
        if min(sizes) < 0:
            self.style = style
        totals = [max(0, (-(-n // s) - 1) * s + r - n) for n, r, s in zip(sizes, self.reach, self.strides, strict=True)]
        self.before, self.after = halves(totals, style)


def halves(totals: Sequence[int], style: str) -> tuple[list[int], list[int]]:
    """Divide the total padding of each axis. An extra element is at the end for TF_SAME, and at the start otherwise."""
    less, more = [n // 2 for n in totals], [n - n // 2 for n in totals]
    return (less, more) if style == "TF_SAME" else (more, less)


# --- import ---------------------------------------------------------------------------------------------------------
def planar(node: SizedNode, x: Tensor) -> Tensor:
    """Return x with at least two spatial axes: if it has only one, an additional axis of size 1 is inserted."""
    return node.g.expand_dims(x, 2) if node.rank(x) == 3 else x


def like_before(node: SizedNode, y: Tensor, window: Window) -> Tensor:
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


def of_axes(node: SizedNode, window: Window, plane: Method, space: Method) -> tuple[Method, dict[str, Any]]:
    """Return a convolution method for the window's number of spatial axes, and its layouts and steps as arguments.

    The method is `plane` for up to two axes, and `space` for three.
    """
    if len(window.kernel) not in (1, 2, 3):
        node.refuse(f"convolution supports at most 3 spatial axes, got {len(window.kernel)}")
    letters = "DHW" if len(window.kernel) == 3 else "HW"
    return space if len(window.kernel) == 3 else plane, {
        "data_layout": f"NC{letters}",
        "weights_layout": f"OI{letters}",
        "strides": pair(window.strides, 1),
        "dilations": pair(window.dilations, 1),
        "padding": padding_of(window),
    }


def convolved(node: SizedNode, x: Tensor, weights: Tensor, window: Window, groups: int) -> Tensor:
    """Convolve x of shape (n, channels, ...) with weights of shape (out, channels / groups, ...)."""
    method, how = of_axes(node, window, node.g.convolution2d, node.g.convolution3d)
    return like_before(node, method(planar(node, x), planar(node, weights), **how, groups=groups), window)


def transposed_convolution(
    node: SizedNode, x: Tensor, weights: Tensor, window: Window, growths: Sequence[int], groups: int
) -> Tensor:
    """Return the gradient of a convolution with respect to the convolution's input, which is a transposed convolution.

    Along each axis, the result has size * stride + growth elements, and the padding before it is that of the window.
    """
    g, count = node.g, len(window.kernel)
    sizes = [node.dim(x, 2 + i) for i in range(count)]
    results = [_grown(node, n, s, more) for n, s, more in zip(sizes, window.strides, growths, strict=True)]
    if min((size for size in results if isinstance(size, int)), default=1) < 1:
        raise ShapeError(f"the result must not be empty, but its spatial sizes would be {results}")
    # The gradient operation computes only elements that windows reach. Elements of the result that no window reaches
    # are appended as zeros.
    after = [span - b - more for span, b, more in zip(window.spans, window.before, growths, strict=True)]
    # Growths limited to the elements that windows reach.
    reached = [more + min(0, a) for more, a in zip(growths, after, strict=True)]
    made = [_grown(node, n, s, more) for n, s, more in zip(sizes, window.strides, reached, strict=True)]
    window = replace(window, after=[max(0, a) for a in after], style=None)
    method, how = of_axes(node, window, g.convolution2d_data_gradient, g.convolution3d_data_gradient)
    lead: list[int | Tensor] = [1] if count == 1 else []  # The size of the axis that `planar` adds.
    shape = node.joined([node.dim(x, 0), node.size(weights, 1) * groups, *lead, *made])
    y = method(planar(node, x), planar(node, weights), shape, **how, groups=groups)
    behind = [more - part for more, part in zip(growths, reached, strict=True)]
    if any(behind):
        y = g.pad(y, [0] * node.rank(y), [0, 0, *pair(behind, 0)])
    return like_before(node, y, window)


def _grown(node: SizedNode, size: int | Tensor, stride: int, more: int) -> int | Tensor:
    """Return size * stride + more as an int, or as a tensor if the size is dynamic."""
    if isinstance(size, int):
        return size * stride + more
    return node.g.addition(node.g.multiplication(size, stride), more)


def pooled(node: SizedNode, x: Tensor, window: Window, plane: Method, space: Method, **more: Any) -> Any:
    """Apply a pooling method to two spatial axes or, if there are more, to the last four axes.

    The result has as many spatial axes as x.
    """
    if len(window.kernel) <= 2:
        made = plane(
            planar(node, x), pair(window.kernel, 1), pair(window.strides, 1), dilations=pair(window.dilations, 1),
            padding=padding_of(window), data_layout="NCHW", **more,
        )  # fmt: skip
        parts = [like_before(node, y, window) for y in (made if isinstance(made, (list, tuple)) else [made])]
        return parts if isinstance(made, (list, tuple)) else parts[0]
    if len(window.kernel) > 4:
        node.refuse(f"pooling supports at most 4 spatial axes, got {len(window.kernel)}")
    lead = [1] * (4 - len(window.kernel))
    steps = {"dilations": [*lead, *window.dilations], "padding": padding_of(window, len(lead))}
    return space(x, [*lead, *window.kernel], [*lead, *window.strides], **steps, **more)


# --- export ---------------------------------------------------------------------------------------------------------
def channels_first(layout: str) -> list[int]:
    """Return the permutation from a layout such as 'NHWC', 'NDHWC', or 'HWIO' to one that begins with N, C or O, I."""
    front = "OI" if "O" in layout else "NC"
    return [layout.index(letter) for letter in [*front, *(c for c in layout if c not in front)]]


def inverse(permutation: Sequence[int]) -> list[int]:
    """Return the inverse of a permutation."""
    return [permutation.index(axis) for axis in range(len(permutation))]


def layout_of(operation: Operation, count: int) -> str:
    """Return the layout of an operation on images with `count` spatial axes."""
    layout = str(operation.attributes.get("data_layout", "NHWC"))
    return layout if len(layout) == count + 2 else {2: "NHWC", 3: "NDHWC"}[count]


def ints_of(operation: Operation, key: str, axes: Sequence[int]) -> list[int]:
    """Return the entries of an attribute for some of the windowed axes."""
    return [int(operation.attributes[key][axis]) for axis in axes]


def explicit_padding(operation: Operation, axes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the padding before and after each of some windowed axes, which is zero unless stated explicitly."""
    if operation.attributes["padding_style"] != "EXPLICIT":
        return [0] * len(axes), [0] * len(axes)
    sides = [int(v) for v in operation.attributes["padding"]]
    return [sides[2 * axis] for axis in axes], [sides[2 * axis + 1] for axis in axes]


def transposed_ends(
    operation: Operation, inputs: Sequence[int], outputs: Sequence[int], kernel: Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """Return how a transposed convolution with static sizes is cropped: the elements before, after, and missing."""
    axes = list(range(len(inputs)))
    strides, dilations = (ints_of(operation, key, axes) for key in ("strides", "dilations"))
    style, (before, _) = str(operation.attributes["padding_style"]), explicit_padding(operation, axes)
    steps = zip(inputs, strides, kernel, dilations, strict=True)
    beyond = [(n - 1) * s + (k - 1) * d + 1 - out for (n, s, k, d), out in zip(steps, outputs, strict=True)]
    if style in ("TF_SAME", "ONNX_SAME_LOWER"):
        before, _ = halves([max(n, 0) for n in beyond], style)
    ends = [n - b for n, b in zip(beyond, before, strict=True)]
    return before, [max(end, 0) for end in ends], [max(-end, 0) for end in ends]


def pooled_axes(operation: Operation) -> tuple[list[int], list[int]] | None:
    """Return the axes that pooling over the last four axes pools, and a permutation that puts them last.

    The permutation is of five axes. An axis that is not pooled becomes the channel axis; None if all four are pooled.
    """
    kernel, strides = (ints_of(operation, key, range(4)) for key in ("kernel", "strides"))
    padding = ints_of(operation, "padding", range(8))
    still = [i for i in range(4) if kernel[i] == strides[i] == 1 and not any(padding[2 * i : 2 * i + 2])]
    if not still or len(required_shape(operation.inputs[0])) not in (4, 5):
        return None
    kept = [i for i in range(4) if i != still[-1]]
    return kept, [0, 1 + still[-1], *(1 + i for i in kept)]
