"""KeyValueCache, which stores keys and values of earlier steps, so that each new step computes only its own.

The keys and values of each attention layer are stored in variables of the cache's maximum length. A call with the cache
writes the keys and values of its steps, leaves all other entries unchanged, and attends to the steps stored so far. The
position is a tensor instead of a constant, so all calls of the same length share one program
([why](docs/decisions/0032-key-value-caches-are-variables.md)). A call reads the whole cache unless `keys` limits it to
the filled part ([why](docs/decisions/0054-caches-read-the-filled-part.md)).
"""

from __future__ import annotations

import numpy as np

from .._checks import Size, checked
from .._core import Operation, Tensor, int32
from ..errors import GraphError, ShapeError
from .layers import shape_of_sizes, size_in_run
from .module import Module
from .parts import graph_of
from .positions import places_from


@checked
class KeyValueCache:
    """Cache of keys and values for the attention layers of one model, for sequences that grow step by step.

    Each attention layer creates its variables in its first call with the cache; they are neither parameters nor buffers
    of the model. Running the result of such a call stores the keys and values of its steps. Entries after the position
    are never read, so a run at position 0 starts over. A run past max_length raises OutOfRangeError.

    With `queries` and `keys`, the entries of the cache no longer have to be in the order of their positions: the
    sequences may start at different entries, as in a batch with padding at the front, and a sequence that is longer
    than the cache may overwrite its oldest entries, as for layers with a sliding window.

    Args:
        rows: Number of sequences.
        max_length: Maximum length of the sequences.
        position: Number of steps already stored, at which the steps of a call start: an int32 tensor with one element,
            either a placeholder fed in each run or a variable. With keys, the first entry to which a call writes.
        queries: Positions of the steps of a call, int32 (rows, steps); negative at padding. Defaults to consecutive
            positions that start at `position`.
        keys: Positions of the steps in the first entries of the cache after the call has stored its own, int32
            (entries,) or (rows, entries); negative at entries to exclude. The call reads only these entries, so its
            time depends on their number and not on max_length. Defaults to the positions 0 to max_length - 1.
        length: Length of the longest sequence, int32 (1,), for position encodings that depend on it. Defaults to one
            more than the largest position of the call.

    Raises:
        ShapeError: If rows or max_length is below 1, or position, queries, keys, or length has a wrong shape or dtype.
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

    def __init__(
        self,
        rows: int,
        max_length: Size,
        position: Tensor,
        *,
        queries: Tensor | None = None,
        keys: Tensor | None = None,
        length: Tensor | None = None,
    ) -> None:
        if rows < 1:
            raise ShapeError(f"KeyValueCache: rows must be at least 1, got {rows}")
        if position.dtype != int32 or position.shape not in ((), (1,)):
            raise ShapeError(
                f"KeyValueCache: position must be int32 of shape () or (1,), got {position.dtype} of shape "
                f"{position.shape}"
            )
        wanted = {"queries": (queries, (2,)), "keys": (keys, (1, 2)), "length": (length, (1,))}
        for name, (given, ranks) in wanted.items():
            shape = None if given is None else given.shape
            right = shape is not None and len(shape) in ranks and (len(shape) == 1 or shape[0] in (-1, rows))
            if given is not None and (given.dtype != int32 or not right):
                raise ShapeError(
                    f"KeyValueCache: {name} must be int32 with {' or '.join(map(str, ranks))} axes, the first of two "
                    f"with size rows={rows}, got {given.dtype} of shape {shape}"
                )
        self.rows, self.max_length = rows, max_length
        self.queries, self.keys, self.length = queries, keys, length
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
            An int32 tensor (count,), or (rows, count) if the cache was created with queries.
        """
        return places_from(x, self.position, count) if self.queries is None else self.queries

    def all_places(self, x: Tensor) -> Tensor:
        """Return the positions of the entries that a call reads.

        Args:
            x: Tensor whose graph receives the positions.

        Returns:
            An int32 tensor (max_length,), or the argument keys if the cache was created with it.
        """
        return places_from(x, 0, self.max_length) if self.keys is None else self.keys

    def grown(self, layer: Module, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store a layer's keys and values of this call, and return all keys and values that the call reads.

        Args:
            layer: Attention layer that owns the keys and values.
            keys: Keys of this call's steps, (rows, heads, steps, features).
            values: Values of this call's steps, (rows, heads, steps, features).

        Returns:
            Keys and values, (rows, heads, entries, features) each, where entries is the number of `all_places`.

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
        whole = g.control_dependency([update], lambda: g.read(variable))
        if self.keys is None:
            return whole
        extent = size_in_run(self.keys, -1)
        return g.slice(whole, [0] * 4, sizes=shape_of_sizes(x, [self.rows, heads, extent, features]))

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
