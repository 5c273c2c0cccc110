"""Sliding windows, computed as in src/core/ops/window.h, and access to their elements one filter tap at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ._table import Value


@dataclass(frozen=True)
class Window:
    """One windowed axis of an image or tensor, with its padding and the number of window positions along it."""

    axis: int
    input: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int
    output: int
    overhang: int
    """Number of elements by which the last window extends past the end padding."""

    @property
    def padding(self) -> tuple[int, int]:
        """The padding before the axis, and the padding after it, extended so that the last window fits."""
        return self.begin, self.end + self.overhang


def windows_of(attributes: Mapping[str, Any], source: Sequence[int], kernel: Sequence[int]) -> list[Window]:
    """Return one Window per windowed axis, in the order of the axis indices."""
    padding, style = attributes["padding"], attributes.get("padding_style", "EXPLICIT")
    axes = spatial_axes(attributes, len(source))
    made = []
    for i, axis in enumerate(axes):
        size, taps, stride, dilation = source[axis], kernel[i], attributes["strides"][i], attributes["dilations"][i]
        reach = (taps - 1) * dilation + 1
        begin = end = overhang = 0
        if style in ("TF_SAME", "ONNX_SAME_LOWER"):
            output = -(-size // stride)
            total = max((output - 1) * stride + reach - size, 0)
            smaller, larger = (total // 2, total - total // 2) if output else (0, 0)
            begin, end = (smaller, larger) if style == "TF_SAME" else (larger, smaller)
        else:
            if style == "EXPLICIT":
                begin, end = padding[2 * i], padding[2 * i + 1]
            room = size + begin + end - reach
            output = room // stride + 1 if room >= 0 else 0
            if attributes.get("ceil_mode") and room >= 0 and room % stride and output * stride < size + begin:
                output += 1
            overhang = max((output - 1) * stride - room, 0) if room >= 0 else 0
        made.append(Window(axis, size, taps, stride, dilation, begin, end, output, overhang))
    return made


def channel_axis(attributes: Mapping[str, Any]) -> int:
    """Return the channel axis, counted from the end, or 0 if there is none."""
    if "data_layout" in attributes:
        return -1 if attributes["data_layout"].endswith("C") else -1 - len(attributes["padding"]) // 2
    return int(attributes.get("channel_dimension_index", 0))


def spatial_axes(attributes: Mapping[str, Any], rank: int) -> list[int]:
    """Return the non-negative indices of the windowed axes."""
    channel, count = channel_axis(attributes), len(attributes["padding"]) // 2
    named = count + (channel != 0)
    return [rank + axis for axis in range(-named, 0) if axis != channel]


def taps_of(windows: Sequence[Window]) -> Iterator[tuple[int, ...]]:
    """Yield the tap positions of a window in row-major order."""
    return itertools.product(*(range(window.kernel) for window in windows))


def seen(x: Value, windows: Sequence[Window], tap: Sequence[int], fill: Any) -> Value:
    """Return, for each window, the source element at one filter tap, or `fill` if the tap is outside the source."""
    low, high, strides = [0] * x.ndim, [0] * x.ndim, [1] * x.ndim
    for window, place in zip(windows, tap, strict=True):
        first = place * window.dilation - window.begin
        last = first + (window.output - 1) * window.stride
        low[window.axis], high[window.axis] = -first, last + 1 - window.input
        strides[window.axis] = window.stride
        if window.output == 0:
            low[window.axis], high[window.axis] = 0, -window.input
    cut = lax.pad(x, jnp.asarray(fill, x.dtype), [(a, b, 0) for a, b in zip(low, high, strict=True)])
    return lax.slice(cut, [0] * x.ndim, cut.shape, strides)


def put_back(x: Value, windows: Sequence[Window], tap: Sequence[int], source: Sequence[int]) -> Value:
    """Add up values, one per window, at the source positions of one filter tap. This is the transpose of `seen`."""
    sizes = [(0, 0, 0)] * x.ndim
    for window, place in zip(windows, tap, strict=True):
        first = place * window.dilation - window.begin
        last = first + (window.output - 1) * window.stride
        sizes[window.axis] = (first, window.input - 1 - last, window.stride - 1)
        if window.output == 0:
            sizes[window.axis] = (window.input, 0, 0)
    return lax.pad(x, jnp.zeros((), x.dtype), sizes)


def adjoint(function: Callable[[Value], Value], shape: Sequence[int], incoming: Value) -> Value:
    """Return the transpose of a linear function of an array of the given shape, applied to the incoming gradient."""
    return jax.linear_transpose(function, jax.ShapeDtypeStruct(tuple(shape), incoming.dtype))(jnp.asarray(incoming))[0]
