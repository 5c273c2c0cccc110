"""Multi-head attention and sinusoidal position encoding.

Data has the batch first by default, as in Keras. Masks follow PyTorch: True, or -infinity, excludes a key.
"""

from __future__ import annotations

import math
from copy import deepcopy

import numpy as np

from .._checks import BelowOne, Positive, Size
from .._core import Tensor, bool_, float32
from .._display import shown
from ..errors import DTypeError, GraphError, ShapeError
from ..precision.mixed_precision import autocast_dtype
from .initialisers import Initialiser, Normal
from .key_value_cache import KeyValueCache
from .layers import Dropout, Linear, shape_of_sizes, size_in_run, size_of
from .masks import mask_of
from .module import Module
from .parts import graph_of, is_built
from .positions import AttentionPositions, distances, places_from


def added_mask(mask: Tensor, like: Tensor) -> Tensor:
    """Return a mask as numbers to add to the scores; a bool mask becomes -infinity where True and 0 elsewhere."""
    g = graph_of(like)
    if mask.dtype == bool_:
        return g.select(mask, g.constant(-math.inf, dtype=like.dtype), g.constant(0.0, dtype=like.dtype))
    if not mask.dtype.is_float:
        raise DTypeError(
            "attention mask must be bool (True excludes a key) or floating-point (added to the scores), "
            f"got {mask.dtype}"
        )
    return mask if mask.dtype == like.dtype else g.cast(mask, like.dtype)


def causal_mask(x: Tensor, queries: int | Tensor, keys: int | Tensor) -> Tensor:
    """Return the causal mask: bool (queries, keys) in x's graph, True where the key comes after the query.

    Args:
        x: Tensor whose graph receives the mask.
        queries: Number of queries, an int or a one-element int32 tensor.
        keys: Number of keys, an int or a one-element int32 tensor.

    Returns:
        A bool tensor of shape (queries, keys).

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.attention.causal_mask(g.constant(0.0), 2, 3)).tolist()
        [[False, True, True], [False, False, True]]
    """
    if isinstance(queries, int) and isinstance(keys, int):
        return graph_of(x).constant(np.triu(np.ones((queries, keys), bool), 1))
    g, shape = graph_of(x), shape_of_sizes(x, [queries, keys])
    return g.less_than(g.coordinate_along_axis(0, shape), g.coordinate_along_axis(1, shape))


