"""Positions that attention sees while it compares: rotated queries and keys, or numbers added to the scores.

`MultiheadAttention(positions=...)` takes one of these. Each is told the places of the queries and of the keys, so that
it means the same with a cache, where queries stand behind what is kept. Positions that are added to the data are
`PositionalEncoding` and, learned, an `Embedding`.
"""

from __future__ import annotations

import math

import numpy as np

from .._core import Tensor, int32
from ..errors import GraphError, ShapeError
from .initialisers import Normal
from .layers import shape_of_sizes, size_in_run
from .module import Module, graph_of


class AttentionPositions(Module):
    """The base: `turned` changes queries and keys before they are compared, `added` gives numbers for their scores.

    What heads there are is told by `of_heads`, which MultiheadAttention calls when it is made.
    """

    def of_heads(self, num_heads: int, head_size: int) -> None:
        """Told once how many heads there are, and how many features each has. Errors: ShapeError."""

    def turned(self, x: Tensor, places: Tensor) -> Tensor:
        """Queries or keys (N, heads, length, features) that stand at places, int32 (length)."""
        return x

    def added(self, like: Tensor, queries: Tensor, keys: Tensor) -> Tensor | None:
        """What is added to the scores, (heads, L, S) in like's dtype, of places int32 (L) and (S); None for nothing."""
        return None

    def forward(self, x: Tensor) -> Tensor:
        """Rotated as if x, (N, heads, length, features), stood at 0 to length - 1."""
        return self.turned(x, places_from(x, 0, size_in_run(x, 2)))


def places_from(x: Tensor, first: int | Tensor, count: int | Tensor) -> Tensor:
    """first, first + 1, and so on, int32 (count), in x's graph."""
    g = graph_of(x)
    if isinstance(first, int) and isinstance(count, int):
        return g.constant(np.arange(first, first + count, dtype=np.int32))
    return g.coordinate_along_axis(0, shape_of_sizes(x, [count])) + first


class RotaryPositions(AttentionPositions):
    """Rotates pairs of features by angles that grow with the place. Su et al., arXiv:2104.09864.

    Feature i of the first half of a head and feature i of the second turn together by place / base^(2 i / head), as in
    Llama's published code for Hugging Face; interleaved turns features 2 i and 2 i + 1 instead, as in the paper. Args:
    base; interleaved. Heads must have an even number of features. Their scores depend on distances alone. Errors:
    ShapeError.

    >>> g = mg.Graph()
    >>> x = g.constant([[[[1.0, 0.0]] * 2]])  # one sequence, one head, two places, two features
    >>> g.run({}, mg.nn.RotaryPositions()(x)).numpy()[0, 0].round(2)
    array([[1.  , 0.  ],
           [0.54, 0.84]], dtype=float32)
    """

    def __init__(self, base: float = 10000.0, *, interleaved: bool = False) -> None:
        if not 1 < base < math.inf:
            raise GraphError(f"RotaryPositions: base must be above 1, got {base}")
        self.base, self.interleaved = base, interleaved

    def of_heads(self, num_heads: int, head_size: int) -> None:
        if head_size % 2:
            raise ShapeError(f"RotaryPositions: heads must have an even number of features, they have {head_size}")

    def turned(self, x: Tensor, places: Tensor) -> Tensor:
        g, features = graph_of(x), (x.shape or (-1,))[-1]
        self.of_heads(1, features)
        half = features // 2
        slower = self.base ** (-np.arange(half) / half)
        angles = g.expand_dims(g.cast(places, "float32"), 1) * g.constant(slower.astype(np.float32))
        sine, cosine = (g.cast(wave(angles), x.dtype) for wave in (g.sin, g.cos))
        if self.interleaved:
            sine, cosine = (g.concat([w, w], 1, interleave=True) for w in (sine, cosine))
            pairs = g.reshape(x, shape_of_sizes(x, [*(size_in_run(x, axis) for axis in range(3)), half, 2]))
            beside = g.concat([-g.slice_axis(pairs, 4, 1, 1), g.slice_axis(pairs, 4, 0, 1)], 4)
            beside = g.reshape(beside, shape_of_sizes(x, [size_in_run(x, axis) for axis in range(4)]))
        else:
            sine, cosine = (g.concat([w, w], 1) for w in (sine, cosine))
            beside = g.concat([-g.slice_axis(x, 3, half, half), g.slice_axis(x, 3, 0, half)], 3)
        return x * cosine + beside * sine


