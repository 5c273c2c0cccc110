"""Translations of com.microsoft operators of language models: weights packed at a few bits, and grouped attention.

Packed weights stay packed: the bytes of ONNX Runtime's blocks are those of Graph.dequantize_packed, and a zero point z
becomes the bias -z * scale. All scales and zero points must be constants.
"""

from __future__ import annotations

import math

import numpy as np

from ..._core import Tensor, float32, int32, uint32
from ...errors import ShapeError, UnsupportedError
from ...nn.quantized import BITS, pack
from ..building.node import MICROSOFT, Node, Results, operator
from .microsoft_attention import causal_mask, heads_of, joined_heads, length_of, places_of

_INT4, _UINT4 = 22, 21  # Element types of TensorProto.


def _zero_points(node: Node, i: int, rows: int, blocks: int, bits: int) -> np.ndarray | float:
    """Return operand i, one zero point per block, as float32 (rows, blocks); or the default."""
    if not node.has(i):
        return float(2 ** (bits - 1))
    value = node.value(i)
    if value.dtype.kind == "f":
        return value.reshape(rows, blocks).astype(np.float32)
    single = np.unpackbits(value.view(np.uint8).reshape(rows, -1), axis=-1, bitorder="little")[:, : blocks * bits]
    each = single.reshape(rows, blocks, bits) << np.arange(bits, dtype=np.uint8)
    return np.asarray(each.sum(-1, dtype=np.uint8).astype(np.float32))


