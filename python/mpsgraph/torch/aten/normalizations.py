"""Translations of batch, layer, group and RMS normalization. Statistics of float16 and bfloat16 inputs are float32."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..._core import Tensor
from ._table import Call, aten, shape_of


def _wide(call: Call, x: Tensor | None) -> Tensor | None:
    return None if x is None else call.in_float32(x)


def _normalized(
    call: Call, x: Tensor, mean: Tensor, variance: Tensor, gamma: Tensor | None, beta: Tensor | None, epsilon: float
) -> Tensor:
    """Normalize x with a given mean and variance, after converting these and the other operands to one dtype."""
    operands = [_wide(call, v) for v in (mean, variance, gamma, beta)]
    return call.g.normalization(x, operands[0], operands[1], operands[2], operands[3], epsilon)  # type: ignore[arg-type]


def _channels(call: Call, x: Tensor | None, rank: int) -> Any:
    return None if x is None else call.g.reshape(x, [1, -1] + [1] * (rank - 2))


@aten("layer_norm", "native_layer_norm")
def layer_norm(
    call: Call, x: Tensor, shape: Sequence[int], gamma: Tensor | None = None, beta: Tensor | None = None,
    epsilon: float = 1e-5, *_: Any,
) -> Any:  # fmt: skip
    g, rank, dtype = call.g, len(shape_of(x)), x.dtype
    axes = list(range(rank - len(shape), rank))
    wide: Any = _wide(call, x)
    mean = g.mean(wide, axes)
    variance = g.variance(wide, mean, axes)
    result = call.cast(_normalized(call, wide, mean, variance, gamma, beta, epsilon), dtype)
    if not isinstance(call.result, (tuple, list)):
        return result
    return [result, mean, g.reciprocal_square_root(variance + float(epsilon))]


@aten("group_norm", "native_group_norm")
def group_norm(call: Call, x: Tensor, *arguments: Any) -> Any:
    g, sizes = call.g, shape_of(x)
    if call.name == "native_group_norm":
        gamma, beta, _, _, _, groups, epsilon = arguments
    else:
        groups, gamma, beta, epsilon = (*arguments, *(None, None, 1e-5)[len(arguments) - 1 :])[:4]
    wide: Any = _wide(call, x)
    parts = g.reshape(wide, [sizes[0], groups, -1])
    mean = g.mean(parts, 2)
    variance = g.variance(parts, mean, 2)
    result = g.reshape(g.normalization(parts, mean, variance, epsilon=epsilon), sizes)
    if gamma is not None:
        result = result * _channels(call, _wide(call, gamma), len(sizes))
    if beta is not None:
        result = result + _channels(call, _wide(call, beta), len(sizes))
    result = call.cast(result, x.dtype)
    if not isinstance(call.result, (tuple, list)):
        return result
    inverse = g.reciprocal_square_root(variance + float(epsilon))
    return [result, g.reshape(mean, [sizes[0], groups]), g.reshape(inverse, [sizes[0], groups])]


@aten("rms_norm")
def rms_norm(
    call: Call, x: Tensor, shape: Sequence[int], gamma: Tensor | None = None, epsilon: float | None = None
) -> Tensor:
    g, rank, dtype = call.g, len(shape_of(x)), x.dtype
    wide: Any = _wide(call, x)
    if epsilon is None:
        epsilon = 2.220446049250313e-16 if dtype.itemsize == 8 else 1.1920928955078125e-07
    scale = g.mean(g.square(wide), list(range(rank - len(shape), rank))) + float(epsilon)
    result = wide * g.reciprocal_square_root(scale)
    if gamma is not None:
        result = result * _wide(call, gamma)
    return call.cast(result, dtype)


def _batch(
    call: Call, x: Tensor, gamma: Any, beta: Any, running_mean: Any, running_variance: Any, training: bool,
    momentum: float, epsilon: float,
) -> tuple[Tensor, Tensor, Tensor, Any, Any]:  # fmt: skip
    """Apply batch normalization.

    Returns the result, the mean and variance that were used, each of shape (channels,), and the updated running
    averages.
    """
    g, sizes, dtype = call.g, shape_of(x), x.dtype
    wide: Any = _wide(call, x)
    if not training:
        mean, variance = (_channels(call, v, len(sizes)) for v in (running_mean, running_variance))
        result = _normalized(
            call, wide, mean, variance, _channels(call, gamma, len(sizes)), _channels(call, beta, len(sizes)), epsilon
        )  # type: ignore[arg-type]
        return call.cast(result, dtype), running_mean, running_variance, running_mean, running_variance
    axes = [axis for axis in range(len(sizes)) if axis != 1]
    mean = g.mean(wide, axes)
    variance = g.variance(wide, mean, axes)
    result = _normalized(
        call, wide, mean, variance, _channels(call, gamma, len(sizes)), _channels(call, beta, len(sizes)), epsilon
    )
    flat_mean, flat_variance = g.reshape(mean, [-1]), g.reshape(variance, [-1])
    if running_mean is not None:
        count = math.prod(sizes[axis] for axis in axes)
        unbiased = flat_variance * (count / max(count - 1, 1))
        running_mean = running_mean * (1.0 - momentum) + flat_mean * momentum
        running_variance = running_variance * (1.0 - momentum) + unbiased * momentum
    return call.cast(result, dtype), flat_mean, flat_variance, running_mean, running_variance


@aten("batch_norm")
def batch_norm(call: Call, x: Tensor, gamma: Any, beta: Any, mean: Any, variance: Any, training: bool, momentum: float,
               epsilon: float, *_: Any) -> Tensor:  # fmt: skip
    if training and mean is not None:
        call.refuse(
            "training with running averages is not supported here, because this operation updates the averages in place"
        )
    return _batch(call, x, gamma, beta, mean, variance, training, momentum, epsilon)[0]


def _saved(call: Call, mean: Tensor, variance: Tensor, epsilon: float, training: bool) -> list[Tensor]:
    if not training:
        return [call.g.constant(0.0, (0,), mean.dtype)] * 2
    return [mean, call.g.reciprocal_square_root(variance + float(epsilon))]


@aten("_native_batch_norm_legit_functional")
def batch_norm_functional(
    call: Call, x: Tensor, gamma: Any, beta: Any, mean: Any, variance: Any, training: bool, momentum: float,
    epsilon: float,
) -> list[Any]:  # fmt: skip
    result, used, spread, *moved = _batch(call, x, gamma, beta, mean, variance, training, momentum, epsilon)
    return [result, *_saved(call, used, spread, epsilon, training), *moved]


@aten("_native_batch_norm_legit_no_training")
def batch_norm_inference(
    call: Call, x: Tensor, gamma: Any, beta: Any, mean: Any, variance: Any, momentum: float, epsilon: float
) -> list[Any]:
    result, used, spread, *_ = _batch(call, x, gamma, beta, mean, variance, False, momentum, epsilon)
    return [result, *_saved(call, used, spread, epsilon, False)]