def opened_mask(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Unmask all keys of each query whose keys are all masked. Return the new mask, and a mask of these queries.

    A softmax without any key would be NaN and make all gradients NaN. The caller sets the results of these queries to
    zero.
    """
    g = graph_of(mask)
    blind = g.equal(g.reduction_maximum(mask, -1), -math.inf)
    return g.select(blind, g.constant(0.0, dtype=mask.dtype), mask), blind


class MultiheadAttention(Module):
    """Multi-head scaled dot-product attention between linear projections.

    The layers query, key, and value project their inputs, which are then split into heads. Each head computes softmax(q
    k^T / sqrt(head_dim) + mask) v. The heads are concatenated and projected by the layer output.

    If all keys of a query are masked, as in a padding row, the attention result is zero, so the output for this query
    is the bias of the output projection, and no gradient flows through the query.

    Args:
        embed_dim: Number of output features, a multiple of num_heads unless head_dim is passed.
        num_heads: Number of attention heads.
        dropout: Probability of dropping an attention weight in training mode, in [0, 1). Defaults to 0.
        bias: Whether the four projections have biases. Defaults to True.
        batch_first: Whether data is (N, length, features), the default, or (length, N, features).
        num_kv_heads: Number of key and value heads, a divisor of num_heads; each one serves num_heads / num_kv_heads
            consecutive query heads (grouped-query attention, PyTorch's enable_gqa). None, the default, means num_heads.
        positions: Position encoding used when queries and keys are compared, such as RotaryPositions. Defaults to none.
        weight_initialiser: Initializer of the projection weights. Glorot uniform if None, the default.
        head_dim: Number of features of each head. None, the default, means embed_dim / num_heads.
        qkv_bias: Whether the layers query, key, and value have biases. None, the default, means bias.
        output_bias: Whether the layer output has a bias. None, the default, means bias.
        qk_norm: Normalization of the features of each head's queries and keys, applied before the position encoding: a
            module that has not been called, such as RMSNorm(), of which queries and keys get a copy each. Defaults to
            none.
        window: Sliding window: each query only attends to keys whose distance is below this number, so a causal query
            attends to at most `window` keys, including the one at its own position. Defaults to no window.
        soft_cap: Scores s become soft_cap * tanh(s / soft_cap) before the mask is added. Defaults to no cap.
        scale: Factor of the scores. None, the default, means 1 / sqrt(head_dim).
        sinks: Whether each head learns a score that takes part in the softmax without a value, so that the weights of
            the keys can sum to less than one. Defaults to False.

    Attributes:
        query: Linear layer with weight (query features, num_heads * head_dim).
        key: Linear layer with weight (key features, num_kv_heads * head_dim).
        value: Linear layer with weight (value features, num_kv_heads * head_dim).
        output: Linear layer with weight (num_heads * head_dim, embed_dim), PyTorch's out_proj. PyTorch's in_proj_weight
            is the concatenation of the transposed weights of query, key, and value.
        query_norm: Normalization of the queries, or None.
        key_norm: Normalization of the keys, or None.
        sink: Scores of the sinks, (num_heads,), if sinks is True.

    Raises:
        ShapeError: If num_heads does not divide embed_dim, or num_kv_heads does not divide num_heads.
        GraphError: If dropout is outside [0, 1), soft_cap or scale is not above 0, or qk_norm has already been called.

    Source: Vaswani et al., arXiv:1706.03762; Ainslie et al., arXiv:2305.13245 for num_kv_heads; Gemma Team,
        arXiv:2408.00118 for soft_cap; Xiao et al., arXiv:2309.17453 for sinks.

    Example:
        >>> g = mg.Graph()
        >>> x = g.placeholder((-1, 20, 32))
        >>> mg.nn.MultiheadAttention(32, 4)(x, is_causal=True).shape
        (-1, 20, 32)
    """

    sink: Tensor
    passes_mask = True

    def __init__(
        self,
        embed_dim: Size,
        num_heads: Size,
        *,
        dropout: BelowOne = 0.0,
        bias: bool = True,
        batch_first: bool = True,
        num_kv_heads: int | None = None,
        positions: AttentionPositions | None = None,
        weight_initialiser: Initialiser | None = None,
        head_dim: Size | None = None,
        qkv_bias: bool | None = None,
        output_bias: bool | None = None,
        qk_norm: Module | None = None,
        window: Size | None = None,
        soft_cap: Positive | None = None,
        scale: Positive | None = None,
        sinks: bool = False,
    ) -> None:
        if num_heads < 1 or (head_dim is None and embed_dim % num_heads):
            raise ShapeError(
                "MultiheadAttention: embed_dim must be divisible by num_heads, "
                f"got embed_dim={embed_dim} and num_heads={num_heads}"
            )
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if self.num_kv_heads < 1 or num_heads % self.num_kv_heads:
            raise ShapeError(
                "MultiheadAttention: num_heads must be divisible by num_kv_heads, "
                f"got num_heads={num_heads} and num_kv_heads={num_kv_heads}"
            )
        if not 0 <= dropout < 1:
            raise GraphError(f"MultiheadAttention: dropout must be at least 0 and below 1, got {dropout}")
        self.embed_dim, self.num_heads, self.batch_first, self.rate = embed_dim, num_heads, batch_first, dropout
        self.head_size = embed_dim // num_heads if head_dim is None else head_dim
        shared = self.num_kv_heads * self.head_size
        inward, outward = (bias if own is None else own for own in (qkv_bias, output_bias))
        self.query, self.key, self.value, self.output = (
            Linear(size, bias=biased, weight_initialiser=weight_initialiser)
            for size, biased in (
                (num_heads * self.head_size, inward), (shared, inward), (shared, inward), (embed_dim, outward)
            )
        )  # fmt: skip
        self.positions = positions
        if positions is not None:
            positions.of_heads(num_heads, self.head_size)
        if qk_norm is not None and is_built(qk_norm):
            raise GraphError("MultiheadAttention: qk_norm must not have been called: pass a new module")
        self.query_norm, self.key_norm = (None if qk_norm is None else deepcopy(qk_norm) for _ in range(2))
        self.window, self.soft_cap, self.sinks = window, soft_cap, sinks
        self.scale = 1 / math.sqrt(self.head_size) if scale is None else scale

    def build(self, x: Tensor) -> None:
        if self.sinks:
            self.sink = self.add_parameter("sink", x, (self.num_heads,), Normal(0.0, 0.02))

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        cache: KeyValueCache | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """Apply attention. With batch_first=False, the first two axes of all inputs and of the output are swapped.

        Args:
            query: (N, L, features).
            key: (N, S, features). The query if None, the default.
            value: (N, S, features). The key if None, the default.
            mask: Attention mask that broadcasts to (N, num_heads, L, S): bool, where True excludes a key, or floating
                point, added to the scores.
            key_padding_mask: (N, S), where True excludes a key for all queries, or floating point, added to the scores.
                If None, the mask attached to the keys, if any, is used (see nn.masks).
            is_causal: Whether to exclude keys after the query. Defaults to False.
            cache: KeyValueCache, for self-attention only. The query holds the steps that follow the stored steps; it
                attends to the stored steps and, causally, to itself. In masks, S is then the maximum length of the
                cache.
            places: Positions of the steps, int32 (N, L), for self-attention without a cache, of sequences that do not
                begin at position 0. None, the default, means 0 to L - 1.

        Returns:
            A tensor (N, L, embed_dim).

        Raises:
            ShapeError: If an input is not 3-D.
            DTypeError: If a mask is neither bool nor floating-point.
            GraphError: If a cache or places are passed together with key or value, or with each other.
        """
        if (cache is not None or places is not None) and (key is not None or value is not None):
            raise GraphError(
                "MultiheadAttention: cache and places are for self-attention only: pass either one of them, or key and "
                "value"
            )
        if cache is not None and places is not None:
            raise GraphError("MultiheadAttention: a cache has its own places: pass only one of cache and places")
        q, k, v = self._heads(query, key, value)
        if key_padding_mask is None and cache is None:
            key_padding_mask = self._padding_of(query if key is None else key)
        q, k, v, added = self._placed(q, k, v, cache, places)
        causal = is_causal and cache is None
        if self.soft_cap is not None or self.sinks:  # The fused operation has neither.
            weights = self._weights(q, k, self._mask(q, k, mask, key_padding_mask, causal, added))
            return self._joined(self._weighted(weights, v))
        added = self._mask(q, k, mask, key_padding_mask, added=added)
        mine, keys, values = (self._grouped(x) for x in (q, k, v))
        kept_out = None if added is None else self._grouped(added)

        def found(rate: float) -> Tensor:
            return graph_of(q).scaled_dot_product_attention(
                mine, keys, values, kept_out, self.scale, causal=causal, dropout=rate
            )

        return self._joined(self._ungrouped(self.when_training(q, lambda: found(self.rate), lambda: found(0.0))))

    def with_weights(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        average: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """Apply attention and also return the attention weights.

        Args:
            query: (N, L, features).
            key: (N, S, features). The query if None, the default.
            value: (N, S, features). The key if None, the default.
            mask: Attention mask that broadcasts to (N, num_heads, L, S): bool, where True excludes a key, or floating
                point, added to the scores.
            key_padding_mask: (N, S), where True excludes a key for all queries, or floating point, added to the scores.
                If None, the mask attached to the keys, if any, is used (see nn.masks).
            is_causal: Whether to exclude keys after the query. Defaults to False.
            average: Whether to average the weights over the heads. Defaults to True.

        Returns:
            The output (N, L, embed_dim), and the weights after dropout: (N, L, S), or (N, num_heads, L, S) if average
            is False.

        Raises:
            ShapeError: If an input is not 3-D.
            DTypeError: If a mask is neither bool nor floating-point.

        Example:
            >>> g = mg.Graph()
            >>> result, weights = mg.nn.MultiheadAttention(32, 4).with_weights(g.placeholder((-1, 20, 32)))
            >>> weights.shape
            (-1, 20, 20)
        """
        self.ensure_built(query)
        if key_padding_mask is None:
            key_padding_mask = self._padding_of(query if key is None else key)
        q, k, v = self._heads(query, key, value)
        q, k, v, added = self._placed(q, k, v, None)
        weights = self._weights(q, k, self._mask(q, k, mask, key_padding_mask, is_causal, added))
        g = graph_of(query)
        shown = g.squeeze(g.mean(weights, 1), 1) if average else weights
        result = self._joined(self._weighted(weights, v))
        self.load_waiting()
        return result, shown

    def _heads(self, query: Tensor, key: Tensor | None, value: Tensor | None) -> list[Tensor]:
        """Project the inputs and split them into heads: (N, heads, length, head size) each."""
        key = query if key is None else key
        value = key if value is None else value
        found = []
        heads = (self.num_heads, self.num_kv_heads, self.num_kv_heads)
        for x, layer, count in zip((query, key, value), (self.query, self.key, self.value), heads, strict=True):
            if x.shape is None or len(x.shape) != 3:
                axes = "(batch, length, features)" if self.batch_first else "(length, batch, features)"
                raise ShapeError(f"MultiheadAttention needs 3-D inputs {axes}, got shape {x.shape}")
            g, y = graph_of(x), layer(x)
            sizes = [size_in_run(y, 0), size_in_run(y, 1), count, self.head_size]
            parted = g.reshape(y, shape_of_sizes(y, sizes))
            found.append(g.transpose(parted, (0, 2, 1, 3) if self.batch_first else (1, 2, 0, 3)))
        for i, name in enumerate(("query_norm", "key_norm")):
            norm = getattr(self, name)
            if norm is not None and not isinstance(norm, Module):
                raise GraphError(f"MultiheadAttention: {name} must be a module or None, got {shown(norm)}")
            found[i] = found[i] if norm is None else norm(found[i])
        return found

    def _padding_of(self, key: Tensor) -> Tensor | None:
        """Return a mask of the keys that is True at padding, derived from the mask attached to the keys, or None."""
        g, real = graph_of(key), mask_of(key)
        if real is None:
            return None
        return g.not_(real if self.batch_first else g.swap_axes(real, 0, 1))

    def _placed(
        self, q: Tensor, k: Tensor, v: Tensor, cache: KeyValueCache | None, places: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Apply the position encoding and the cache to queries, keys, and values.

        Return the queries, keys, and values to use in attention, and a term to add to the scores (None if there is
        none).
        """
        added = None
        if self.positions is None and self.window is None and cache is None:
            return q, k, v, None
        if places is not None:
            queries = keys = places
        elif cache is None:
            queries, keys = (places_from(x, 0, size_in_run(x, 2)) for x in (q, k))
        else:
            queries, keys = cache.places(q, size_in_run(q, 2)), cache.all_places(q)
        if self.positions is not None:
            length = {} if cache is None or cache.length is None else {"length": cache.length}
            q = self.positions.turned(q, queries, **length)
            k = self.positions.turned(k, keys if cache is None else queries, **length)
            added = self.positions.added(q, queries, keys)
        if cache is not None:
            k, v = cache.grown(self, k, v)
        if (excluded := self._excluded(queries, keys, cache is not None)) is not None:
            term = added_mask(excluded, q)
            added = term if added is None else added + term
        return q, k, v, added

    def _excluded(self, queries: Tensor, keys: Tensor, cached: bool) -> Tensor | None:
        """Return a mask of the keys that the window or the cache excludes, (L, S) or (N, 1, L, S), or None."""
        g, parts = graph_of(queries), []
        distance = distances(queries, keys)
        if cached:
            parts.append(g.greater_than(distance, 0))
            if len(keys.shape or ()) == 2:  # Empty entries of the cache have negative positions.
                parts.append(g.expand_dims(g.less_than(keys, 0), -2))
        if self.window is not None:
            parts.append(g.greater_than_or_equal_to(g.absolute(distance), self.window))
        excluded = None
        for part in parts:
            excluded = part if excluded is None else g.logical_or(excluded, part)
        if excluded is not None and len(excluded.shape or ()) == 3:
            excluded = g.expand_dims(excluded, 1)
        return excluded

    def _weighted(self, weights: Tensor, v: Tensor) -> Tensor:
        """Return the sums of the values, weighted by the attention weights."""
        g = graph_of(v)
        return self._ungrouped(g.matrix_multiplication(self._grouped(weights), self._grouped(v)))

    def _grouped(self, x: Tensor) -> Tensor:
        """Split the head axis into (kv_heads, heads per kv_head) if several query heads share each key and value head.

        Otherwise x is returned unchanged. If x has fewer axes or heads than the queries, it gets an axis of size 1
        instead, which broadcasts over the heads of a group.
        """
        g, shape = graph_of(x), x.shape or ()
        if self.num_kv_heads == self.num_heads or len(shape) < 3:
            return x
        if shape[-3] != self.num_heads:
            return g.expand_dims(x, -3)
        before = [size_in_run(x, axis) for axis in range(len(shape) - 3)]
        groups = [self.num_kv_heads, self.num_heads // self.num_kv_heads]
        behind = [size_in_run(x, axis) for axis in (len(shape) - 2, len(shape) - 1)]
        return g.reshape(x, shape_of_sizes(x, [*before, *groups, *behind]))

    def _ungrouped(self, x: Tensor) -> Tensor:
        if self.num_kv_heads == self.num_heads:
            return x
        sizes = [size_in_run(x, 0), self.num_heads, size_in_run(x, 3), size_in_run(x, 4)]
        return graph_of(x).reshape(x, shape_of_sizes(x, sizes))

    def _joined(self, y: Tensor) -> Tensor:
        g = graph_of(y)
        together = g.transpose(y, (0, 2, 1, 3) if self.batch_first else (2, 0, 1, 3))
        sizes = [size_in_run(together, 0), size_in_run(together, 1), self.num_heads * self.head_size]
        return self.output(g.reshape(together, shape_of_sizes(y, sizes)))

    def _weights(self, q: Tensor, k: Tensor, added: Tensor | None) -> Tensor:
        g, half = graph_of(q), q.dtype if q.dtype.itemsize == 2 and autocast_dtype() is None else None
        # Scores are sums that can overflow float16, so compute them in float32, as the fused operation does.
        if half is not None:
            q, k, added = g.cast(q, float32), g.cast(k, float32), None if added is None else g.cast(added, float32)
        scores = g.matrix_multiplication(self._grouped(q * self.scale), g.swap_axes(self._grouped(k), -1, -2))
        scores = self._ungrouped(scores)
        if self.soft_cap is not None:
            scores = g.tanh(scores / self.soft_cap) * self.soft_cap
        if added is None:
            weights = self._softmax(scores)
        else:
            opened, blind = opened_mask(added)
            weights = self._softmax(scores + opened)
            weights = g.select(blind, g.constant(0.0, dtype=weights.dtype), weights)
        weights = weights if half is None else g.cast(weights, half)
        if not self.rate:
            return weights
        return self.when_training(weights, lambda: g.dropout(weights, self.rate), lambda: weights)

    def _softmax(self, scores: Tensor) -> Tensor:
        """Return the softmax of scores (N, heads, L, S) along the keys, with the heads' sinks if there are any."""
        g = graph_of(scores)
        if not self.sinks:
            return g.softmax(scores, -1)
        sink = g.reshape(g.cast(self.sink, scores.dtype), (-1, 1, 1))
        largest = g.maximum(g.reduction_maximum(scores, -1), sink)
        powers = g.exponent(scores - largest)
        return powers / (g.reduction_sum(powers, -1) + g.exponent(sink - largest))

    def _mask(
        self,
        q: Tensor,
        k: Tensor,
        mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
        added: Tensor | None = None,
    ) -> Tensor | None:
        """Combine all masks and the position term into one tensor that is added to the scores, or return None."""
        parts = [] if mask is None else [added_mask(mask, q)]
        if key_padding_mask is not None:
            parts.append(graph_of(q).expand_dims(added_mask(key_padding_mask, q), (1, 2)))
        if is_causal:
            parts.append(added_mask(causal_mask(q, size_in_run(q, 2), size_in_run(k, 2)), q))
        for part in parts:
            added = part if added is None else added + part
        return added


class PositionalEncoding(Module):
    """Add sinusoidal position encodings to the input, then apply dropout.

    Adds sin(t / 10000^(2 i / E)) to feature 2 i and cos(t / 10000^(2 i / E)) to feature 2 i + 1 at step t. Maps an
    input of shape (N, T, E) to the same shape, or (T, N, E) if batch_first is False. For learned positions, add an
    Embedding of the indices 0 to T - 1 instead.

    Args:
        max_length: Maximum length of sequences whose length is dynamic. Defaults to 5000.
        dropout: Probability of dropping an element of the sum in training mode. Defaults to 0.
        batch_first: Whether the batch is the first axis, the default, or the second.

    Raises:
        ShapeError: If the input is not 3-D, or, at run time, a sequence of dynamic length is longer than max_length.

    Source: Vaswani et al., arXiv:1706.03762.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.PositionalEncoding()(g.constant(0.0, (1, 1, 4)))).tolist()
        [[[0.0, 1.0, 0.0, 1.0]]]
    """

    passes_mask = True

    def __init__(self, max_length: Size = 5000, *, dropout: BelowOne = 0.0, batch_first: bool = True) -> None:
        self.max_length, self.batch_first = max_length, batch_first
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape is None or len(x.shape) != 3:
            raise ShapeError(f"PositionalEncoding needs a 3-D input, got shape {x.shape}")
        g, axis = graph_of(x), 1 if self.batch_first else 0
        features, length = size_of(x, -1, None, "PositionalEncoding"), size_in_run(x, axis)
        known = length if isinstance(length, int) else self.max_length
        angles = np.arange(known)[:, None] / 10000 ** (np.arange(0, features, 2) / features)
        waves = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(known, -1)[:, :features]
        table = g.constant(waves, dtype=x.dtype)
        if not isinstance(length, int):
            sizes = shape_of_sizes(x, [length, features])
            # A slice stops at the end of the table, so the reshape fails for sequences longer than max_length.
            table = g.reshape(g.slice(table, [0, 0], sizes=sizes), sizes)
        y = x + (table if self.batch_first else g.expand_dims(table, 1))
        return self.dropout(y) if self.dropout.rate else y
