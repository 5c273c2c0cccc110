"""Pooling, with windows and to a size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import Tensor
from ._table import Call, aten, pair, shape_of

Window = int | Sequence[int]


@aten("max_pool2d")
def max_pool2d(
    call: Call, x: Tensor, kernel: Window, stride: Window = (), padding: Window = 0, dilation: Window = 1,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    if len(shape_of(x)) != 4:
        call.refuse("without a batch")
    return call.g.max_pooling2d(
        x, pair(kernel), pair(stride or kernel), padding=[(p, p) for p in pair(padding)], dilations=pair(dilation),
        data_layout="NCHW", ceil_mode=ceil_mode,
    )  # fmt: skip


@aten("avg_pool2d")
def avg_pool2d(
    call: Call, x: Tensor, kernel: Window, stride: Window = (), padding: Window = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: Any = None,
) -> Tensor:  # fmt: skip
    if divisor_override is not None:
        call.refuse("with a divisor of its own")
    if ceil_mode and count_include_pad and any(pair(padding)):
        call.refuse("with ceil_mode over padding that counts")
    if len(shape_of(x)) != 4:
        call.refuse("without a batch")
    return call.g.avg_pooling2d(
        x, pair(kernel), pair(stride or kernel), padding=[(p, p) for p in pair(padding)], data_layout="NCHW",
        ceil_mode=ceil_mode, include_zero_pad_to_average=bool(count_include_pad and any(pair(padding))),
    )  # fmt: skip


@aten("adaptive_avg_pool2d", "_adaptive_avg_pool2d")
def adaptive_avg_pool2d(call: Call, x: Tensor, size: Window) -> Tensor:
    *_, height, width = shape_of(x)
    rows, columns = call.shape[-2:]
    if rows == columns == 1:
        return call.g.mean(x, [-2, -1])
    if height % rows or width % columns:
        call.refuse("to a size that does not divide the image's")
    if len(shape_of(x)) != 4:
        call.refuse("without a batch")
    return call.g.avg_pooling2d(x, [height // rows, width // columns], data_layout="NCHW")
