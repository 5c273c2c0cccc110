"""Translations of plain and transposed convolutions in one to three dimensions, in PyTorch's layouts NCHW and OIHW."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import Tensor
from ...interchange import windows
from ._table import Call, aten, pair, shape_of

Window = int | Sequence[int]


def with_bias(call: Call, x: Tensor, bias: Tensor | None) -> Tensor:
    if bias is None:
        return x
    rank = len(shape_of(x))
    return x + call.g.reshape(bias, [1, -1] + [1] * (rank - 2))


def _window(weights: Sequence[int], stride: Window, padding: Any, dilation: Window) -> windows.Window:
    kernel, count = list(weights[2:]), len(weights) - 2
    window = windows.Window(kernel, pair(stride, count), pair(dilation, count), [0] * count, [0] * count)
    if padding == "same":
        window.before, window.after = windows.halves([reach - 1 for reach in window.reach], "TF_SAME")
    elif padding != "valid":
        window.before = window.after = pair(padding, count)
    return window


def convolved(
    call: Call, x: Tensor, weight: Tensor, stride: Window, padding: Any, dilation: Window, groups: int
) -> Tensor:
    return windows.convolved(call, x, weight, _window(shape_of(weight), stride, padding, dilation), groups)


def _gradient(
    call: Call, a: Tensor, b: Tensor, sizes: Sequence[int], window: windows.Window, methods: Any, groups: int
) -> Tensor:
    """Compute a gradient of a convolution with respect to a tensor of shape `sizes`."""
    method, how = windows.of_axes(call, window, *methods)
    sizes = [*sizes[:2], *windows.pair(sizes[2:], 1)]
    found = method(windows.planar(call, a), windows.planar(call, b), sizes, **how, groups=groups)
    return windows.like_before(call, found, window)


def transposed(
    call: Call, x: Tensor, weight: Tensor, sizes: Sequence[int], stride: Window, padding: Window, dilation: Window,
    groups: int,
) -> Tensor:  # fmt: skip
    """Compute a transposed convolution, the gradient of a convolution with respect to the convolution's input."""
    methods = (call.g.convolution2d_data_gradient, call.g.convolution3d_data_gradient)
    return _gradient(call, x, weight, sizes, _window(shape_of(weight), stride, padding, dilation), methods, groups)


def weights_gradient(
    call: Call, incoming: Tensor, x: Tensor, sizes: Sequence[int], stride: Window, padding: Window, dilation: Window,
    groups: int,
) -> Tensor:  # fmt: skip
    """Return the gradient of a convolution with respect to its weights, whose shape is `sizes`."""
    methods = (call.g.convolution2d_weights_gradient, call.g.convolution3d_weights_gradient)
    return _gradient(call, incoming, x, sizes, _window(sizes, stride, padding, dilation), methods, groups)


def batched(call: Call, x: Tensor, weight: Tensor) -> Tensor:
    """Return x, with a batch axis of size 1 added if it lacks a batch axis."""
    return x if len(shape_of(x)) == len(shape_of(weight)) else call.g.expand_dims(x, 0)


@aten("conv1d", "conv2d", "conv3d")
def conv(
    call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Window = 1, padding: Any = 0,
    dilation: Window = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    x = batched(call, x, weight)
    return with_bias(call, convolved(call, x, weight, stride, padding, dilation, groups), bias)


@aten("convolution")
def convolution(
    call: Call, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Window, padding: Window, dilation: Window,
    turned: bool, output_padding: Window, groups: int,
) -> Tensor:  # fmt: skip
    alone, x = len(shape_of(x)) != len(shape_of(weight)), batched(call, x, weight)
    if turned:
        sizes = [1, *call.sizes] if alone else call.sizes
        found = transposed(call, x, weight, sizes, stride, padding, dilation, groups)
    else:
        found = convolved(call, x, weight, stride, padding, dilation, groups)
    return with_bias(call, found, bias)


@aten("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(
    call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Window = 1, padding: Window = 0,
    output_padding: Window = 0, groups: int = 1, dilation: Window = 1,
) -> Tensor:  # fmt: skip
    alone, x = len(shape_of(x)) != len(shape_of(weight)), batched(call, x, weight)
    sizes = [1, *call.sizes] if alone else call.sizes
    return with_bias(call, transposed(call, x, weight, sizes, stride, padding, dilation, groups), bias)
