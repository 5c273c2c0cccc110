"""Translations of maximum, average, and L2 pooling over one to three spatial axes."""

from __future__ import annotations

import math
from typing import Any

from ..._core import Tensor
from ...interchange.windows import pooled
from .._operation import Call, Results, mil
from .convolutions import window_of


def _pooled(call: Call, x: Tensor, plane: Any, space: Any, **more: Any) -> Tensor:
    """Apply a pooling method over as many spatial axes as there are kernel sizes."""
    kernel = call.ints("kernel_sizes")
    if len(kernel) != call.rank(x) - 2:
        call.refuse(f"kernel_sizes must have one entry per spatial axis of x {x.shape}, got {len(kernel)}")
    window = window_of(call, kernel)
    y: Tensor = pooled(call, x, window, plane, space, ceil_mode=call.flag("ceil_mode", False), **more)
    return y


@mil("max_pool")
def max_pool(call: Call) -> Results:
    return _pooled(call, call.tensor("x"), call.g.max_pooling2d, call.g.max_pooling4d)


@mil("avg_pool")
def avg_pool(call: Call) -> Results:
    alone = call.flag("exclude_padding_from_average", False)
    if not alone and call.flag("ceil_mode", False):
        _require_whole_windows(call)
    mean = call.widely(call.tensor("x"), lambda x: _mean(call, x, not alone))
    return mean


def _mean(call: Call, x: Tensor, padded: bool) -> Tensor:
    return _pooled(call, x, call.g.avg_pooling2d, call.g.avg_pooling4d, include_zero_pad_to_average=padded)


def _require_whole_windows(call: Call) -> None:
    """Reject windows that extend past the padding.

    Core ML does not specify whether elements past the padding count in the average.
    """
    window = window_of(call, call.ints("kernel_sizes"))
    for i, (span, s, b, a) in enumerate(zip(window.kernel, window.strides, window.before, window.after, strict=True)):
        if (call.size(call.tensor("x"), 2 + i) + b + a - span) % s:
            call.refuse(
                "ceil_mode with padding counted in the average is supported only if no window extends past the padding"
            )


@mil("l2_pool")
def l2_pool(call: Call) -> Results:
    """Translate l2_pool, the square root of the sum of squares.

    The sum is computed by average pooling that counts padding.
    """
    g = call.g
    if call.flag("ceil_mode", False):
        _require_whole_windows(call)
    count = float(math.prod(call.ints("kernel_sizes")))
    return call.widely(call.tensor("x"), lambda x: g.square_root(_mean(call, g.square(x), True) * count))
