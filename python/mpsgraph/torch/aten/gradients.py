"""Gradients that PyTorch has as operations of their own. AOTAutograd derives them; others it decomposes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import Tensor, float32
from ._table import Call, aten, pair, shape_of
from .convolutions import Window, convolved, transposed
from .gathering import from_front


@aten("convolution_backward")
def convolution_backward(
    call: Call, incoming: Tensor, x: Tensor, weight: Tensor, bias_sizes: Any, stride: Window, padding: Window,
    dilation: Window, turned: bool, output_padding: Window, groups: int, wanted: Sequence[bool],
) -> list[Tensor | None]:  # fmt: skip
    g, count = call.g, len(shape_of(weight)) - 2
    if count != 2 or len(shape_of(x)) != 4:
        call.refuse("in one or three dimensions")
    shared: dict[str, Any] = {
        "strides": pair(stride),
        "dilations": pair(dilation),
        "groups": groups,
        "padding": [(p, p) for p in pair(padding)],
        "data_layout": "NCHW",
        "weights_layout": "OIHW",
    }
    to_x = to_weight = to_bias = None
    if wanted[0]:
        if turned:
            to_x = convolved(call, incoming, weight, stride, padding, dilation, groups)
        else:
            to_x = transposed(call, incoming, weight, stride, padding, dilation, groups, shape_of(x))
    if wanted[1]:
        # A transposed convolution's source plays the part of the other's gradient.
        arriving, source = (x, incoming) if turned else (incoming, x)
        to_weight = g.convolution2d_weights_gradient(arriving, source, shape_of(weight), **shared)
    if wanted[2]:
        to_bias = g.reshape(g.reduction_sum(incoming, [0, 2, 3]), [-1])
    return [to_x, to_weight, to_bias]


def _gradients_of(call: Call, result: Tensor, incoming: Tensor, operands: list[Tensor]) -> list[Tensor]:
    """What the graph derives itself, with a gradient that arrives."""
    found = call.g.gradients(result, operands, start=incoming)
    return [found[x] for x in operands]


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
        count = 1
        for axis in axes:
            count *= shape_of(x)[axis]
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


@aten("max_pool2d_with_indices")
def max_pool2d_with_indices(
    call: Call, x: Tensor, kernel: Window, stride: Window = (), padding: Window = 0, dilation: Window = 1,
    ceil_mode: bool = False,
) -> list[Tensor]:  # fmt: skip
    if len(shape_of(x)) != 4:
        call.refuse("without a batch")
    values, places = call.g.max_pooling2d_return_indices(
        x, pair(kernel), pair(stride or kernel), padding=[(p, p) for p in pair(padding)], dilations=pair(dilation),
        data_layout="NCHW", ceil_mode=ceil_mode, return_indices_mode="global_flatten_2d",
    )  # fmt: skip
    return [values, call.g.cast(places, "int64")]


@aten("max_pool2d_with_indices_backward")
def max_pool2d_with_indices_backward(
    call: Call, incoming: Tensor, x: Tensor, kernel: Window, stride: Window, padding: Window, dilation: Window,
    ceil_mode: bool, indices: Tensor,
) -> Tensor:  # fmt: skip
    """From the source: it finds the first largest element of each window again, as the places say."""
    return call.g.max_pooling2d_gradient(
        incoming, x, pair(kernel), pair(stride or kernel), padding=[(p, p) for p in pair(padding)],
        dilations=pair(dilation), data_layout="NCHW", ceil_mode=ceil_mode,
    )  # fmt: skip


@aten("avg_pool2d_backward")
def avg_pool2d_backward(
    call: Call, incoming: Tensor, x: Tensor, kernel: Window, stride: Window, padding: Window, ceil_mode: bool,
    count_include_pad: bool, divisor_override: Any,
) -> Tensor:  # fmt: skip
    from .pooling import avg_pool2d

    forward = avg_pool2d(call, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _gradients_of(call, forward, incoming, [x])[0]


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
        call.refuse("by frequency")
    g, size = call.g, shape_of(incoming)[-1]
    flat = from_front(call, g.reshape(indices, [-1]), count)
    updates = g.reshape(incoming, [-1, size])
    if padding >= 0:
        kept = g.expand_dims(g.not_equal(flat, padding), -1)
        updates = g.select(kept, updates, call.cast(0.0, incoming.dtype))
    return g.scatter(updates, flat, 0, shape=[count, size], out_of_range="error")


@aten("threshold_backward")
def threshold_backward(call: Call, incoming: Tensor, x: Tensor, limit: float) -> Tensor:
    return call.g.select(call.g.greater_than(x, call.cast(limit, x.dtype)), incoming, call.cast(0.0, incoming.dtype))