def _dense(node: Node, words: Tensor, scales: np.ndarray, zeros: np.ndarray | float, bits: int, block: int) -> Tensor:
    """Return the weights, float32 (rows, columns), for scales (rows, blocks)."""
    g = node.g
    scales = scales.astype(np.float32)
    biases = np.asarray(-zeros * scales, np.float32)
    if block % 32 == 0:
        return g.dequantize_packed(words, g.constant(scales), g.constant(biases), bits=bits)
    rows, blocks = scales.shape
    if blocks * block % 32:
        raise UnsupportedError(f"rows of {blocks} blocks of {block} elements are not supported: use blocks of 32")
    ones = np.ones((rows, blocks * block // 32), np.float32)
    whole = g.dequantize_packed(words, g.constant(ones), g.constant(ones * 0), bits=bits)
    parts = g.reshape(whole, (rows, blocks, block)) * g.constant(scales[..., None]) + g.constant(biases[..., None])
    return g.reshape(parts, (rows, blocks * block))


@operator("MatMulNBits", upto=1, domain=MICROSOFT)
def packed_product(node: Node) -> Results:
    """Translate MatMulNBits: A times the transpose of a matrix (N, K) packed in blocks along K, plus a bias."""
    node.without_effect("accuracy_level", "weight_prepacked")
    g, x, bits = node.g, node.tensor(0), node.attribute("bits", 4)
    rows, columns, block = node.attribute("N"), node.attribute("K"), node.attribute("block_size")
    if node.has(4):
        raise UnsupportedError("MatMulNBits with g_idx is not supported: export without reordered groups")
    if bits not in BITS:
        raise UnsupportedError(f"MatMulNBits with {bits} bits is not supported; supported are {BITS}")
    blocks = -(-columns // block)
    words = g.reinterpret_cast(g.reshape(node.tensor(1), (rows, -1)), uint32)
    scales = node.value(2).reshape(rows, blocks)
    weights = _dense(node, words, scales, _zero_points(node, 3, rows, blocks, bits), bits, block)
    if blocks * block != columns:  # The last block is padded, with elements that need not be 0.
        weights = g.slice_axis(weights, 1, 0, columns)
    y = g.matrix_multiplication(x, g.transpose(node.cast(weights, x.dtype), [1, 0]))
    return g.addition(y, node.tensor(5)) if node.has(5) else y


@operator("GatherBlockQuantized", upto=1, domain=MICROSOFT)
def gathered_blocks(node: Node) -> Results:
    """Translate GatherBlockQuantized for a matrix whose rows are gathered and consist of blocks."""
    g, bits = node.g, node.attribute("bits", 4)
    block, scales = node.attribute("block_size", 128), node.value(2)
    gathered, cut = node.attribute("gather_axis", 0), node.attribute("quantize_axis", 1)
    if scales.ndim != 2 or gathered % 2 != 0 or cut % 2 != 1 or block % 32:
        raise UnsupportedError(
            "GatherBlockQuantized is supported for a matrix with gather_axis=0, quantize_axis=1, and a block_size "
            f"that is a multiple of 32, got gather_axis={gathered}, quantize_axis={cut}, block_size={block}"
        )
    stored = node.stored_type(0)
    zeros: np.ndarray | float
    if stored in (_INT4, _UINT4):  # Read as one element per byte.
        shift = 8 if stored == _INT4 else 0
        packed = pack(node.value(0).astype(np.int16) + shift, 4)
        words, bits = g.constant(packed), 4
        zeros = (node.value(3).astype(np.float32) if node.has(3) else 0.0) + shift
    else:
        words = g.reinterpret_cast(node.tensor(0), uint32)
        zeros = _zero_points(node, 3, scales.shape[0], scales.shape[1], bits)
    wide = scales.astype(np.float32)
    tables = (words, g.constant(wide), g.constant(np.asarray(-zeros * wide, np.float32)))
    picked = [g.gather(table, node.tensor(1), axis=0, out_of_range="clip") for table in tables]
    return node.cast(g.dequantize_packed(picked[0], picked[1], picked[2], bits=bits), node.tensor(2).dtype)


# --- attention --------------------------------------------------------------------------------------------------------
def _turned(node: Node, x: Tensor, cosine: Tensor, sine: Tensor, interleaved: bool) -> Tensor:
    """Rotate pairs of elements of x (batch, heads, steps, size).

    The angles have the shape (steps, pairs), or (batch, 1, steps, pairs) if they differ between rows.
    """
    g, size, pairs = node.g, node.size(x, 3), node.size(cosine, node.rank(cosine) - 1)
    turned = g.slice_axis(x, 3, 0, 2 * pairs)
    steps = [node.dim(x, a) for a in range(3)]
    if interleaved:
        both = node.reshape(turned, [*steps, pairs, 2])
        first, second = (g.squeeze(g.slice_axis(both, 4, i, 1), [4]) for i in (0, 1))
    else:
        first, second = (g.slice_axis(turned, 3, i * pairs, pairs) for i in (0, 1))
    parts = [first * cosine - second * sine, second * cosine + first * sine]
    y = node.reshape(g.stack(parts, 4), [*steps, 2 * pairs]) if interleaved else g.concat(parts, 3)
    return y if 2 * pairs == size else g.concat([y, g.slice_axis(x, 3, 2 * pairs, size - 2 * pairs)], 3)


@operator("GroupQueryAttention", upto=1, domain=MICROSOFT)
def group_query_attention(node: Node) -> Results:
    """Translate GroupQueryAttention, whose rows may have different lengths.

    Row b has seqlens_k[b] + 1 keys: those that were computed before, and then one for each query. The new keys are
    stored after the row's past keys, and the remaining keys are zeros. If total_sequence_length equals the number of
    queries, there are no past keys, and rows are padded at the end.
    """
    g, heads, groups = node.g, node.attribute("num_heads"), node.attribute("kv_num_heads")
    for name in ("k_quant_type", "v_quant_type"):
        if node.attribute(name, "NONE") != "NONE":
            raise UnsupportedError(f"GroupQueryAttention with {name} is not supported")
    for name in ("smooth_softmax", "qk_output", "kv_cache_bit_width"):
        if node.attribute(name, 0) > 0:
            raise UnsupportedError(f"GroupQueryAttention with {name} is not supported")
    for i, what in ((9, "position_ids"), (10, "attention_bias"), (11, "head_sink")):
        if node.has(i):
            raise UnsupportedError(f"GroupQueryAttention with {what} is not supported")
    x = node.tensor(0)
    if node.has(1):
        parts = [x, node.tensor(1), node.tensor(2)]
    else:
        size = node.size(x, 2) // (heads + 2 * groups)
        parts = list(g.split(x, [heads * size, groups * size, groups * size], 2))
    q, k, v = (heads_of(node, part, count) for part, count in zip(parts, (heads, groups, groups), strict=True))
    if heads % groups:
        raise ShapeError(f"num_heads={heads} must be a multiple of kv_num_heads={groups}")
    start = None
    if node.has(3) and node.dims(node.tensor(3))[2] != 0:
        total = g.reshape(node.cast(node.tensor(6), int32), ())
        lengths = g.expand_dims(g.reshape(node.cast(node.tensor(5), int32), (-1,)) + 1, 1)
        count = _count_of_keys(node, total)
        start = g.select(g.equal(total, length_of(node, q)), lengths * 0, lengths - length_of(node, q))
        fits = g.logical_and(g.greater_than_or_equal_to(start, 0), g.less_than_or_equal_to(lengths, count))
        start = g.check(fits, "GroupQueryAttention: seqlens_k + 1 must be between the queries and the keys", start)
        shape = [count] if isinstance(count, int) else g.reshape(count, (1,))
        places = g.cast(g.coordinate_along_axis(0, shape), int32)
    if node.attribute("do_rotary", 0):
        positions = places_of(node, q, 2)
        positions = positions if start is None else g.expand_dims(g.expand_dims(positions, 0) + start, 1)
        cosine, sine = (g.gather(node.tensor(i), positions, axis=0, out_of_range="error") for i in (7, 8))
        interleaved = bool(node.attribute("rotary_interleaved", 0))
        q, k = (_turned(node, part, cosine, sine, interleaved) for part in (q, k))
    if start is not None:
        k, v = (_with_past(node, node.tensor(i), part, places, start) for i, part in ((3, k), (4, v)))
    return [_grouped(node, q, k, v, heads // groups, start), k, v]


def _count_of_keys(node: Node, total: Tensor) -> int | Tensor:
    """Return the number of keys after the node: `total`, or more if the buffer of past keys is longer."""
    size, known = node.dims(node.tensor(3))[2], node.known_ints(6)
    if known is not None and size >= 0:
        return max(known[0], size)
    return node.g.maximum(total, length_of(node, node.tensor(3)))


def _with_past(node: Node, past: Tensor, new: Tensor, places: Tensor, start: Tensor) -> Tensor:
    """Return the keys or values of each row: the first `start` of the past ones, then the new ones, then zeros."""
    g, count = node.g, length_of(node, new)
    after = places - start
    moved = g.select(g.less_than(after, count), after + length_of(node, past), -1)
    index = g.select(g.less_than(after, 0), places + start * 0, moved)
    return g.gather(g.concat([past, new], 2), index, axis=2, batch_dimensions=1, out_of_range="zeros")


def _grouped(node: Node, q: Tensor, k: Tensor, v: Tensor, repeats: int, start: Tensor | None) -> Tensor:
    """Return the attention output, in which `repeats` query heads share a key head.

    The first query of each row follows `start` keys. None means that the last query is at the last key.
    """
    g, size = node.g, node.size(q, 3)
    scale, cap = node.attribute("scale", 0.0) or 1 / math.sqrt(size), node.attribute("softcap", 0.0)
    window = node.attribute("local_window_size", -1)
    mask = causal_mask(node, q, k, None if window < 0 else window, start)
    if repeats > 1:
        k, v = (_repeated(node, t, repeats) for t in (k, v))
    if not cap:
        return joined_heads(node, g.scaled_dot_product_attention(q, k, v, mask, scale))
    scores = g.matrix_multiplication(q * scale, g.transpose(k, [0, 1, 3, 2]))
    weights = g.softmax(g.cast(g.tanh(scores / cap) * cap + mask, float32), -1)
    return joined_heads(node, g.matrix_multiplication(node.cast(weights, v.dtype), v))


def _repeated(node: Node, x: Tensor, repeats: int) -> Tensor:
    """Repeat each head of x (batch, heads, steps, size)."""
    wide = node.g.tile(node.g.expand_dims(x, 2), [1, 1, repeats, 1, 1])
    return node.reshape(wide, [node.dim(x, 0), node.size(x, 1) * repeats, node.dim(x, 2), node.size(x, 3)])
