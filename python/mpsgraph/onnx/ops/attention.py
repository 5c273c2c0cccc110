"""Translations of attention operators, rotary embedding, linear attention, and causal convolution.

Scores, weights, and states are kept in float32 for float16 and bfloat16 inputs. A query whose keys are all masked
returns zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..._core import DType, Tensor, bool_, float32, float64, int64
from ...errors import GraphError, ShapeError, UnsupportedError
from ..building.node import Node, Results, operator

PREVIEW = "ai.onnx.preview"
MOST_STEPS = 4096  # Maximum number of time steps of an unrolled recurrence.


# --- heads ----------------------------------------------------------------------------------------------------------
def _of_heads(node: Node, x: Tensor, heads: int) -> Tensor:
    """Reshape (batch, steps, heads * size) to (batch, heads, steps, size). A tensor of rank 4 is returned unchanged."""
    if node.rank(x) == 4:
        return x
    if node.rank(x) != 3 or heads < 1 or node.size(x, 2) % heads:
        raise ShapeError(
            f"the operand must have shape (batch, steps, size) with a size divisible by {heads} heads, got {x.shape}"
        )
    parts = [node.dim(x, 0), node.dim(x, 1), heads, node.size(x, 2) // heads]
    return node.g.transpose(node.reshape(x, parts), [0, 2, 1, 3])


def _side_by_side(node: Node, x: Tensor) -> Tensor:
    """Reshape (batch, heads, steps, size) to (batch, steps, heads * size)."""
    turned = node.g.transpose(x, [0, 2, 1, 3])
    sizes = [node.dim(turned, 0), node.dim(turned, 1), node.product([node.dim(turned, 2), node.dim(turned, 3)])]
    return node.reshape(turned, sizes)


def _product(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix product a @ b for each head.

    If a has more heads than b, consecutive groups of heads in a use the same head of b.
    """
    g, heads, shared = node.g, node.size(a, 1), node.size(b, 1)
    if heads == shared:
        return g.matrix_multiplication(a, b)
    if shared < 1 or heads % shared:
        raise ShapeError(
            f"the number of query heads must be a multiple of the number of key/value heads, got {heads} and {shared}"
        )
    rows = node.dim(a, 2)
    together = node.reshape(a, [node.dim(a, 0), shared, node.product([heads // shared, rows]), node.dim(a, 3)])
    product = g.matrix_multiplication(together, b)
    return node.reshape(product, [node.dim(a, 0), heads, rows, node.dim(b, 3)])


def _weights(node: Node, scores: Tensor, masked: bool) -> Tensor:
    """Return the softmax over keys, with zeros where all scores are -inf."""
    g = node.g
    if not masked:
        return g.softmax(scores, 3)
    none = g.equal(g.reduction_maximum_propagate_nan(scores, 3), -math.inf)
    return g.select(none, 0.0, g.softmax(g.select(none, 0.0, scores), 3))


def _wide(node: Node, *tensors: Tensor) -> DType:
    """Return the dtype for scores: float64 if an operand or softmax_precision is float64, and float32 otherwise."""
    stated = node.dtype_attribute("softmax_precision") if node.has_attribute("softmax_precision") else float32
    return float64 if float64 in (stated, *(x.dtype for x in tensors)) else float32


def _scaled_product(node: Node, q: Tensor, k: Tensor) -> Tensor:
    """Return scale * q k^T, where q and k are each multiplied by the square root of the scale."""
    g, scale = node.g, node.attribute("scale", 0.0) or 1 / math.sqrt(node.size(q, 3))
    root = math.sqrt(abs(scale))
    left, right = g.multiplication(q, root), g.multiplication(k, math.copysign(root, scale))
    return _product(node, left, g.swap_axes(right, 2, 3))


# --- attention ------------------------------------------------------------------------------------------------------
@operator("Attention", upto=25)
def attention(node: Node) -> Results:
    """Translate Attention: softmax(cap(scale * q k^T) + bias) v.

    Returns y, all keys, all values, and the scores at the stage that qk_matmul_output_mode selects.
    """
    g = node.g
    given = [node.tensor(i) for i in range(3)]
    q_heads, kv_heads = node.attribute("q_num_heads", 0), node.attribute("kv_num_heads", 0)
    q, k, v = (_of_heads(node, x, h) for x, h in zip(given, (q_heads, kv_heads, kv_heads), strict=True))
    if node.has(4) != node.has(5):
        raise GraphError("past_key and past_value must be given together, but one of them is missing")
    if node.has(4):
        k, v = g.concat([node.tensor(4), k], 2), g.concat([node.tensor(5), v], 2)
    kind, wide = q.dtype, _wide(node, q, k)
    stages = [_scaled_product(node, node.cast(q, wide), node.cast(k, wide))]
    cap = node.attribute("softcap", 0.0)
    if cap < 0:
        raise GraphError(f"softcap must not be negative, got {cap}")
    stages.append(g.multiplication(g.tanh(g.division(stages[0], cap)), cap) if cap else stages[0])
    biased, masked = _biased(node, stages[1], q, k)
    stages += [biased, _weights(node, biased, masked)]
    y = node.cast(_product(node, stages[3], node.cast(v, wide)), kind)
    mode = node.attribute("qk_matmul_output_mode", 0)
    if mode not in range(4):
        raise GraphError(f"qk_matmul_output_mode must be 0, 1, 2, or 3, got {mode}")
    return [y if node.rank(given[0]) == 4 else _side_by_side(node, y), k, v, node.cast(stages[mode], kind)]


def _biased(node: Node, scores: Tensor, q: Tensor, k: Tensor) -> tuple[Tensor, bool]:
    """Apply the mask, causality, windows, and key lengths to scores, with -inf for excluded keys.

    Returns the scores and whether any of these limits were applied.
    """
    g, masked = node.g, False
    if node.has(3):
        mask, masked = node.tensor(3), True
        mask = mask if mask.dtype == bool_ else node.cast(mask, scores.dtype)
        mask = _as_long(node, mask, k)
        scores = g.select(mask, scores, -math.inf) if mask.dtype == bool_ else g.addition(scores, mask)
    causal = node.attribute("is_causal", 0)
    left, right = node.attribute("left_window_size", -1), node.attribute("right_window_size", -1)
    lengths = None
    if node.has(6):
        if node.has(4):
            raise GraphError("nonpad_kv_seqlen and past_key must not be given together, but both are: omit one of them")
        lengths = g.reshape(g.cast(node.tensor(6), int64), [-1, 1, 1, 1])
    if not causal and left < 0 and right < 0 and lengths is None:
        return scores, masked
    rows, columns = node.dim(q, 2), node.dim(k, 2)
    shape = node.joined([rows, columns])
    row, column = (g.cast(g.coordinate_along_axis(axis, shape), int64) for axis in (0, 1))
    offset = _offset(node, lengths, rows)
    place = row if offset is None else g.addition(row, offset)
    seen: list[Tensor] = []
    if causal or right >= 0:  # A causal query excludes all later keys regardless of the window.
        last = place if causal or right == 0 else g.addition(place, right)
        seen.append(g.less_than_or_equal_to(column, last))
    if left >= 0:
        seen.append(g.greater_than_or_equal_to(column, g.subtraction(place, left) if left else place))
    if lengths is not None:
        seen.append(g.less_than(column, lengths))
    for part in seen:
        scores = g.select(part, scores, -math.inf)
    return scores, True


def _offset(node: Node, lengths: Tensor | None, rows: int | Tensor) -> Tensor | None:
    """Return the number of keys before the key at the first query's position, or None if there are never any."""
    g = node.g
    if lengths is not None:
        return g.subtraction(lengths, rows)
    if not node.has(4):
        return None
    before = node.dim(node.tensor(4), 2)
    return before if isinstance(before, Tensor) else g.constant(before, dtype=int64)


def _as_long(node: Node, mask: Tensor, k: Tensor) -> Tensor:
    """Extend a mask along its last axis to the number of keys. The additional keys are excluded."""
    g, have, wanted = node.g, node.dims(mask)[-1] if node.rank(mask) else 1, node.dims(k)[2]
    if have == 1 or have == wanted:
        return mask
    if have < 0 or wanted < 0:
        if not node.has(6):  # Only externally managed caches can have more keys than the mask covers.
            return mask
        have, wanted = node.size(mask, -1), node.size(k, 2)
    if have > wanted:
        raise ShapeError(
            f"the last axis of the mask must have at most {wanted} elements, one per key, got {mask.shape}"
        )
    behind = [0] * (node.rank(mask) - 1) + [wanted - have]
    if mask.dtype != bool_:
        return g.pad(mask, [0] * node.rank(mask), behind, "constant", -math.inf)
    more = [*(node.dim(mask, a) for a in range(node.rank(mask) - 1)), wanted - have]
    return g.concat([mask, g.broadcast_to(g.constant(False), node.joined(more))], node.rank(mask) - 1)


@operator("FlexAttention", upto=1, domain=PREVIEW)
def flex_attention(node: Node) -> Results:
    """Translate FlexAttention, in which subgraphs modify the scores and the attention weights.

    Queries whose keys are all masked must be handled in these subgraphs.
    """
    q, k, v = (node.tensor(i) for i in range(3))
    if any(node.rank(x) != 4 for x in (q, k, v)):
        raise ShapeError(f"query, key, and value must have rank 4, got {q.shape}, {k.shape}, and {v.shape}")
    wide = _wide(node, q, k, v)
    stated = node.dtype_attribute("softmax_precision") if node.has_attribute("softmax_precision") else wide

    def changed(name: str, x: Tensor) -> Tensor:
        """Apply one of the node's subgraphs to x, after converting x to the node's softmax precision."""
        if not node.has_attribute(name):
            return x
        (result,) = node.importer.subgraph(node.attribute(name), [node.cast(x, stated)])
        return node.cast(result, wide)

    scores = changed("score_mod", _scaled_product(node, node.cast(q, wide), node.cast(k, wide)))
    weights = changed("prob_mod", node.g.softmax(scores, 3))
    return node.cast(_product(node, weights, node.cast(v, wide)), q.dtype)


# --- rotary embedding -----------------------------------------------------------------------------------------------
@operator("RotaryEmbedding", upto=23)
def rotary_embedding(node: Node) -> Results:
    """Translate RotaryEmbedding, which rotates pairs of elements by position-dependent angles."""
    g, given = node.g, node.tensor(0)
    heads = node.attribute("num_heads", 0)
    x = node.in_float32(_of_heads(node, given, heads))
    size = node.size(x, 3)
    turning = node.attribute("rotary_embedding_dim", 0) or size
    if turning % 2 or not 0 < turning <= size:
        raise ShapeError(f"rotary_embedding_dim must be even and at most the head size {size}, got {turning}")
    caches = [node.in_float32(node.tensor(i)) for i in (1, 2)]
    if node.has(3):
        caches = [g.gather(cache, node.tensor(3), 0, out_of_range="error") for cache in caches]
    if any(node.size(cache, -1) != turning // 2 for cache in caches):
        raise ShapeError(
            f"the last axis of cos_cache and sin_cache must have {turning // 2} elements, got {caches[0].shape} and "
            f"{caches[1].shape}"
        )
    cosine, sine = (g.expand_dims(cache, 1) for cache in caches)
    part, rest = (x, None) if turning == size else g.split(x, [turning, size - turning], 3)
    interleaved = node.attribute("interleaved", 0)
    if interleaved:
        sizes = [node.dim(part, axis) for axis in range(3)]
        pairs = node.reshape(part, [*sizes, turning // 2, 2])
        first, second = (g.squeeze(half, [4]) for half in g.split(pairs, 2, 4))
    else:
        first, second = g.split(part, 2, 3)
    real = g.subtraction(g.multiplication(cosine, first), g.multiplication(sine, second))
    imaginary = g.addition(g.multiplication(sine, first), g.multiplication(cosine, second))
    if interleaved:
        turned = node.reshape(g.stack([real, imaginary], 4), [*sizes, turning])
    else:
        turned = g.concat([real, imaginary], 3)
    y = node.cast(turned if rest is None else g.concat([turned, rest], 3), given.dtype)
    return y if node.rank(given) == 4 else _side_by_side(node, y)


# --- recurrences ----------------------------------------------------------------------------------------------------
@operator("LinearAttention", upto=27)
def linear_attention(node: Node) -> Results:
    """Translate LinearAttention.

    Each time step decays the state (a matrix of keys times values), optionally corrects it, and adds the product of the
    step's key and value. The output is the product of the step's query and the state.
    """
    g, rule = node.g, node.attribute("update_rule", "gated_delta")
    if rule not in ("linear", "gated", "delta", "gated_delta"):
        raise GraphError(f"update_rule must be linear, gated, delta, or gated_delta, got {rule!r}")
    node.without_effect("chunk_size")
    q_heads, heads = node.attribute("q_num_heads"), node.attribute("kv_num_heads")
    q, k, v = (_of_heads(node, node.in_float32(node.tensor(i)), h) for i, h in enumerate((q_heads, heads, heads)))
    decay = _of_heads(node, node.in_float32(node.tensor(4)), heads) if "gated" in rule else None
    beta = _rates(node, heads) if "delta" in rule else None
    steps = node.size(q, 2)
    if steps > MOST_STEPS:
        raise UnsupportedError(f"LinearAttention supports at most {MOST_STEPS} steps, got {steps}")
    if node.has(3):
        state, kept = node.in_float32(node.tensor(3)), node.tensor(3).dtype
    else:
        sizes = [node.dim(k, 0), heads, node.size(k, 3), node.size(v, 3)]
        state, kept = g.broadcast_to(g.constant(0, dtype=k.dtype), node.joined(sizes)), node.tensor(0).dtype
    scale = node.attribute("scale", 0.0) or 1 / math.sqrt(node.size(q, 3))
    split = _steps(node, steps)
    outputs = []
    for at in zip(split(q), split(k), split(v), split(decay), split(beta), strict=True):
        q_t, k_t, v_t, decay_t, beta_t = at
        assert q_t is not None and k_t is not None and v_t is not None
        if decay_t is not None:
            state = g.multiplication(state, g.exponent(g.swap_axes(decay_t, 2, 3)))
        new = v_t if beta_t is None else g.subtraction(v_t, g.matrix_multiplication(k_t, state))
        new = new if beta_t is None else g.multiplication(new, beta_t)
        state = g.addition(state, g.multiplication(g.swap_axes(k_t, 2, 3), new))
        outputs.append(_product(node, q_t, state))
    y = _side_by_side(node, g.multiplication(g.concat(outputs, 2), scale))
    return [node.cast(y, node.tensor(0).dtype), node.cast(state, kept)]


def _rates(node: Node, heads: int) -> Tensor:
    """Return the correction rate beta for each time step.

    The shape is (batch, heads, steps, 1), or (batch, 1, steps, 1) if all heads share one rate.
    """
    beta = node.in_float32(node.tensor(5))
    return _of_heads(node, beta, heads if node.size(beta, 2) == heads else 1)


def _steps(node: Node, count: int) -> Callable[[Tensor | None], list[Any]]:
    """Return a function that splits a tensor of shape (batch, heads, steps, size) into a list of time steps."""
    return lambda x: [None] * count if x is None else node.g.split(x, [1] * count, 2)


@operator("CausalConvWithState", upto=27)
def causal_convolution(node: Node) -> Results:
    """Translate CausalConvWithState, which convolves each channel with its own filter.

    The last filter tap is applied to the current element. The elements before the first one come from the state
    operand, or are zero without it.
    """
    g, given, w = node.g, node.tensor(0), node.in_float32(node.tensor(1))
    x, taps, channels = node.in_float32(given), node.size(w, 2), node.size(w, 0)
    if node.rank(given) != 3 or node.shape(w)[1] != 1:
        raise ShapeError(
            f"expected input (batch, channels, length) and weights (channels, 1, k), got {given.shape} and {w.shape}"
        )
    if node.has(3):
        before = node.in_float32(node.tensor(3))
    else:
        before = g.broadcast_to(g.constant(0, dtype=x.dtype), node.joined([node.dim(x, 0), channels, taps - 1]))
    whole = g.concat([before, x], 2) if taps > 1 else x
    y = g.convolution2d(
        g.expand_dims(whole, 2), g.expand_dims(w, 2), groups=channels, data_layout="NCHW", weights_layout="OIHW"
    )
    y = g.squeeze(y, [2])
    if node.has(2):
        y = g.addition(y, g.reshape(node.in_float32(node.tensor(2)), [1, -1, 1]))
    activation = node.attribute("activation", "none")
    if activation not in ("none", "silu", "swish"):
        raise GraphError(f"activation must be none, silu, or swish, got {activation!r}")
    if activation != "none":
        y = g.multiplication(y, g.sigmoid(y))
    if taps > 1:
        state = g.slice(whole, [0, 0, 1 - taps], [0, 0, 0], None, 0b011, 0b111)
    else:
        state = before
    return [node.cast(y, given.dtype), node.cast(state, given.dtype)]
