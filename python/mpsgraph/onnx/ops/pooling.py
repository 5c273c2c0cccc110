"""Pools: the largest, the mean or the norm of what lies in a window."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._core import Tensor, float32
from ...errors import UnsupportedError
from .._registry import Node, Results, operator
from ._compose import in_dtype
from ._windows import Window, padding_of, pair, planar, window_of
from .shapes import padded

Pool = Callable[[Tensor, Window], Tensor]


def _over_planes(node: Node, x: Tensor, window: Window, pool: Pool) -> Tensor:
    """A pool that can be taken axis by axis (a maximum, a sum): the last two axes, then the one before."""
    g = node.g
    if len(window.kernel) <= 2:
        return pool(x, window)
    if len(window.kernel) > 3:
        raise UnsupportedError(f"a pool over {len(window.kernel)} spatial axes")
    n, c, d, h, w = node.shape(x)

    def part(axes: slice) -> Window:
        parts = (window.kernel, window.strides, window.dilations, window.before, window.after)
        kernel, strides, dilations, before, after = (v[axes] for v in parts)
        return Window(kernel, strides, dilations, before, after)

    y = pool(g.reshape(x, [n, c * d, h, w]), part(slice(1, 3)))
    h, w = node.shape(y)[2:]
    y = pool(g.reshape(y, [n, c, d, h * w]), _along_rows(part(slice(0, 1))))
    return g.reshape(y, [n, c, node.size(y, 2), h, w])


def _along_rows(window: Window) -> Window:
    """A window over one axis as one over two, of which the second is left alone."""
    return Window(
        [*window.kernel, 1], [*window.strides, 1], [*window.dilations, 1], [*window.before, 0], [*window.after, 0]
    )


def _with_ceil(node: Node, x: Tensor, window: Window) -> Window:
    """With ceil_mode, the padding behind as wide as the last window needs."""
    if node.attribute("ceil_mode", 0) and window.style is None:
        inputs = [node.size(x, 2 + i) for i in range(len(window.kernel))]
        counts = window.sizes(inputs, True)
        for i, (n, count) in enumerate(zip(inputs, counts, strict=True)):
            needed = (count - 1) * window.strides[i] + window.reach[i] - n - window.before[i]
            window.after[i] = max(needed, 0)
    return window


def maximum_of_windows(node: Node, x: Tensor, window: Window) -> Tensor:
    """The largest element of each window; padding does not count."""
    g = node.g

    def pool(x: Tensor, window: Window) -> Tensor:
        y = g.max_pooling2d(
            planar(node, x),
            pair(window.kernel, 1),
            pair(window.strides, 1),
            dilations=pair(window.dilations, 1),
            padding=padding_of(window),
            data_layout="NCHW",
        )
        return g.squeeze(y, [2]) if len(window.kernel) == 1 else y

    return _over_planes(node, x, window, pool)


def sum_of_windows(node: Node, x: Tensor, window: Window) -> Tensor:
    """The sum of each window, of which padding is zeros."""
    g = node.g
    spatial = [node.size(x, 2 + i) for i in range(len(window.kernel))]
    for i, n in enumerate(spatial):  # what no window reaches is cut, so that every window is whole
        count = (n + window.before[i] + window.after[i] - window.reach[i]) // window.strides[i] + 1
        window.after[i] = (count - 1) * window.strides[i] + window.reach[i] - n - window.before[i]
    if min(window.after) < 0:
        x = g.slice(
            x, [0] * node.rank(x), [0, 0, *(min(a, 0) for a in window.after)], None, 0,
            3 + sum((a >= 0) << (2 + i) for i, a in enumerate(window.after)),
        )  # fmt: skip
    x = padded(node, x, [0, 0, *window.before], [0, 0, *(max(a, 0) for a in window.after)])
    count = int(np.prod(window.kernel))
    whole = Window(window.kernel, window.strides, window.dilations, [0] * len(spatial), [0] * len(spatial))

    def pool(x: Tensor, window: Window) -> Tensor:
        return mean_of_windows(node, x, window, True)

    return g.multiplication(_over_planes(node, x, whole, pool), float(count))


def mean_of_windows(node: Node, x: Tensor, window: Window, include: bool) -> Tensor:
    """The mean of each window over one axis or two; with `include`, of which padding is zeros."""
    y = node.g.avg_pooling2d(
        planar(node, x),
        pair(window.kernel, 1),
        pair(window.strides, 1),
        dilations=pair(window.dilations, 1),
        padding=padding_of(window),
        data_layout="NCHW",
        include_zero_pad_to_average=include,
    )
    return node.g.squeeze(y, [2]) if len(window.kernel) == 1 else y


@operator("MaxPool", upto=22)
def max_pool(node: Node) -> Results:
    x = node.tensor(0)
    window = _with_ceil(node, x, window_of(node, x, node.attribute("kernel_shape")))
    if node.wants(1):
        raise UnsupportedError("the indices of a maximum pool")
    if not x.dtype.is_float:
        return in_dtype(node, float32, x, lambda y: maximum_of_windows(node, y, window))
    return maximum_of_windows(node, x, window)


@operator("AveragePool", upto=22)
def average_pool(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    window = window_of(node, x, node.attribute("kernel_shape"))
    include = bool(node.attribute("count_include_pad", 0))
    if not node.attribute("ceil_mode", 0) and len(window.kernel) <= 2:
        return mean_of_windows(node, x, window, include)
    inputs = [node.size(x, 2 + i) for i in range(len(window.kernel))]
    real_after = list(window.after)
    window = _with_ceil(node, x, window)
    counts = _counts(window, inputs, real_after, include)
    total = sum_of_windows(node, x, window)
    return g.division(total, g.cast(g.constant(counts.astype(np.float32)), x.dtype))


def _counts(window: Window, inputs: list[int], after: list[int], include: bool) -> np.ndarray:
    """How many elements of each window count: all in the operand, and with `include` those in the stated padding."""
    result = np.ones((), np.int64)
    for i, n in enumerate(inputs):
        b, reach, stride, dilation = window.before[i], window.reach[i], window.strides[i], window.dilations[i]
        first = np.arange((n + b + window.after[i] - reach) // stride + 1) * stride
        places = first[:, None] + np.arange(window.kernel[i]) * dilation
        low, high = (0, n + b + after[i]) if include else (b, n + b)
        result = result[..., None] * ((places >= low) & (places < high)).sum(1)
    return result


@operator("LpPool", upto=22)
def lp_pool(node: Node) -> Results:
    g, x, p = node.g, node.tensor(0), node.attribute("p", 2)
    window = _with_ceil(node, x, window_of(node, x, node.attribute("kernel_shape")))
    powers = g.square(x) if p == 2 else g.power(g.absolute(x), float(p))
    total = sum_of_windows(node, powers, window)
    return g.square_root(total) if p == 2 else g.power(total, 1.0 / p)


def _spatial_axes(node: Node, x: Tensor) -> list[int]:
    return list(range(2, node.rank(x)))


@operator("GlobalAveragePool", upto=22)
def global_average_pool(node: Node) -> Results:
    x = node.tensor(0)
    return node.g.mean(x, _spatial_axes(node, x))


@operator("GlobalMaxPool", upto=22)
def global_max_pool(node: Node) -> Results:
    x = node.tensor(0)
    return node.g.reduction_maximum_propagate_nan(x, _spatial_axes(node, x))


@operator("GlobalLpPool", upto=22)
def global_lp_pool(node: Node) -> Results:
    g, x, p = node.g, node.tensor(0), node.attribute("p", 2)
    return g.power(g.reduction_sum(g.power(g.absolute(x), float(p)), _spatial_axes(node, x)), 1.0 / p)
