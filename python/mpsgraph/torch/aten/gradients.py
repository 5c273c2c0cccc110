"""Translations of gradients for which ATen has separate operations.

AOTAutograd uses these operations in backward graphs. PyTorch decomposes all other gradients into plain operations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..._core import Tensor, float32
from ._table import Call, aten, composed, shape_of
from .convolutions import Window, convolved, transposed, weights_gradient


@aten("convolution_backward")
def convolution_backward(
    call: Call, incoming: Tensor, x: Tensor, weight: Tensor, bias_sizes: Any, stride: Window, padding: Window,
    dilation: Window, turned: bool, output_padding: Window, groups: int, wanted: Sequence[bool],
) -> list[Tensor | None]:  # fmt: skip
    g, count, sizes = call.g, len(shape_of(weight)) - 2, shape_of(x)
    if len(sizes) == count + 1:  # The input has no batch axis, so one is added.
        incoming, x = g.expand_dims(incoming, 0), g.expand_dims(x, 0)
    to_x = to_weight = to_bias = None
    if wanted[0]:
        if turned:
            to_x = convolved(call, incoming, weight, stride, padding, dilation, groups)
        else:
            to_x = transposed(call, incoming, weight, shape_of(x), stride, padding, dilation, groups)
        to_x = g.reshape(to_x, sizes)
    if wanted[1]:
        # In a transposed convolution, the input and the incoming gradient exchange roles.
        arriving, source = (x, incoming) if turned else (incoming, x)
        to_weight = weights_gradient(call, arriving, source, shape_of(weight), stride, padding, dilation, groups)
    if wanted[2]:
        to_bias = g.reshape(g.reduction_sum(incoming, [0, *range(2, count + 2)]), [-1])
    return [to_x, to_weight, to_bias]


@aten("native_batch_norm_backward")
def native_batch_norm_backward(
    call: Call, incoming: Tensor, x: Tensor, gamma: Any, running_mean: Any, running_variance: Any, mean: Any,
    inverse: Any, training: bool, epsilon: float, wanted: Sequence[bool],
) -> list[Tensor | None]:  # fmt: skip
    g, rank, dtype = call.g, len(shape_of(x)), x.dtype
    if dtype.itemsize == 2:
        x, incoming = g.cast(x, float32), g.cast(incoming, float32)
    axes = [axis for axis in range(rank) if axis != 1]
    wide = [1, -1] + [1] * (rank - 2)
    if not training:
        mean, inverse = running_mean, g.reciprocal_square_root(running_variance + float(epsilon))
    mean, inverse = g.reshape(mean, wide), g.reshape(inverse, wide)
    centred = (x - mean) * inverse
    to_beta = g.reduction_sum(incoming, axes)
    to_gamma = g.reduction_sum(incoming * centred, axes)
    scale = inverse if gamma is None else inverse * g.reshape(gamma, wide)
    if training:
        count = math.prod(shape_of(x)[axis] for axis in axes)
        to_x = scale * (incoming - (to_beta + centred * to_gamma) * (1.0 / count))
    else:
        to_x = incoming * scale
    return [call.cast(to_x, dtype), g.reshape(to_gamma, [-1]), g.reshape(to_beta, [-1])]


@aten("native_layer_norm_backward")
def native_layer_norm_backward(
    call: Call, incoming: Tensor, x: Tensor, shape: Sequence[int], mean: Tensor, inverse: Tensor, gamma: Any,
    beta: Any, wanted: Sequence[bool],
) -> list[Tensor | None]:  # fmt: skip
    g, rank, dtype = call.g, len(shape_of(x)), x.dtype
    if dtype.itemsize == 2:
        x, incoming = g.cast(x, float32), g.cast(incoming, float32)
    inner, outer = list(range(rank - len(shape), rank)), list(range(rank - len(shape)))
    centred = (x - mean) * inverse
    scaled = incoming if gamma is None else incoming * call.cast(gamma, incoming.dtype)
    to_x = inverse * (scaled - g.mean(scaled, inner) - centred * g.mean(scaled * centred, inner))

    def summed(y: Tensor) -> Tensor:
        return g.reshape(g.reduction_sum(y, outer) if outer else y, list(shape))

    to_gamma = summed(incoming * centred) if wanted[1] else None
    return [call.cast(to_x, dtype), to_gamma, summed(incoming) if wanted[2] else None]


@aten("_softmax_backward_data")
def softmax_backward(call: Call, incoming: Tensor, result: Tensor, axis: int, dtype: Any) -> Tensor:
    weighed = incoming * result
    return weighed - result * call.g.reduction_sum(weighed, axis) if result.shape else weighed - result * weighed


@aten("_log_softmax_backward_data")
def log_softmax_backward(call: Call, incoming: Tensor, result: Tensor, axis: int, dtype: Any) -> Tensor:
    total = call.g.reduction_sum(incoming, axis) if result.shape else incoming
    return incoming - call.g.exponent(result) * total


@aten("embedding_dense_backward")
def embedding_dense_backward(
    call: Call, incoming: Tensor, indices: Tensor, count: int, padding: int, by_frequency: bool
) -> Tensor:
    if by_frequency:
        call.refuse("scale_grad_by_freq=True is not supported")
    g, size = call.g, shape_of(incoming)[-1]
    if padding >= 0:
        kept = g.expand_dims(g.not_equal(indices, padding), -1)
        incoming = g.select(kept, incoming, call.cast(0.0, incoming.dtype))
    return g.gather_gradient(incoming, indices, [count, size], out_of_range="error")


@aten("threshold_backward")
def threshold_backward(call: Call, incoming: Tensor, x: Tensor, limit: float) -> Tensor:
    return call.g.select(call.g.greater_than(x, call.cast(limit, x.dtype)), incoming, call.cast(0.0, incoming.dtype))


@composed("replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward")
def replication_pad_backward(incoming: Any, x: Any, pads: Sequence[int]) -> Any:
    """Return the gradient of replication padding.

    The gradients of padded elements are added to that of the element that they repeat, one axis at a time.
    """
    for i in range(len(pads) // 2):
        axis, size = x.dim() - 1 - i, x.shape[x.dim() - 1 - i]
        places = torch.clamp(torch.arange(incoming.shape[axis]) - pads[2 * i], 0, size - 1)
        if pads[2 * i] < 0 or pads[2 * i + 1] < 0:
            places = torch.arange(-min(pads[2 * i], 0), incoming.shape[axis] - min(pads[2 * i], 0)) - max(
                pads[2 * i], 0
            )
            places = torch.clamp(places, 0, size - 1)
        shape = list(incoming.shape)
        shape[axis] = size
        incoming = torch.zeros(shape, dtype=incoming.dtype).index_add(axis, places, incoming)
    return incoming
