"""Scaled dot-product attention."""

from __future__ import annotations

import numpy as np

from ..._core import Tensor
from ._table import Call, aten, shape_of


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
    if enable_gqa and shape_of(key)[-3] != shape_of(query)[-3]:
        key, value = (_repeated(call, x, shape_of(query)[-3] // shape_of(key)[-3]) for x in (key, value))
    if mask is not None and str(mask.dtype) == "bool":
        zero, least = call.cast(0.0, query.dtype), call.cast(-np.inf, query.dtype)
        mask = call.g.select(mask, zero, least)
    # PyTorch's causal triangle begins at the first key; the graph's is the same where there are as many keys as queries
    return call.g.scaled_dot_product_attention(
        query, key, value, mask, scale, causal=bool(causal), dropout=float(dropout)
    )


def _repeated(call: Call, x: Tensor, times: int) -> Tensor:
    """Each head of keys or values, `times` times in turn."""
    *batch, heads, length, size = shape_of(x)
    wide = call.g.reshape(x, [*batch, heads, 1, length, size])
    wide = call.g.broadcast_to(wide, [*batch, heads, times, length, size])
    return call.g.reshape(wide, [*batch, heads * times, length, size])


@aten("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    call: Call, query: Tensor, key: Tensor, value: Tensor, dropout: float = 0.0, causal: bool = False, *,
    attn_mask: Tensor | None = None, scale: float | None = None,
) -> list[Tensor]:  # fmt: skip
    """The result, and for each query the logarithm of its keys' exponentials summed."""
    if dropout:
        call.refuse("with dropout")
    g = call.g
    result = g.scaled_dot_product_attention(query, key, value, attn_mask, scale, causal=causal)
    factor = scale if scale is not None else shape_of(query)[-1] ** -0.5
    scores = g.matrix_multiplication(query, g.swap_axes(key, -2, -1)) * float(factor)
    if attn_mask is not None:
        scores = scores + attn_mask
    if causal:
        rows, columns = np.indices(shape_of(scores)[-2:])
        scores = g.select(g.constant(columns <= rows), scores, call.cast(-np.inf, scores.dtype))
    most = g.reduction_maximum(scores, -1)
    total = g.logarithm(g.reduction_sum(g.exponent(scores - most), -1)) + most
    return [result, g.reshape(total, shape_of(scores)[:-1])]


@aten("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(
    call: Call, incoming: Tensor, query: Tensor, key: Tensor, value: Tensor, result: Tensor, logarithms: Tensor,
    dropout: float, causal: bool, *, attn_mask: Tensor | None = None, scale: float | None = None,
) -> list[Tensor]:  # fmt: skip
    if dropout:
        call.refuse("with dropout")
    forward = call.g.scaled_dot_product_attention(query, key, value, attn_mask, scale, causal=causal)
    found = call.g.gradients(forward, [query, key, value], start=incoming)
    return [found[x] for x in (query, key, value)]
