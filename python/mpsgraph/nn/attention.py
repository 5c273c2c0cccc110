"""Attention of several heads, and the positions that it cannot see by itself.

Data has the batch first unless told otherwise, as in Keras. Masks mean what they mean in PyTorch: True, or -infinity,
keeps a key out.
"""

from __future__ import annotations

import math

import numpy as np

from .._core import Tensor, bool_, float32
from ..errors import DTypeError, GraphError, ShapeError
from ..precision.mixed_precision import autocast_dtype
from .initialisers import Initialiser
from .key_value_cache import KeyValueCache
from .layers import Dropout, Linear, shape_of_sizes, size_in_run, size_of
from .masks import mask_of
from .module import Module, graph_of
from .positions import AttentionPositions, places_from


def added_mask(mask: Tensor, like: Tensor) -> Tensor:
    """A mask as numbers to add to scores: 0, and -infinity where a bool mask is True; other masks are taken as such."""
    g = graph_of(like)
    if mask.dtype == bool_:
        return g.select(mask, g.constant(-math.inf, dtype=like.dtype), g.constant(0.0, dtype=like.dtype))
    if not mask.dtype.is_float:
        raise DTypeError(f"a mask must be of bools, or of numbers to add, came {mask.dtype}")
    return mask if mask.dtype == like.dtype else g.cast(mask, like.dtype)


def causal_mask(x: Tensor, queries: int | Tensor, keys: int | Tensor) -> Tensor:
    """True where the key comes after the query: bool (queries, keys) in x's graph.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.attention.causal_mask(g.constant(0.0), 2, 3)).tolist()
    [[False, True, True], [False, False, True]]
    """
    if isinstance(queries, int) and isinstance(keys, int):
        return graph_of(x).constant(np.triu(np.ones((queries, keys), bool), 1))
    g, shape = graph_of(x), shape_of_sizes(x, [queries, keys])
    return g.less_than(g.coordinate_along_axis(0, shape), g.coordinate_along_axis(1, shape))


def opened_mask(mask: Tensor) -> tuple[Tensor, Tensor]:
    """A mask that is added to scores, and which queries it keeps all keys from: these may look at every key instead.

    A soft-max over nothing is NaN, and so would be all gradients; what such queries find is replaced by zeros.
    """
    g = graph_of(mask)
    blind = g.equal(g.reduction_maximum(mask, -1), -math.inf)
    return g.select(blind, g.constant(0.0, dtype=mask.dtype), mask), blind


