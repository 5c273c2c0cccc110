"""Translations of scaled dot-product attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import Device, Tensor
from ...ops._family import add_tensors
from ._table import Call, aten, shape_of

IN_TILES = 64 * 64
"""Smallest number of scores per head (queries times keys) for which gradients on the CPU use statistics of the forward
pass.

With fewer scores, and on other devices, the attention weights are recomputed (src/backends/cpu/matrix/attention.cpp).
"""


@aten("scaled_dot_product_attention")
def scaled_dot_product_attention(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if enable_gqa:
        key, value = (_for_heads(call, x, query) for x in (key, value))
    if mask is not None and str(mask.dtype) == "bool":
        zero, least = call.cast(0.0, query.dtype), call.cast(-np.inf, query.dtype)
        mask = call.g.select(mask, zero, least)
    # PyTorch aligns the causal mask with the first key. The graph's mask is identical if there are as many keys as
    # queries.
    return call.g.scaled_dot_product_attention(
        query, key, value, mask, scale, causal=bool(causal), dropout=float(dropout)
    )


def _for_heads(call: Call, x: Tensor, query: Tensor) -> Tensor:
    """Repeat each head of the keys or values for the query heads that share it (grouped-query attention)."""
    *batch, heads, length, size = shape_of(x)
    if len(shape_of(query)) < 3 or shape_of(query)[-3] == heads:
        return x
    times = shape_of(query)[-3] // heads
    wide = call.g.reshape(x, [*batch, heads, 1, length, size])
    wide = call.g.broadcast_to(wide, [*batch, heads, times, length, size])
    return call.g.reshape(wide, [*batch, heads * times, length, size])


@aten("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    call: Call, query: Tensor, key: Tensor, value: Tensor, dropout: float = 0.0, causal: bool = False, *,
    attn_mask: Tensor | None = None, scale: float | None = None,
) -> list[Tensor]:  # fmt: skip
    """Translate flash attention, which returns the result and, for each query, the log-sum-exp of its scores.

    If all keys of a query are masked, the log-sum-exp is 0.
    """
    g = call.g
    key, value = (_for_heads(call, x, query) for x in (key, value))
    result, statistics = add_tensors(
        g, "scaled_dot_product_attention", _sources(query, key, value, attn_mask), training=True,
        **_said(call, query, dropout, causal, scale),
    )  # fmt: skip
    # The statistics are (infinity, 1) for a query whose keys are all masked.
    largest, total = g.split(statistics, [1, 1], -1)
    zero, infinity = call.cast(0.0, largest.dtype), call.cast(np.inf, largest.dtype)
    logarithms = g.select(g.equal(largest, infinity), zero, g.logarithm(total) + largest)
    return [result, g.reshape(logarithms, shape_of(logarithms)[:-1])]


@aten("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(
    call: Call, incoming: Tensor, query: Tensor, key: Tensor, value: Tensor, result: Tensor, logarithms: Tensor,
    dropout: float, causal: bool, *, attn_mask: Tensor | None = None, scale: float | None = None,
) -> list[Tensor]:  # fmt: skip
    g, sources, said = call.g, _sources(query, key, value, attn_mask), _said(call, query, dropout, causal, scale)
    if Device.default().name != "cpu" or shape_of(query)[-2] * shape_of(key)[-2] < IN_TILES:
        # Query, key, and value may be the same tensor, or depend on each other.
        def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = _for_heads(call, k, q), _for_heads(call, v, q)
            return add_tensors(g, "scaled_dot_product_attention", [q, keys, values, *sources[3:]], **said)[0]

        return call.derived(forward, incoming, *sources[:3])
    largest = g.reshape(logarithms, [*shape_of(logarithms), 1])
    one = g.broadcast_to(call.cast(1.0, largest.dtype), shape_of(largest))
    # With these statistics, each attention weight is exp(score - largest) / one.
    statistics = g.concat([largest, one], -1)
    sources[1:3] = [_for_heads(call, x, query) for x in (key, value)]
    operands = [*sources, incoming, result, statistics]
    found = add_tensors(g, "scaled_dot_product_attention_gradient", operands, mask_gradient=False, **said)
    return [found[0], *(_summed_heads(call, y, x) for y, x in zip(found[1:3], (key, value), strict=True))]


def _summed_heads(call: Call, gradient: Tensor, x: Tensor) -> Tensor:
    """Sum the gradients of the copies that `_for_heads` made of each head of x."""
    if shape_of(gradient) == shape_of(x):
        return gradient
    *batch, heads, length, size = shape_of(x)
    copies = call.g.reshape(gradient, [*batch, heads, -1, length, size])
    return call.g.reshape(call.g.reduction_sum(copies, len(batch) + 1), shape_of(x))


def _sources(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> list[Tensor]:
    return [query, key, value, *([] if mask is None else [mask])]


def _said(call: Call, query: Tensor, dropout: float, causal: bool, scale: float | None) -> dict[str, Any]:
    """Return the attributes of the graph's attention operation for the arguments of a call. Dropout is rejected."""
    if dropout:
        call.refuse(f"dropout is not supported: set dropout_p to 0, got {dropout}")
    factor = float(scale) if scale is not None else shape_of(query)[-1] ** -0.5
    return {"scale": factor, "causal": bool(causal), "dropout": 0.0}
