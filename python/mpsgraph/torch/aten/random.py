"""Translations of random numbers.

The numbers come from the graph's Philox generator. They have the same distribution as PyTorch's, but different values.
"""

from __future__ import annotations

from typing import Any

from ..._core import Tensor
from ._table import Call, aten


@aten("native_dropout")
def native_dropout(call: Call, x: Tensor, rate: float, training: bool | None = True) -> list[Tensor]:
    g, sizes = call.g, [int(s) for s in call.result[0].shape]
    if training is False or rate == 0:
        return [x, g.constant(True, sizes, "bool")]
    if rate == 1:
        return [x * 0.0, g.constant(False, sizes, "bool")]
    keep = g.greater_than_or_equal_to(g.random_uniform(sizes), float(rate))
    return [x * (call.cast(keep, x.dtype) / (1.0 - rate)), keep]


@aten("dropout")
def dropout(call: Call, x: Tensor, rate: float, training: bool) -> Tensor:
    if not training or rate == 0:
        return x
    return x * 0.0 if rate == 1 else call.g.dropout(x, float(rate))


@aten("rand", "rand_like")
def rand(call: Call, *_: Any, **__: Any) -> Tensor:
    return call.cast(call.g.random_uniform(call.sizes), call.dtype)


@aten("randn", "randn_like")
def randn(call: Call, *_: Any, **__: Any) -> Tensor:
    return call.cast(call.g.random_normal(call.sizes), call.dtype)


@aten("bernoulli")
def bernoulli(call: Call, x: Tensor, p: float | None = None, **_: Any) -> Tensor:
    share = x if p is None else float(p)
    return call.cast(call.g.less_than(call.g.random_uniform(call.sizes), share), call.dtype)
