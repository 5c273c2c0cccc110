"""Translations of maximum, average, and Lp pooling."""

from __future__ import annotations

import math

import numpy as np

from ..._core import Tensor, float32, int64
from ...interchange.windows import Window, pooled
from ..building.node import Node, Results, operator
from ._compose import counted
from ._windows import window_of


def _with_ceil(node: Node, x: Tensor, window: Window) -> Window:
    """If ceil_mode is set, extend the window's trailing padding, so that it contains the last window."""
    if node.attribute("ceil_mode", 0) and window.style is None:
        if _is_ceil_of_open_sizes(node, x, window):
            window.after = [a + s - 1 for a, s in zip(window.after, window.strides, strict=True)]
            return window
        inputs = [node.size(x, 2 + i) for i in range(len(window.kernel))]
        counts = window.sizes(inputs, True)
        for i, (n, count) in enumerate(zip(inputs, counts, strict=True)):
            needed = (count - 1) * window.strides[i] + window.reach[i] - n - window.before[i]
            window.after[i] = max(needed, 0)
    return window


def _is_ceil_of_open_sizes(node: Node, x: Tensor, window: Window) -> bool:
    """Return whether ceil_mode can be implemented for dynamic sizes by additional trailing padding of stride - 1.

    This is possible if no window can begin in the trailing padding.
    """
    sides = zip(window.after, window.strides, window.reach, strict=True)
    return min(node.dims(x)[2:]) < 0 and all(a + s <= r for a, s, r in sides)


def sum_of_windows(node: Node, x: Tensor, window: Window) -> Tensor:
    """Return the sum of each window, counting padding as zeros."""
    total = _mean(node, x, window, True)
    return node.g.multiplication(total, float(math.prod(window.kernel)))


def _mean(node: Node, x: Tensor, window: Window, include: bool) -> Tensor:
    g = node.g
    y: Tensor = pooled(node, x, window, g.avg_pooling2d, g.avg_pooling4d, include_zero_pad_to_average=include)
    return y


