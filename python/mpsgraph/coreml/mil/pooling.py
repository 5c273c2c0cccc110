"""Translations of maximum, average, and L2 pooling over one to three spatial axes."""

from __future__ import annotations

from typing import Any

from ..._core import Tensor
from .._operation import Call, Results, mil
from .convolutions import like_before, padding_of, pairs_of, planar, steps


def _pooled(call: Call, x: Tensor, plane: Any, space: Any, **more: Any) -> Tensor:
    """Apply a pooling method over as many spatial axes as there are kernel sizes."""
    kernel = call.ints("kernel_sizes")
    count = len(kernel)
    if count != call.rank(x) - 2:
        call.refuse(f"kernel_sizes must have one entry per spatial axis of x {x.shape}, got {count}")
    strides = call.ints("strides", [1] * count)
    ceil, padding = call.flag("ceil_mode", False), padding_of(call, count)
    how: dict[str, Any] = {"ceil_mode": ceil, **more}
    if count == 3:
        wide = padding if isinstance(padding, str) else ((0, 0), *padding)
        made: Tensor = space(x, (1, *kernel), (1, *strides), padding=wide, **how)
        return made
    if count > 3:
        call.refuse(f"1 to 3 spatial axes are supported, got {count}")
    lead = [1] if count == 1 else []
    y = plane(planar(call, x), [*lead, *kernel], [*lead, *strides], padding=padding, data_layout="NCHW", **how)
    return like_before(call, y, count)


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
    x, kernel = call.tensor("x"), call.ints("kernel_sizes")
    strides, pairs = steps(call, "strides", len(kernel))[-len(kernel) :], pairs_of(call, len(kernel))
    for i, (k, s, (b, a)) in enumerate(zip(kernel, strides, pairs, strict=True)):
        if (call.size(x, 2 + i) + b + a - k) % s:
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
    count = 1
    for k in call.ints("kernel_sizes"):
        count *= k
    return call.widely(
        call.tensor("x"), lambda x: g.square_root(g.multiplication(_mean(call, g.square(x), True), float(count)))
    )