class MultiheadAttention(Module):
    """Scaled dot-product attention of several heads, between linear maps. Vaswani et al., arXiv:1706.03762.

    q, k, v = query(q), key(k), value(v), each parted into heads; a head's result is softmax(q k^T / sqrt(E / heads) +
    mask) v; result = output(the heads behind each other). Args: embed_dim, E, and num_heads, which divides it; dropout,
    the share of the weights that is dropped in training mode; bias of the four maps; batch_first, whether data is (N,
    length, features), else (length, N, features); weight_initialiser, Glorot's uniform when None. The four maps are
    Linear layers: PyTorch's in_proj_weight is the transposed weights of query, key and value, one behind the other, and
    its out_proj is output. num_kv_heads, how many heads keys and values have, which divides num_heads: each serves as
    many heads of queries behind each other (Ainslie et al., arXiv:2305.13245), PyTorch's enable_gqa; num_heads when
    None. positions, of which the comparison of queries and keys knows: RotaryPositions and their kin. Errors:
    ShapeError, GraphError, DTypeError.

    A call takes query (N, L, any size); key (N, S, any), the query when None; value (N, S, any), the key when None;
    mask, what broadcasts to (N, heads, L, S), bools of which True keeps a key out, or numbers to add to the scores;
    key_padding_mask (N, S), the same for each key, that which came with the keys when None (nn.masks); is_causal,
    whether keys behind the query are kept out. The result is (N, L, E). A query that may look at no key finds zeros, of
    which the output map makes its bias, and nothing has a gradient through it: as in a row of padding. `with_weights`
    gives the weights, too. With a cache, a KeyValueCache, x is what stands behind the steps that are kept: it attends
    to these and, never ahead, to itself; S is then the cache's length in masks. Only self-attention has a cache.

    >>> g = mg.Graph()
    >>> x = g.placeholder((-1, 20, 32))
    >>> mg.nn.MultiheadAttention(32, 4)(x, is_causal=True).shape
    (-1, 20, 32)
    """

    passes_mask = True

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        dropout: float = 0.0,
        bias: bool = True,
        batch_first: bool = True,
        num_kv_heads: int | None = None,
        positions: AttentionPositions | None = None,
        weight_initialiser: Initialiser | None = None,
    ) -> None:
        if num_heads < 1 or embed_dim % num_heads:
            raise ShapeError(f"MultiheadAttention: {embed_dim} features do not split into {num_heads} heads")
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if self.num_kv_heads < 1 or num_heads % self.num_kv_heads:
            raise ShapeError(f"MultiheadAttention: {num_heads} heads do not share {num_kv_heads} of keys and values")
        if not 0 <= dropout < 1:
            raise GraphError(f"MultiheadAttention: dropout must be from 0 up to but not including 1, got {dropout}")
        self.embed_dim, self.num_heads, self.batch_first, self.rate = embed_dim, num_heads, batch_first, dropout
        self.head_size = embed_dim // num_heads
        shared = self.num_kv_heads * self.head_size
        self.query, self.key, self.value, self.output = (
            Linear(size, bias=bias, weight_initialiser=weight_initialiser)
            for size in (embed_dim, shared, shared, embed_dim)
        )
        self.positions = positions
        if positions is not None:
            positions.of_heads(num_heads, self.head_size)

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
    ) -> Tensor:
        if cache is not None and (key is not None or value is not None):
            raise GraphError("MultiheadAttention: a cache is for self-attention, keys and values come from the query")
        q, k, v = self._heads(query, key, value)
        if key_padding_mask is None and cache is None:
            key_padding_mask = self._padding_of(query if key is None else key)
        q, k, v, added = self._placed(q, k, v, cache)
        added = self._mask(q, k, mask, key_padding_mask, added=added)
        mine, keys, values = (self._grouped(x) for x in (q, k, v))
        kept_out = None if added is None else self._grouped(added)
        causal, scale = is_causal and cache is None, 1 / math.sqrt(self.head_size)

        def found(rate: float) -> Tensor:
            return graph_of(q).scaled_dot_product_attention(
                mine, keys, values, kept_out, scale, causal=causal, dropout=rate
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
        """The result and the weights of the values, after dropout: (N, L, S), or of each head (N, heads, L, S).

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
        result = self._joined(self._ungrouped(g.matrix_multiplication(self._grouped(weights), self._grouped(v))))
        self.load_waiting()
        return result, shown

    def _heads(self, query: Tensor, key: Tensor | None, value: Tensor | None) -> list[Tensor]:
        """(N, heads, length, features) of each."""
        key = query if key is None else key
        value = key if value is None else value
        found = []
        heads = (self.num_heads, self.num_kv_heads, self.num_kv_heads)
        for x, layer, count in zip((query, key, value), (self.query, self.key, self.value), heads, strict=True):
            if x.shape is None or len(x.shape) != 3:
                axes = "(batch, length, features)" if self.batch_first else "(length, batch, features)"
                raise ShapeError(f"MultiheadAttention needs tensors {axes}, came {x.shape}")
            g, y = graph_of(x), layer(x)
            sizes = [size_in_run(y, 0), size_in_run(y, 1), count, self.head_size]
            parted = g.reshape(y, shape_of_sizes(y, sizes))
            found.append(g.transpose(parted, (0, 2, 1, 3) if self.batch_first else (1, 2, 0, 3)))
        return found

    def _padding_of(self, key: Tensor) -> Tensor | None:
        """True where a key is none, by the mask that came with them."""
        g, real = graph_of(key), mask_of(key)
        if real is None:
            return None
        return g.not_(real if self.batch_first else g.swap_axes(real, 0, 1))

    def _placed(
        self, q: Tensor, k: Tensor, v: Tensor, cache: KeyValueCache | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Queries, keys and values as they are compared, and what positions and cache add to the scores."""
        g, added = graph_of(q), None
        if self.positions is None and cache is None:
            return q, k, v, None
        if cache is None:
            queries, keys = (places_from(x, 0, size_in_run(x, 2)) for x in (q, k))
        else:
            queries, keys = cache.places(q, size_in_run(q, 2)), cache.all_places(q)
        if self.positions is not None:
            q = self.positions.turned(q, queries)
            k = self.positions.turned(k, keys if cache is None else queries)
            added = self.positions.added(q, queries, keys)
        if cache is not None:
            k, v = cache.grown(self, k, v)
            ahead = added_mask(g.less_than(g.expand_dims(queries, 1), g.expand_dims(keys, 0)), q)
            added = ahead if added is None else added + ahead
        return q, k, v, added

    def _grouped(self, x: Tensor) -> Tensor:
        """(..., heads, n, m) as (..., kv_heads, heads of each, n, m), where heads share keys and values: else as it is.

        Keys and values, and masks that are equal for all heads, broadcast.
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
        sizes = [size_in_run(together, 0), size_in_run(together, 1), self.embed_dim]
        return self.output(g.reshape(together, shape_of_sizes(y, sizes)))

    def _weights(self, q: Tensor, k: Tensor, added: Tensor | None) -> Tensor:
        g, half = graph_of(q), q.dtype if q.dtype.itemsize == 2 and autocast_dtype() is None else None
        if half is not None:  # scores are sums that may leave float16, as those of the operation are
            q, k, added = g.cast(q, float32), g.cast(k, float32), None if added is None else g.cast(added, float32)
        scale = 1 / math.sqrt(self.head_size)
        scores = g.matrix_multiplication(self._grouped(q * scale), g.swap_axes(self._grouped(k), -1, -2))
        scores = self._ungrouped(scores)
        if added is None:
            weights = g.softmax(scores, -1)
        else:
            opened, blind = opened_mask(added)
            weights = g.softmax(scores + opened, -1)
            weights = g.select(blind, g.constant(0.0, dtype=weights.dtype), weights)
        weights = weights if half is None else g.cast(weights, half)
        if not self.rate:
            return weights
        return self.when_training(weights, lambda: g.dropout(weights, self.rate), lambda: weights)

    def _mask(
        self,
        q: Tensor,
        k: Tensor,
        mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
        added: Tensor | None = None,
    ) -> Tensor | None:
        """All masks, and what positions add, as one that is added to the scores."""
        parts = [] if mask is None else [added_mask(mask, q)]
        if key_padding_mask is not None:
            parts.append(graph_of(q).expand_dims(added_mask(key_padding_mask, q), (1, 2)))
        if is_causal:
            parts.append(added_mask(causal_mask(q, size_in_run(q, 2), size_in_run(k, 2)), q))
        for part in parts:
            added = part if added is None else added + part
        return added


class PositionalEncoding(Module):
    """Adds waves by which positions can be told apart, then drops out. Vaswani et al., arXiv:1706.03762.

    result[:, t, 2 i] = x + sin(t / 10000^(2 i / E)), result[:, t, 2 i + 1] = x + cos of the same. Args: max_length, how
    long sequences may be whose length is known only in a run, where longer ones are a ShapeError; dropout; batch_first.
    Input (N, T, E), or (T, N, E). Positions that are learned are an Embedding of 0 to T - 1. Errors: ShapeError, also
    of the run.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.PositionalEncoding()(g.constant(0.0, (1, 1, 4)))).tolist()
    [[[0.0, 1.0, 0.0, 1.0]]]
    """

    passes_mask = True

    def __init__(self, max_length: int = 5000, *, dropout: float = 0.0, batch_first: bool = True) -> None:
        self.max_length, self.batch_first = max_length, batch_first
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape is None or len(x.shape) != 3:
            raise ShapeError(f"PositionalEncoding needs an input of three axes, its shape is {x.shape}")
        g, axis = graph_of(x), 1 if self.batch_first else 0
        features, length = size_of(x, -1, None, "PositionalEncoding"), size_in_run(x, axis)
        known = length if isinstance(length, int) else self.max_length
        angles = np.arange(known)[:, None] / 10000 ** (np.arange(0, features, 2) / features)
        waves = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(known, -1)[:, :features]
        table = g.constant(waves, dtype=x.dtype)
        if not isinstance(length, int):
            sizes = shape_of_sizes(x, [length, features])
            # a slice ends where its source does: the reshape refuses what is longer
            table = g.reshape(g.slice(table, [0, 0], sizes=sizes), sizes)
        y = x + (table if self.batch_first else g.expand_dims(table, 1))
        return self.dropout(y) if self.dropout.rate else y
