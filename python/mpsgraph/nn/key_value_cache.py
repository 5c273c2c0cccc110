"""KeyValueCache: what attention found in the steps before, so that a new one computes its own keys and values alone.

The keys and values of each attention layer lie in variables, as long as the cache is. A call with the cache writes
those of its steps in their place, and nothing else, and attends to all up to there. The place is data, so that all
steps of one length run one program ([why](docs/decisions/0032-key-value-caches-are-variables.md)).
"""

from __future__ import annotations

import numpy as np

from .._checks import checked
from .._core import Operation, Tensor, int32
from ..errors import GraphError, ShapeError
from .layers import size_in_run
from .module import Module, graph_of
from .positions import places_from


@checked
class KeyValueCache:
    """Keys and values of sequences that grow, for the attention layers of one model.

    Args: rows, how many sequences there are; max_length, how long they may become; position, where the steps of a call
    begin, an int32 tensor of one element: how many steps are kept. It is fed in each run, or a variable. A run beyond
    the length is an OutOfRangeError. Layers make their variables at their first call with the cache; they are neither
    parameters nor buffers of the model. What stands behind the position is never looked at, so that a run at position 0
    begins anew. Each run of what a call gave writes the call's keys and values. Errors: GraphError, ShapeError.

    >>> g = mg.Graph()
    >>> x, position = g.placeholder((1, -1, 8)), g.placeholder((1,), mg.int32)
    >>> attention, steps = mg.nn.MultiheadAttention(8, 2), np.ones((1, 3, 8), np.float32)
    >>> y = attention(x, cache=mg.nn.KeyValueCache(1, 16, position))
    >>> whole = g.run({x: steps, position: np.int32([0])}, y).numpy()
    >>> last = g.run({x: steps[:, 2:], position: np.int32([2])}, y).numpy()
    >>> bool(np.allclose(whole[:, 2:], last))
    True
    """

    def __init__(self, rows: int, max_length: int, position: Tensor) -> None:
        if rows < 1:
            raise ShapeError(f"KeyValueCache: there must be a sequence at least, got {rows}")
        if position.dtype != int32 or position.shape not in ((), (1,)):
            raise ShapeError(
                f"KeyValueCache: position must be int32 of shape (1,), it is {position.dtype} {position.shape}"
            )
        self.rows, self.max_length = rows, max_length
        self.position = graph_of(position).reshape(position, (1,))
        self._kept: dict[int, tuple[Module, Tensor, Tensor]] = {}

    @property
    def variables(self) -> list[Tensor]:
        """The keys and values of all layers, (rows, heads, max_length, features) each."""
        return [variable for _, *both in self._kept.values() for variable in both]

    def places(self, x: Tensor, count: int | Tensor) -> Tensor:
        """The places of the steps of this call, int32 (count)."""
        return places_from(x, self.position, count)

    def all_places(self, x: Tensor) -> Tensor:
        """All places that there are, int32 (max_length)."""
        return places_from(x, 0, self.max_length)

    def grown(self, layer: Module, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """A layer's keys and values with those of this call, (rows, heads, max_length, features) each.

        Args: keys and values of this call's steps, (rows, heads, steps, features).
        """
        g = graph_of(keys)
        if g is not self.position.graph:
            raise GraphError("KeyValueCache: the cache's position is in another graph than what is to be kept")
        if id(layer) not in self._kept:
            self._kept[id(layer)] = (layer, self._room(keys), self._room(values))
        _, *variables = self._kept[id(layer)]
        return tuple(self._put(*pair) for pair in zip(variables, (keys, values), strict=True))  # type: ignore[return-value]

    def _room(self, x: Tensor) -> Tensor:
        rows, heads, _, features = x.shape or (-1, -1, -1, -1)
        if rows not in (-1, self.rows) or min(heads, features) < 0:
            raise ShapeError(f"KeyValueCache: it is of {self.rows} sequences, the keys or values are {x.shape}")
        shape = (self.rows, heads, self.max_length, features)
        return graph_of(x).variable(np.zeros(shape, x.dtype.numpy), x.dtype, "cache", trainable=False)

    def _put(self, variable: Tensor, x: Tensor) -> Tensor:
        g = graph_of(x)
        none = g.constant(np.zeros(2, np.int32))
        starts = g.concat([none, self.position, g.constant(np.zeros(1, np.int32))], 0)
        steps, (_, heads, _, features) = size_in_run(x, 2), variable.shape or ()
        sizes: list[int] | Tensor = [self.rows, heads, steps, features]  # type: ignore[list-item]
        if isinstance(steps, Tensor):
            parts = [
                g.constant([s], dtype="int32") if isinstance(s, int) else s for s in (self.rows, heads, steps, features)
            ]
            sizes = g.concat(parts, 0)
        update = g.assign(variable, g.slice_update_data(g.read(variable), x, starts, sizes=sizes))
        return g.control_dependency([update], lambda: g.read(variable))

    def reordered(self, rows: Tensor) -> list[Operation]:
        """Target operations that put other sequences in the place of each: row i becomes what row rows[i] was.

        Beam search keeps its best sequences so. Args: rows, int32 (rows).

        >>> g = mg.Graph()
        >>> cache = mg.nn.KeyValueCache(2, 16, g.placeholder((1,), mg.int32))
        >>> y = mg.nn.MultiheadAttention(8, 2)(g.placeholder((2, -1, 8)), cache=cache)
        >>> len(cache.reordered(g.constant([1, 1])))
        2
        """
        g = graph_of(rows)
        return [g.assign(v, g.gather(g.read(v), rows, axis=0, out_of_range="error")) for v in self.variables]
