"""Maxima, means and norms of windows over one, two and three axes."""

from __future__ import annotations

from typing import Any

from ..._core import Tensor
from .._table import Call, Results, mil
from .convolutions import like_before, padding_of, pairs_of, planar, steps


def _pooled(call: Call, x: Tensor, plane: Any, space: Any, **more: Any) -> Tensor:
    """A pool of the graph's over the spatial axes, of which there are as many as kernel sizes."""
    kernel = call.ints("kernel_sizes")
    count = len(kernel)
    if count != call.rank(x) - 2:
        call.refuse(f"has windows of {count} axes on an operand {x.shape}")
    strides = call.ints("strides", [1] * count)
    ceil, padding = call.flag("ceil_mode", False), padding_of(call, count)
    how: dict[str, Any] = {"ceil_mode": ceil, **more}
    if count == 3:
        wide = padding if isinstance(padding, str) else ((0, 0), *padding)
        made: Tensor = space(x, (1, *kernel), (1, *strides), padding=wide, **how)
        return made
    if count > 3:
        call.refuse(f"over {count} spatial axes")
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
    """Refuses windows that stick out where padding counts: what lies beyond it is not said to count, or not to."""
    x, kernel = call.tensor("x"), call.ints("kernel_sizes")
    strides, pairs = steps(call, "strides", len(kernel))[-len(kernel) :], pairs_of(call, len(kernel))
    for i, (k, s, (b, a)) in enumerate(zip(kernel, strides, pairs, strict=True)):
        if (call.size(x, 2 + i) + b + a - k) % s:
            call.refuse("with ceil_mode and counted padding, where a window sticks out")


@mil("l2_pool")
def l2_pool(call: Call) -> Results:
    """sqrt of the sum of squares: of the mean, padding counted, times the number of elements of a window."""
    g = call.g
    if call.flag("ceil_mode", False):
        _require_whole_windows(call)
    count = 1
    for k in call.ints("kernel_sizes"):
        count *= k
    return call.widely(
        call.tensor("x"), lambda x: g.square_root(g.multiplication(_mean(call, g.square(x), True), float(count)))
    )
