"""Position encodings used inside attention: rotated queries and keys, or terms added to the scores.

Pass one of them as `MultiheadAttention(positions=...)`. Each receives the positions of the queries and of the keys, so
it works unchanged with a cache, where queries follow the stored keys. For encodings that are added to the data, use
`PositionalEncoding`, or an `Embedding` for learned ones. `RotaryPositions` is in rotary.py.
"""

from __future__ import annotations

import math

import numpy as np

from .._checks import Size
from .._core import Tensor, int32
from ..errors import ShapeError
from .initialisers import Normal
from .layers import shape_of_sizes, size_in_run
from .module import Module
from .parts import graph_of


class AttentionPositions(Module):
    """Base class of position encodings.

    Subclasses override `turned`, which changes queries and keys before they are compared, or `added`, which returns
    terms for the scores. MultiheadAttention calls `of_heads` when it is created.
    """

    def of_heads(self, num_heads: Size, head_size: int) -> None:
        """Configure the number of heads and the number of features per head. Called once by MultiheadAttention.

        Args:
            num_heads: Number of query heads.
            head_size: Number of features per head.

        Raises:
            ShapeError: If the encoding does not support these numbers.
        """

    def turned(self, x: Tensor, places: Tensor) -> Tensor:
        """Return queries or keys changed according to their positions. The default returns them unchanged.

        Args:
            x: Queries or keys (N, heads, length, features).
            places: Positions, int32 (length,) or, if they differ between the sequences, (N, length).

        Returns:
            A tensor with the shape and dtype of x.
        """
        return x

    def added(self, like: Tensor, queries: Tensor, keys: Tensor) -> Tensor | None:
        """Return a term to add to the attention scores, or None if there is no such term. The default returns None.

        Args:
            like: Tensor whose graph and dtype the term takes.
            queries: Positions of the queries, int32 (L,) or, if they differ between the sequences, (N, L).
            keys: Positions of the keys, int32 (S,) or (N, S).

        Returns:
            A tensor (heads, L, S) or (N, heads, L, S), or None.
        """
        return None

    def forward(self, x: Tensor) -> Tensor:
        """Apply `turned` to x (N, heads, length, features) at positions 0 to length - 1.

        Args:
            x: Queries or keys (N, heads, length, features).

        Returns:
            A tensor with the shape and dtype of x.
        """
        return self.turned(x, places_from(x, 0, size_in_run(x, 2)))


def places_from(x: Tensor, first: int | Tensor, count: int | Tensor) -> Tensor:
    """Return the positions first, first + 1, ..., int32 (count,), in x's graph."""
    g = graph_of(x)
    if isinstance(first, int) and isinstance(count, int):
        return g.constant(np.arange(first, first + count, dtype=np.int32))
    return g.coordinate_along_axis(0, shape_of_sizes(x, [count])) + first


def distances(queries: Tensor, keys: Tensor) -> Tensor:
    """Return the position of each key minus that of each query, int32 (L, S) or (N, L, S)."""
    g = graph_of(keys)
    return g.expand_dims(keys, -2) - g.expand_dims(queries, -1)


