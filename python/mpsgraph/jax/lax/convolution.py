"""Lowerings of plain, grouped, and depthwise convolutions over two and three axes, im_to_col, and col_to_im.

JAX's transposition derives the gradients of the convolutions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ._table import Step, Value, lowers, static
from ._windows import Window, adjoint, channel_axis, put_back, seen, spatial_axes, taps_of, windows_of

Convolution = Callable[[Value, Value], Value]


def _plain(attributes: Mapping[str, Any], source: Sequence[int], weights: Sequence[int], precision: Any) -> Convolution:
    layout = attributes["weights_layout"]
    spatial = "DHW"[-(len(layout) - 2) :]
    windows = windows_of(attributes, source, [weights[layout.index(axis)] for axis in spatial])
    data = attributes["data_layout"]
    numbers = lax.conv_dimension_numbers(source, weights, (data, layout, data))

    def convolve(x: Value, w: Value) -> Value:
        return lax.conv_general_dilated(
            x, w, [v.stride for v in windows], [(v.begin, v.end) for v in windows],
            rhs_dilation=[v.dilation for v in windows], dimension_numbers=numbers,
            feature_group_count=attributes["groups"], precision=precision,
        )  # fmt: skip

    return convolve


def _depthwise2d(
    attributes: Mapping[str, Any], source: Sequence[int], weights: Sequence[int], precision: Any
) -> Convolution:
    """Return the function that computes a depthwise convolution over two axes, with one group per channel."""
    layout, data = attributes["weights_layout"], attributes["data_layout"]
    windows = windows_of(attributes, source, [weights[layout.index(axis)] for axis in "HW"])
    channels, outputs = weights[layout.index("I")], weights[layout.index("O")]
    height, width = (weights[layout.index(axis)] for axis in "HW")
    grouped = (height, width, 1, channels * outputs)
    numbers = lax.conv_dimension_numbers(source, grouped, (data, "HWIO", data))

    def convolve(x: Value, w: Value) -> Value:
        w = jnp.transpose(w, [layout.index(axis) for axis in "HWIO"]).reshape(grouped)
        return lax.conv_general_dilated(
            x, w, [v.stride for v in windows], [(v.begin, v.end) for v in windows],
            rhs_dilation=[v.dilation for v in windows], dimension_numbers=numbers,
            feature_group_count=channels, precision=precision,
        )  # fmt: skip

    return convolve


def _depthwise3d(
    attributes: Mapping[str, Any], source: Sequence[int], weights: Sequence[int], precision: Any
) -> Convolution:
    """Return the function that computes a depthwise convolution over three of the last four axes.

    The remaining one of these axes is the channel axis.
    """
    channel, rank = channel_axis(attributes), len(source)
    axes = spatial_axes(attributes, rank)
    windows = windows_of(attributes, source, [weights[axis - rank + 4] for axis in axes])
    batch, order = list(range(rank - 4)), [*axes, rank + channel]
    channels = source[rank + channel]
    numbers = lax.conv_dimension_numbers((1,) * 5, (1,) * 5, ("NDHWC", "DHWIO", "NDHWC"))
    forth = [*batch, *order]
    back = [forth.index(axis) for axis in range(rank)]

    def convolve(x: Value, w: Value) -> Value:
        x = jnp.transpose(x, forth)
        leading = x.shape[: rank - 4]
        images = x.reshape((-1 if all(x.shape) else 0, *x.shape[rank - 4 :])) if rank != 5 else x
        w = jnp.transpose(w, [axis - rank + 4 for axis in order])
        y = lax.conv_general_dilated(
            images, w.reshape((*w.shape[:3], 1, w.shape[3])), [v.stride for v in windows],
            [(v.begin, v.end) for v in windows], rhs_dilation=[v.dilation for v in windows],
            dimension_numbers=numbers, feature_group_count=channels, precision=precision,
        )  # fmt: skip
        return jnp.transpose(y.reshape((*leading, *y.shape[1:])), back)

    return convolve


_FORMS = {
    "convolution2d": _plain,
    "convolution3d": _plain,
    "depthwise_convolution2d": _depthwise2d,
    "depthwise_convolution3d": _depthwise3d,
}


def _form(step: Step, source: Sequence[int], weights: Sequence[int]) -> Convolution:
    kind = step.kind.removesuffix("_data_gradient").removesuffix("_weights_gradient")
    return _FORMS[kind](step.attributes, tuple(source), tuple(weights), step.trace.precision)


def _is_empty(*shapes: Sequence[int]) -> bool:
    return any(0 in shape for shape in shapes)


@lowers(*_FORMS)
def convolution(step: Step, source: Value, weights: Value) -> Value:
    """Compute a convolution as machine learning defines it, without flipping the weights."""
    if _is_empty(source.shape, weights.shape, step.shape):
        return jnp.zeros(step.shape, step.dtype)
    return _form(step, source.shape, weights.shape)(jnp.asarray(source), jnp.asarray(weights))


@lowers(*(f"{kind}_data_gradient" for kind in _FORMS))
def data_gradient(step: Step, incoming: Value, weights: Value, _: Value) -> Value:
    """Return the gradient of a convolution with respect to its source."""
    if _is_empty(incoming.shape, weights.shape, step.shape):
        return jnp.zeros(step.shape, step.dtype)
    form = _form(step, step.shape, weights.shape)
    return adjoint(lambda x: form(x, jnp.asarray(weights)), step.shape, incoming)


@lowers(*(f"{kind}_weights_gradient" for kind in _FORMS))
def weights_gradient(step: Step, incoming: Value, source: Value, _: Value) -> Value:
    """Return the gradient of a convolution with respect to its weights."""
    if _is_empty(incoming.shape, source.shape, step.shape):
        return jnp.zeros(step.shape, step.dtype)
    form = _form(step, source.shape, step.shape)
    return adjoint(lambda w: form(jnp.asarray(source), w), step.shape, incoming)


# --- patches ----------------------------------------------------------------------------------------------------------


def _patches(x: Value, windows: Sequence[Window], last: bool) -> Value:
    """Return patches with layout [n, (y, x), (ky, kx, c)] for NHWC, or [n, (c, ky, kx), (y, x)] for NCHW.

    Axes in parentheses are merged.
    """
    taps = [seen(x, windows, tap, 0) for tap in taps_of(windows)]
    together = jnp.stack(taps, axis=3 if last else 2)
    shape = together.shape
    if last:  # The axes are n, y, x, taps, c.
        return together.reshape(shape[0], shape[1] * shape[2], shape[3] * shape[4])
    return together.reshape(shape[0], shape[1] * shape[2], shape[3] * shape[4])  # The axes are n, c, taps, y, x.


@lowers("im_to_col")
def im_to_col(step: Step, source: Value) -> Value:
    """Arrange the windows of an image as columns of a matrix, so that a convolution becomes a matmul."""
    windows = windows_of(step.attributes, source.shape, step["kernel"])
    return _patches(jnp.asarray(source), windows, channel_axis(step.attributes) == -1)


@lowers("col_to_im")
def col_to_im(step: Step, columns: Value, shape: Value) -> Value:
    """Add each column, which holds the elements of one window, to the image at the position of that window."""
    image = static(shape, step, "the shape")
    windows = windows_of(step.attributes, image, step["kernel"])
    last = channel_axis(step.attributes) == -1
    taps = len(list(taps_of(windows)))
    height, width = (window.output for window in windows)
    if last:
        parts = jnp.asarray(columns).reshape(image[0], height, width, taps, image[3])
    else:
        parts = jnp.asarray(columns).reshape(image[0], image[1], taps, height, width)
    total = jnp.zeros(step.shape, step.dtype)
    for number, tap in enumerate(taps_of(windows)):
        part = jax.lax.index_in_dim(parts, number, 3 if last else 2, keepdims=False)
        total = total + put_back(part, windows, tap, image)
    return total