class RelativePositions(AttentionPositions):
    """A learned number for each head and range of distances, added to scores: T5's. Raffel et al., arXiv:1910.10683.

    Near distances have a number each, far ones share one in ranges that grow with the logarithm, up to max_distance;
    what is farther has the last. Args: num_buckets, the ranges, half of them for keys behind the query where
    bidirectional; max_distance; bidirectional, False where queries see no keys behind them. weight (num_buckets,
    heads). Layers that share one object share its numbers, as T5's do. Errors: ShapeError.

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
                "RelativePositions: num_buckets must be even and at least 4, and max_distance above what single "
                f"distances take, got {num_buckets} and {max_distance}"
            )
        self.num_buckets, self.max_distance, self.bidirectional = num_buckets, max_distance, bidirectional
        self.num_heads: int | None = None

    def of_heads(self, num_heads: int, head_size: int) -> None:
        if self.num_heads not in (None, num_heads):
            raise ShapeError(f"RelativePositions: they are of {self.num_heads} heads, not of {num_heads}")
        self.num_heads = num_heads

    def build(self, x: Tensor) -> None:
        self.weight = self.add_parameter("weight", x, (self.num_buckets, self.num_heads or 1), Normal(0.0, 0.02))

    def added(self, like: Tensor, queries: Tensor, keys: Tensor) -> Tensor | None:
        self.ensure_built(like)
        g = graph_of(like)
        distance = g.expand_dims(keys, 0) - g.expand_dims(queries, 1)
        found = g.gather(self.weight, self.buckets(distance), axis=0)
        self.load_waiting()
        return g.cast(g.transpose(found, (2, 0, 1)), like.dtype)

    def buckets(self, distance: Tensor) -> Tensor:
        """The range of each distance, key's place less query's, int32."""
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
    """Scores less a share of the distance, another one for each head: ALiBi. Press et al., arXiv:2108.12409.

    Head h of H takes off 2^(-8 (h + 1) / H) times the distance; where H is no power of two, the shares are those of the
    next lower one, and then every second of those of the next higher one, as published. Errors: none.

    >>> g = mg.Graph()
    >>> attention = mg.nn.MultiheadAttention(32, 4, positions=mg.nn.LinearPositions())
    >>> attention(g.placeholder((-1, 20, 32)), is_causal=True).shape
    (-1, 20, 32)
    """

    def __init__(self) -> None:
        self.num_heads = 1

    def of_heads(self, num_heads: int, head_size: int) -> None:
        self.num_heads = num_heads

    def added(self, like: Tensor, queries: Tensor, keys: Tensor) -> Tensor | None:
        g = graph_of(like)
        distance = g.absolute(g.expand_dims(keys, 0) - g.expand_dims(queries, 1))
        shares = g.constant(-np.array(linear_shares(self.num_heads), np.float32)[:, None, None])
        return g.cast(shares * g.cast(g.expand_dims(distance, 0), "float32"), like.dtype)


def linear_shares(heads: int) -> list[float]:
    """How much of the distance each head takes off."""

    def of_power(count: int) -> list[float]:
        return [2.0 ** (-8 * (head + 1) / count) for head in range(count)]

    lower = 2 ** int(math.log2(heads))
    return of_power(lower) + of_power(2 * lower)[0::2][: heads - lower]