class RelativePositions(AttentionPositions):
    """Relative position bias of T5: a learned number for each head and range of distances, added to the scores.

    Small distances have a bucket each; larger ones share buckets whose ranges grow logarithmically up to max_distance.
    All larger distances share the last bucket. Layers that are passed the same object share its weight, as in T5.

    Args:
        num_buckets: Number of buckets, even and at least 4; if bidirectional, half of them are for keys after the
            query. Defaults to 32.
        max_distance: Distance from which all distances share the last bucket. Defaults to 128.
        bidirectional: Whether queries attend to later keys. Defaults to True.

    Attributes:
        weight: (num_buckets, num_heads).

    Raises:
        ShapeError: If num_buckets is invalid, max_distance is too small for it, or layers with different numbers of
            heads share the object.

    Source: Raffel et al., arXiv:1910.10683.

    Example:
        >>> g = mg.Graph()
        >>> attention = mg.nn.MultiheadAttention(32, 4, positions=mg.nn.RelativePositions())
        >>> attention(g.placeholder((-1, 20, 32))).shape, attention.positions.weight.shape
        ((-1, 20, 32), (32, 4))
    """

    weight: Tensor

    def __init__(self, num_buckets: int = 32, max_distance: int = 128, *, bidirectional: bool = True) -> None:
        own = num_buckets // 2 if bidirectional else num_buckets
        if num_buckets < 4 or num_buckets % 2 or max_distance <= own // 2:
            raise ShapeError(
                f"RelativePositions: num_buckets must be even and at least 4, and max_distance above {own // 2}, below "
                f"which each distance has its own bucket; got num_buckets={num_buckets} and max_distance={max_distance}"
            )
        self.num_buckets, self.max_distance, self.bidirectional = num_buckets, max_distance, bidirectional
        self.num_heads: int | None = None

    def of_heads(self, num_heads: Size, head_size: int) -> None:
        if self.num_heads not in (None, num_heads):
            raise ShapeError(
                f"RelativePositions: layers that share this object must have {self.num_heads} heads, got a layer with "
                f"{num_heads} heads: create a separate RelativePositions for it"
            )
        self.num_heads = num_heads

    def build(self, x: Tensor) -> None:
        shape = (self.num_buckets, self.num_heads or 1)
        self.weight = self.add_parameter("weight", x, shape, Normal(0.0, 0.02), outputs_first=True)

    def added(self, like: Tensor, queries: Tensor, keys: Tensor) -> Tensor | None:
        self.ensure_built(like)
        g = graph_of(like)
        distance = distances(queries, keys)
        found = g.gather(self.weight, self.buckets(distance), axis=0)
        self.load_waiting()
        return g.cast(g.transpose(found, (2, 0, 1) if len(found.shape or ()) == 3 else (0, 3, 1, 2)), like.dtype)

    def buckets(self, distance: Tensor) -> Tensor:
        """Return the bucket of each distance.

        Args:
            distance: Position of the key minus position of the query, int32.

        Returns:
            Bucket indices from 0 to num_buckets - 1, int32, with the shape of distance.
        """
        g, own = graph_of(distance), self.num_buckets
        behind: Tensor | None = None
        if self.bidirectional:
            own //= 2
            behind = g.cast(g.greater_than(distance, 0), int32) * own
            distance = g.absolute(distance)
        else:
            distance = g.maximum(-distance, 0)
        single = own // 2
        far = g.cast(g.maximum(distance, single), "float32")
        steps = g.logarithm(far / single) * ((own - single) / math.log(self.max_distance / single))
        ranges = g.minimum(g.cast(steps, int32) + single, own - 1)
        bucket = g.select(g.less_than(distance, single), distance, ranges)
        return bucket if behind is None else bucket + behind


class LinearPositions(AttentionPositions):
    """ALiBi: subtract a multiple of the distance between query and key, with a different slope for each head.

    The slope of head h of H is 2^(-8 (h + 1) / H). If H is not a power of two, the slopes are those of the next lower
    power, followed by every second one of the next higher power, as published.

    Source: Press et al., arXiv:2108.12409.

    Example:
        >>> g = mg.Graph()
        >>> attention = mg.nn.MultiheadAttention(32, 4, positions=mg.nn.LinearPositions())
        >>> attention(g.placeholder((-1, 20, 32)), is_causal=True).shape
        (-1, 20, 32)
    """

    def __init__(self) -> None:
        self.num_heads = 1

    def of_heads(self, num_heads: Size, head_size: int) -> None:
        self.num_heads = num_heads

    def added(self, like: Tensor, queries: Tensor, keys: Tensor) -> Tensor | None:
        g = graph_of(like)
        distance = g.absolute(distances(queries, keys))
        shares = g.constant(-np.array(linear_shares(self.num_heads), np.float32)[:, None, None])
        return g.cast(shares * g.cast(g.expand_dims(distance, -3), "float32"), like.dtype)


def linear_shares(heads: int) -> list[float]:
    """Return the slope of ALiBi's linear bias for each head."""

    def of_power(count: int) -> list[float]:
        return [2.0 ** (-8 * (head + 1) / count) for head in range(count)]

    lower = 2 ** int(math.log2(heads))
    return of_power(lower) + of_power(2 * lower)[0::2][: heads - lower]
