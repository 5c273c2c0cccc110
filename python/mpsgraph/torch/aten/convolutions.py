"""Translations of plain and transposed convolutions in one to three dimensions, in PyTorch's layouts NCHW and OIHW."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import Tensor
from ._table import Call, aten, pair, shape_of

Window = int | Sequence[int]


def with_bias(call: Call, x: Tensor, bias: Tensor | None) -> Tensor:
    if bias is None:
        return x
    rank = len(shape_of(x))
    return x + call.g.reshape(bias, [1, -1] + [1] * (rank - 2))


def convolved(
    call: Call, x: Tensor, weight: Tensor, stride: Window, padding: Any, dilation: Window, groups: int
) -> Tensor:
    g, count = call.g, len(shape_of(weight)) - 2
    strides, dilations = pair(stride, count), pair(dilation, count)
    if padding == "valid":
        pads = [(0, 0)] * count
    elif padding == "same":
        totals = [d * (k - 1) for d, k in zip(dilations, shape_of(weight)[2:], strict=True)]
        pads = [(t // 2, t - t // 2) for t in totals]
    else:
        pads = [(p, p) for p in pair(padding, count)]
    if count == 3:
        return g.convolution3d(
            x, weight, strides=strides, dilations=dilations, groups=groups, padding=pads,
            data_layout="NCDHW", weights_layout="OIDHW",
        )  # fmt: skip
    flat = count == 1
    if flat:
        x, weight = g.expand_dims(x, 2), g.expand_dims(weight, 2)
        strides, dilations, pads = [1, *strides], [1, *dilations], [(0, 0), *pads]
    result = g.convolution2d(
        x, weight, strides=strides, dilations=dilations, groups=groups, padding=pads,
        data_layout="NCHW", weights_layout="OIHW",
    )  # fmt: skip
    return g.squeeze(result, 2) if flat else result


def transposed(
    call: Call, x: Tensor, weight: Tensor, stride: Window, padding: Window, dilation: Window, groups: int,
    sizes: Sequence[int],
) -> Tensor:  # fmt: skip
    """Compute a transposed convolution, the gradient of a convolution with respect to the convolution's input."""
    g, count = call.g, len(shape_of(weight)) - 2
    strides, dilations = pair(stride, count), pair(dilation, count)
    pads = [(p, p) for p in pair(padding, count)]
    if count == 3:
        return g.convolution3d_data_gradient(
            x, weight, sizes, strides=strides, dilations=dilations, groups=groups, padding=pads,
            data_layout="NCDHW", weights_layout="OIDHW",
        )  # fmt: skip
    flat = count == 1
    if flat:
        x, weight, sizes = g.expand_dims(x, 2), g.expand_dims(weight, 2), [*sizes[:2], 1, *sizes[2:]]
        strides, dilations, pads = [1, *strides], [1, *dilations], [(0, 0), *pads]
    result = g.convolution2d_data_gradient(
        x, weight, sizes, strides=strides, dilations=dilations, groups=groups, padding=pads,
        data_layout="NCHW", weights_layout="OIHW",
    )  # fmt: skip
    return g.squeeze(result, 2) if flat else result


def weights_gradient(
    call: Call, incoming: Tensor, x: Tensor, sizes: Sequence[int], stride: Window, padding: Window, dilation: Window,
    groups: int,
) -> Tensor:  # fmt: skip
    """Return the gradient of a convolution with respect to its weights, whose shape is `sizes`."""
    g, count = call.g, len(sizes) - 2
    strides, dilations = pair(stride, count), pair(dilation, count)
    pads = [(p, p) for p in pair(padding, count)]
    if count == 3:
        return g.convolution3d_weights_gradient(
            incoming, x, list(sizes), strides=strides, dilations=dilations, groups=groups, padding=pads,
            data_layout="NCDHW", weights_layout="OIDHW",
        )  # fmt: skip
    flat = count == 1
    if flat:
        incoming, x, sizes = g.expand_dims(incoming, 2), g.expand_dims(x, 2), [*sizes[:2], 1, *sizes[2:]]
        strides, dilations, pads = [1, *strides], [1, *dilations], [(0, 0), *pads]
    result = g.convolution2d_weights_gradient(
        incoming, x, list(sizes), strides=strides, dilations=dilations, groups=groups, padding=pads,
        data_layout="NCHW", weights_layout="OIHW",
    )  # fmt: skip
    return g.squeeze(result, 2) if flat else result


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
        sizes = [1, *call.shape] if alone else call.shape
        found = transposed(call, x, weight, stride, padding, dilation, groups, sizes)
    else:
        found = convolved(call, x, weight, stride, padding, dilation, groups)
    return with_bias(call, found, bias)


@aten("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(
    call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Window = 1, padding: Window = 0,
    output_padding: Window = 0, groups: int = 1, dilation: Window = 1,
) -> Tensor:  # fmt: skip
    alone, x = len(shape_of(x)) != len(shape_of(weight)), batched(call, x, weight)
    sizes = [1, *call.shape] if alone else call.shape
    return with_bias(call, transposed(call, x, weight, stride, padding, dilation, groups, sizes), bias)