@operator("MaxPool", upto=22)
def max_pool(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    window = _with_ceil(node, x, window_of(node, x, node.attribute("kernel_shape")))
    node.without_effect("storage_order")  # storage_order affects only the indices, which are unused here.

    def pool(x: Tensor) -> Tensor:
        y: Tensor = pooled(node, x, window, g.max_pooling2d, g.max_pooling4d)
        return y

    if not node.wants(1):
        return pool(x) if x.dtype.is_float else node.in_dtype(float32, x, pool)
    real = x if x.dtype.is_float else g.cast(x, float32)
    values, indices = pooled(node, real, window, g.max_pooling2d_return_indices, g.max_pooling4d_return_indices)
    return [node.cast(values, x.dtype), _in_whole_tensor(node, x, indices)]


def _in_whole_tensor(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    """Convert indices into the last four axes to indices into all of x."""
    g, indices = node.g, node.g.cast(indices, int64)
    if node.rank(x) <= 4 and not node.attribute("storage_order", 0):
        return indices
    shape = node.shape(x)
    if len(shape) > 4:
        entry = g.cast(g.coordinate_along_axis(0, node.shape(indices)), int64)
        indices = g.addition(indices, g.multiplication(entry, math.prod(shape[1:])))
    if not node.attribute("storage_order", 0):
        return indices
    # Column-major within each channel: the first spatial axis varies fastest.
    inner = math.prod(shape[2:])
    place = g.floor_modulo(indices, inner)
    turned, weight, rest = g.subtraction(indices, place), 1, inner
    for size in shape[2:]:
        rest //= size
        along = g.floor_modulo(g.division(place, rest), size)
        turned = g.addition(turned, g.multiplication(along, weight))
        weight *= size
    return turned


@operator("MaxUnpool", upto=22)
def max_unpool(node: Node) -> Results:
    """Translate MaxUnpool, which scatters values into zeros.

    The indices refer to the smallest possible result; a larger one is padded with zeros at the end.
    """
    g, x, indices = node.g, node.tensor(0), node.tensor(1)
    window = window_of(node, x, node.attribute("kernel_shape"))
    batch, channels, *spatial = node.shape(x)
    parts = zip(spatial, window.strides, window.reach, window.before, window.after, strict=True)
    smallest = [batch, channels, *((n - 1) * s + r - b - a for n, s, r, b, a in parts)]
    flat = [math.prod(smallest)]
    placed = g.gather_gradient(g.reshape(x, (-1,)), g.reshape(indices, (-1,)), flat, 0, out_of_range="error")
    wanted = node.ints(2) if node.has(2) else smallest
    result = g.reshape(placed, smallest)
    return g.pad(result, [0] * len(wanted), [w - s for w, s in zip(wanted, smallest, strict=True)])


@operator("AveragePool", upto=22)
def average_pool(node: Node) -> Results:
    return node.widely(node.tensor(0), lambda x: _average(node, x))


def _average(node: Node, x: Tensor) -> Tensor:
    g, window = node.g, window_of(node, x, node.attribute("kernel_shape"))
    include = bool(node.attribute("count_include_pad", 0))
    if not node.attribute("ceil_mode", 0):
        return _mean(node, x, window, include)
    # With ceil_mode, a window averages only over elements of the operand and, with `include`, explicit padding.
    if _is_ceil_of_open_sizes(node, x, window):
        if include:
            none = [0] * 2
            x = g.pad(x, [*none, *window.before], [*none, *window.after])
            window.before = window.after = [0] * len(window.kernel)
        return _mean(node, x, _with_ceil(node, x, window), False)
    inputs = [node.size(x, 2 + i) for i in range(len(window.kernel))]
    real_after = list(window.after)
    window = _with_ceil(node, x, window)
    counts = _counts(window, inputs, real_after, include)
    total = sum_of_windows(node, x, window)
    return g.division(total, g.cast(g.constant(counts.astype(np.float32)), x.dtype))


def _counts(window: Window, inputs: list[int], after: list[int], include: bool) -> np.ndarray:
    """Return the number of elements that each window averages over.

    Only elements of the operand and, with `include`, of the explicit padding count.
    """
    result = np.ones((), np.int64)
    for i, n in enumerate(inputs):
        b, reach, stride, dilation = window.before[i], window.reach[i], window.strides[i], window.dilations[i]
        first = counted((n + b + window.after[i] - reach) // stride + 1, np.int64) * stride
        places = first[:, None] + counted(window.kernel[i], np.int64) * dilation
        low, high = (0, n + b + after[i]) if include else (b, n + b)
        result = result[..., None] * ((places >= low) & (places < high)).sum(1)
    return result


@operator("LpPool", upto=22)
def lp_pool(node: Node) -> Results:
    g, given, p = node.g, node.tensor(0), _power(node)
    x = node.in_float32(given)
    window = _with_ceil(node, x, window_of(node, x, node.attribute("kernel_shape")))
    powers = g.square(x) if p == 2 else g.power(g.absolute(x), float(p))
    total = sum_of_windows(node, powers, window)
    return node.cast(g.square_root(total) if p == 2 else g.power(total, 1.0 / p), given.dtype)


def _power(node: Node) -> float:
    """Return attribute p of an Lp pooling node, whose type is float in version 1 and int in later versions."""
    p: float = node.attribute("p", 2.0 if node.version == 1 else 2)
    return p


def _spatial_axes(node: Node, x: Tensor) -> list[int]:
    return list(range(2, node.rank(x)))


@operator("GlobalAveragePool", upto=22)
def global_average_pool(node: Node) -> Results:
    return node.widely(node.tensor(0), lambda x: node.g.mean(x, _spatial_axes(node, x)))


@operator("GlobalMaxPool", upto=22)
def global_max_pool(node: Node) -> Results:
    x = node.tensor(0)
    return node.g.reduction_maximum_propagate_nan(x, _spatial_axes(node, x))


@operator("GlobalLpPool", upto=22)
def global_lp_pool(node: Node) -> Results:
    g, p = node.g, _power(node)

    def of(x: Tensor) -> Tensor:
        total = g.reduction_sum(g.power(g.absolute(x), float(p)), _spatial_axes(node, x))
        return g.power(total, 1.0 / p)

    return node.widely(node.tensor(0), of)
