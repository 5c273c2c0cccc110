"""Translations of com.microsoft attention operators to scaled_dot_product_attention."""

from __future__ import annotations

import math

from ..._core import Tensor, int32
from ...errors import GraphError, ShapeError, UnsupportedError
from ..building.node import MICROSOFT, Node, Results, operator
from ._compose import folded


def heads_of(node: Node, x: Tensor, count: int) -> Tensor:
    """Reshape (batch, steps, count * size) to (batch, count, steps, size)."""
    size = node.size(x, 2)
    if size % count:
        raise ShapeError(f"the last axis of {x.shape} must be divisible by num_heads={count}, got size {size}")
    parts = node.reshape(x, [node.dim(x, 0), node.dim(x, 1), count, size // count])
    return node.g.transpose(parts, [0, 2, 1, 3])


def joined_heads(node: Node, x: Tensor) -> Tensor:
    """Reshape (batch, heads, steps, size) to (batch, steps, heads * size)."""
    turned = node.g.transpose(x, [0, 2, 1, 3])
    return node.reshape(turned, [node.dim(x, 0), node.dim(x, 2), node.size(x, 1) * node.size(x, 3)])


def places_of(node: Node, x: Tensor, axis: int) -> Tensor:
    """Return the indices 0, 1, 2, ... along an axis of x as an int32 tensor."""
    return node.g.cast(node.g.coordinate_along_axis(0, node.joined([node.dim(x, axis)])), int32)


def _added(node: Node, allowed: Tensor, like: Tensor) -> Tensor:
    """Return an additive attention mask: 0 for allowed keys, and the node's mask_filter_value for all others."""
    value = node.attribute("mask_filter_value", -10000.0)
    g = node.g
    return g.select(allowed, g.constant(0.0, dtype=like.dtype), g.constant(value, dtype=like.dtype))


def causal_mask(node: Node, q: Tensor, k: Tensor, window: int | None = None, start: Tensor | None = None) -> Tensor:
    """Return an additive mask that hides keys after the query's position, and those before its window.

    The last query is at the position of the last key, or the first query of each row at `start`, int32 (batch, 1).
    """
    g = node.g
    if start is None:
        before = g.subtraction(length_of(node, k), length_of(node, q))
    else:
        before = g.expand_dims(start, [1, 2])
    rows = g.addition(g.expand_dims(places_of(node, q, 2), 1), before)
    columns = g.expand_dims(places_of(node, k, 2), 0)
    allowed = g.less_than_or_equal_to(columns, rows)
    if window is not None:
        allowed = g.logical_and(allowed, g.greater_than(columns, rows - window))
    lowest = {"float16": -65504.0}.get(str(q.dtype), -3.3e38)
    return g.select(allowed, g.constant(0.0, dtype=q.dtype), g.constant(lowest, dtype=q.dtype))


def length_of(node: Node, x: Tensor) -> Tensor:
    """Return the number of time steps of x as an int32 scalar."""
    size, g = node.dim(x, 2), node.g
    return g.reshape(g.cast(size, int32), ()) if isinstance(size, Tensor) else g.constant(size, dtype=int32)


def _masked(node: Node, i: int, q: Tensor, k: Tensor) -> Tensor | None:
    """Return operand i, a mask of rank 1, 2, or 3, as an additive mask (batch, heads, queries, keys)."""
    if not node.has(i):
        return None
    g, mask = node.g, node.tensor(i)
    rank, batch = node.rank(mask), node.dims(q)[0]
    if rank == 1:
        mask = node.cast(mask, int32)
        keys = g.expand_dims(places_of(node, k, 2), 0)
        length = node.dims(mask)[0]
        if length == batch or length < 0 or batch < 0:  # The mask holds the number of keys per row.
            allowed = g.less_than(keys, g.expand_dims(mask, 1))
        # The mask holds the end of the keys of each row, followed by the start of the keys of each row.
        elif length == 2 * batch:
            ends, starts = (g.expand_dims(part, 1) for part in g.split(mask, 2, 0))
            allowed = g.logical_and(g.less_than(keys, ends), g.greater_than_or_equal_to(keys, starts))
        else:
            raise UnsupportedError(
                f"a mask of rank 1 must have {batch} or {2 * batch} elements for a batch of {batch}, got {mask.shape}"
            )
        allowed = g.expand_dims(allowed, [1, 2])
    elif rank in (2, 3):
        allowed = g.expand_dims(g.not_equal(mask, 0), [1, 2] if rank == 2 else [1])
    else:
        raise UnsupportedError(f"a mask must have rank 1, 2, or 3, got rank {rank}")
    return _added(node, allowed, q)


def _attended(node: Node, q: Tensor, k: Tensor, v: Tensor, masks: list[Tensor | None]) -> Tensor:
    """Return the attention output of shape (batch, queries, heads * size)."""
    given = [node.cast(m, q.dtype) for m in masks if m is not None]
    if node.attribute("unidirectional", 0):
        given.append(causal_mask(node, q, k))
    mask = folded(given, node.g.addition) if given else None
    scale = node.attribute("scale", 0.0) or 1 / math.sqrt(node.size(q, 3))
    return joined_heads(node, node.g.scaled_dot_product_attention(q, k, v, mask, scale))


@operator("Attention", upto=1, domain=MICROSOFT)
def attention(node: Node) -> Results:
    """Translate Attention, which computes queries, keys, and values with one matmul.

    The computed keys and values are appended to the past keys and values, if the node has any.
    """
    g, x, weights, heads = node.g, node.tensor(0), node.tensor(1), node.attribute("num_heads")
    if node.attribute("do_rotary", 0) or node.attribute("past_present_share_buffer", 0):
        raise UnsupportedError("Attention with do_rotary or past_present_share_buffer is not supported")
    node.attribute("rotary_embedding_dim", 0)
    product = g.matrix_multiplication(x, weights)
    product = g.addition(product, node.tensor(2)) if node.has(2) else product
    sizes = node.attribute("qkv_hidden_sizes", [node.size(weights, 1) // 3] * 3)
    q, k, v = (heads_of(node, part, heads) for part in g.split(product, sizes, 2))
    present = None
    if node.has(4):
        past = node.tensor(4)
        k, v = (g.concat([g.squeeze(g.slice_axis(past, 0, i, 1), [0]), part], 2) for i, part in enumerate((k, v)))
    if node.wants(1):
        present = g.stack([k, v], 0)
    return [_attended(node, q, k, v, [_masked(node, 3, q, k), node.optional(5)]), present]


@operator("MultiHeadAttention", upto=1, domain=MICROSOFT)
def multi_head_attention(node: Node) -> Results:
    g, heads, x = node.g, node.attribute("num_heads"), node.tensor(0)
    for i in (8, 9):
        if node.has(i):
            raise UnsupportedError("MultiHeadAttention with past_sequence_length or cache_indirection is not supported")
    if node.rank(x) == 5:  # The operand holds queries, keys, and values, with shape (batch, steps, heads, 3, size).
        q, k, v = (g.transpose(g.squeeze(part, [3]), [0, 2, 1, 3]) for part in g.split(x, 3, 3))
    # Operand 1 holds keys and values, with shape (batch, steps, heads, 2, size).
    elif node.has(1) and node.rank(node.tensor(1)) == 5:
        q = heads_of(node, x, heads)
        k, v = (g.transpose(g.squeeze(part, [3]), [0, 2, 1, 3]) for part in g.split(node.tensor(1), 2, 3))
    elif node.has(1) and node.has(2):
        q, k, v = (t if node.rank(t) == 4 else heads_of(node, t, heads) for t in (x, node.tensor(1), node.tensor(2)))
    else:
        raise GraphError("key and value are missing: pass both, or pack them into the query or the key")
    if node.has(3):
        sizes = [node.size(t, 1) * node.size(t, 3) for t in (q, k, v)]
        bias = [g.transpose(g.reshape(part, (1, 1, heads, -1)), [0, 2, 1, 3])
                for part in g.split(node.tensor(3), sizes, 0)]  # fmt: skip
        told = [True, *(node.has(1) and node.rank(node.tensor(i)) != 4 for i in (1, 2) if node.has(i))]
        told += [True] * (3 - len(told))
        q, k, v = (g.addition(t, b) if use else t for t, b, use in zip((q, k, v), bias, told, strict=True))
    if node.has(6) and node.has(7):
        k, v = g.concat([node.tensor(6), k], 2), g.concat([node.tensor(7), v], 2)
    return [_attended(node, q, k, v, [_masked(node, 4, q, k), node.optional(5)]), k, v]


@operator("RotaryEmbedding", upto=1, domain=MICROSOFT)
def rotary_embedding(node: Node) -> Results:
    """Translate RotaryEmbedding, which rotates pairs of channels by position-dependent angles from cached tables."""
    g, x = node.g, node.tensor(0)
    positions, cosines, sines = (node.tensor(i) for i in (1, 2, 3))
    if node.attribute("is_packed_batching", 0):
        raise UnsupportedError("RotaryEmbedding with is_packed_batching is not supported")
    node.attribute("scale", 1.0)
    heads, part = node.attribute("num_heads", 0), node.attribute("rotary_embedding_dim", 0)
    flat = node.rank(x) == 3
    if flat:
        heads = heads or node.size(x, 2) // (part or 2 * node.size(cosines, 1))
        x = heads_of(node, x, heads)
    part = part or node.size(x, 3)
    # The operand holds the position of the first time step.
    if node.dims(positions) == (1,) or node.rank(positions) == 1:
        first = g.reshape(node.cast(positions, int32), ())
        positions = g.expand_dims(g.addition(places_of(node, x, 2), first), 0)
    cosine, sine = (g.expand_dims(g.gather(t, positions, 0, out_of_range="error"), 1) for t in (cosines, sines))
    turned, rest = g.slice_axis(x, 3, 0, part), None
    if node.size(x, 3) > part:
        rest = g.slice_axis(x, 3, part, node.size(x, 3) - part)
    interleaved = node.attribute("interleaved", 0)
    if interleaved:
        pairs = node.reshape(turned, [*(node.dim(turned, a) for a in range(3)), part // 2, 2])
        a, b = (g.squeeze(g.slice_axis(pairs, 4, i, 1), [4]) for i in (0, 1))
    else:
        a, b = g.split(turned, 2, 3)
    left = g.subtraction(g.multiplication(a, cosine), g.multiplication(b, sine))
    right = g.addition(g.multiplication(a, sine), g.multiplication(b, cosine))
    if interleaved:
        sizes = [*(node.dim(turned, a) for a in range(3)), part]
        y = node.reshape(g.stack([left, right], 4), sizes)
    else:
        y = g.concat([left, right], 3)
    y = y if rest is None else g.concat([y, rest], 3)
    return joined_heads(node, y) if flat else y
