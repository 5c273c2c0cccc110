"""KeyValueCache, which stores keys and values of earlier steps, so that each new step computes only its own.

The keys and values of each attention layer are stored in variables of the cache's maximum length. A call with the cache
writes the keys and values of its steps at their positions, leaves all other entries unchanged, and attends to all steps
stored so far. The position is a tensor instead of a constant, so all calls of the same length share one program
([why](docs/decisions/0032-key-value-caches-are-variables.md)).
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
    """Cache of keys and values for the attention layers of one model, for sequences that grow step by step.

    Each attention layer creates its variables in its first call with the cache; they are neither parameters nor buffers
    of the model. Running the result of such a call stores the keys and values of its steps. Entries after the position
    are never read, so a run at position 0 starts over. A run past max_length raises OutOfRangeError.

    Args:
        rows: Number of sequences.
        max_length: Maximum length of the sequences.
        position: Number of steps already stored, at which the steps of a call start: an int32 tensor with one element,
            either a placeholder fed in each run or a variable.

    Raises:
        ShapeError: If rows or max_length is below 1, or position is not int32 with one element.
        GraphError: If a layer of another graph is called with the cache.

    Example:
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
            raise ShapeError(f"KeyValueCache: rows must be at least 1, got {rows}")
        if position.dtype != int32 or position.shape not in ((), (1,)):
            raise ShapeError(
                f"KeyValueCache: position must be int32 of shape () or (1,), got {position.dtype} of shape "
                f"{position.shape}"
            )
        self.rows, self.max_length = rows, max_length
        self.position = graph_of(position).reshape(position, (1,))
        self._kept: dict[int, tuple[Module, Tensor, Tensor]] = {}

    @property
    def variables(self) -> list[Tensor]:
        """Return the key and value variables of all layers, each (rows, heads, max_length, features)."""
        return [variable for _, *both in self._kept.values() for variable in both]

    def places(self, x: Tensor, count: int | Tensor) -> Tensor:
        """Return the positions of this call's steps.

        Args:
            x: Tensor whose graph receives the positions.
            count: Number of steps, an int or a one-element int32 tensor.

        Returns:
            An int32 tensor (count,).
        """
        return places_from(x, self.position, count)

    def all_places(self, x: Tensor) -> Tensor:
        """Return all positions of the cache.

        Args:
            x: Tensor whose graph receives the positions.

        Returns:
            An int32 tensor (max_length,).
        """
        return places_from(x, 0, self.max_length)

    def grown(self, layer: Module, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store a layer's keys and values of this call, and return all keys and values stored so far.

        Args:
            layer: Attention layer that owns the keys and values.
            keys: Keys of this call's steps, (rows, heads, steps, features).
            values: Values of this call's steps, (rows, heads, steps, features).

        Returns:
            All keys and all values, (rows, heads, max_length, features) each.

        Raises:
            GraphError: If keys is not in the graph of the cache's position.
            ShapeError: If the number of sequences is wrong, or the number of heads or features is dynamic.
        """
        g = graph_of(keys)
        if g is not self.position.graph:
            raise GraphError(
                "KeyValueCache: keys and values must be in the graph of position, but are in another graph: create the "
                "cache with a position tensor of the model's graph"
            )
        if id(layer) not in self._kept:
            self._kept[id(layer)] = (layer, self._room(keys), self._room(values))
        _, *variables = self._kept[id(layer)]
        return tuple(self._put(*pair) for pair in zip(variables, (keys, values), strict=True))  # type: ignore[return-value]

    def _room(self, x: Tensor) -> Tensor:
        rows, heads, _, features = x.shape or (-1, -1, -1, -1)
        if rows not in (-1, self.rows) or min(heads, features) < 0:
            raise ShapeError(
                f"KeyValueCache: keys and values must be (rows, heads, steps, features) with rows={self.rows} and "
                f"known heads and features, got shape {x.shape}"
            )
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
        """Return operations that reorder the stored sequences: row i receives the contents of row rows[i].

        Beam search uses this to keep its best sequences.

        Args:
            rows: int32 (rows,), the source row for each row.

        Returns:
            Operations to pass to a run as target operations, two for each layer.

        Example:
            >>> g = mg.Graph()
            >>> cache = mg.nn.KeyValueCache(2, 16, g.placeholder((1,), mg.int32))
            >>> y = mg.nn.MultiheadAttention(8, 2)(g.placeholder((2, -1, 8)), cache=cache)
            >>> len(cache.reordered(g.constant([1, 1])))
            2
        """
        g = graph_of(rows)
        return [g.assign(v, g.gather(g.read(v), rows, axis=0, out_of_range="error")) for v in self.variables]
