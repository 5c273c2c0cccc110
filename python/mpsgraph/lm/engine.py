"""Engine: runs a decoder step by step with key-value caches whose cost is their filled part.

The programs read only the first entries of a cache, rounded up to a power of two, so a few programs serve all lengths.
Layers with a sliding window keep a shorter cache, in which new entries overwrite the oldest ones. The positions of all
entries are kept here and fed to each run; a negative position excludes an entry. This is how batches of prompts of
different lengths work: shorter prompts begin with padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from .._core import Tensor, int32
from ..errors import GraphError, ShapeError
from ..nn.adapters import Adapted
from ..nn.key_value_cache import KeyValueCache
from ..nn.module import mode_of
from ..nn.parts import all_variables, graph_of
from .decoder import Caches, Decoder, LanguageModel
from .sampling import Sampler

CHUNK = 512
"""Maximum number of tokens of one run, so that activations of long prompts stay small."""
_SMALLEST = 64  # Minimum number of entries that a run reads, to avoid programs for every small length.
_PADDED = 64  # Prompts are divided into powers of two; a rest below this number is padded to one.


def power_of_two(count: int) -> int:
    """Return the smallest power of two that is at least count."""
    return 1 << max(count - 1, 0).bit_length()


class Engine:
    """The programs and the caches that continue a number of sequences.

    Args:
        model: Decoder that has been called.
        rows: Number of sequences.
        capacity: Maximum number of tokens of a sequence, including padding.
        chunk: Maximum number of tokens of one run.
    """

    def __init__(self, model: Decoder, rows: int, capacity: int, chunk: int = CHUNK) -> None:
        a, g = model.architecture, graph_of(model.embedding.weight)
        self.graph, self.rows, self.capacity, self.chunk = g, rows, capacity, chunk
        window = max((w for w in a.windows if w is not None), default=0)
        self.recent = window + chunk if 0 < window + chunk < capacity else 0
        """Number of entries in the caches of layers with a window; 0 if they are as long as the others."""
        self.tokens = g.placeholder((rows, -1), int32, "tokens")
        self.queries = g.placeholder((rows, -1), int32, "queries")
        self.at = g.placeholder((-1,), int32, "at")
        scalings = [r.scaling for r in a.rotary if r is not None and r.scaling is not None]
        lengths = [s["original_max_position_embeddings"] for s in scalings if s["rope_type"] == "longrope"]
        self.switch = max(lengths, default=0)
        """Length beyond which other frequencies apply, so that all tokens must be processed again; 0 if none."""
        self.switched = False
        depends = any(s["rope_type"] in ("dynamic", "longrope") for s in scalings)
        self.length = g.placeholder((1,), int32, "length") if depends else None
        self.history = np.zeros((2, rows, capacity), np.int32)
        """All tokens in the caches, and their positions."""
        self.starts, self.keys, self.caches = [], [], []
        for entries in (capacity, *([self.recent] if self.recent else [])):
            self.starts.append(g.placeholder((1,), int32, "start"))
            self.keys.append(g.placeholder((rows, -1), int32, "keys"))
            self.caches.append(
                KeyValueCache(
                    rows, entries, self.starts[-1], queries=self.queries, keys=self.keys[-1], length=self.length
                )
            )
        cache = Caches(*self.caches) if self.recent else self.caches[0]
        with mode_of(model, False):
            logits = model(self.tokens, cache=cache, at=self.at)
        self.logits = g.cast(logits, "float32")
        self.used = [cache.variables != [] for cache in self.caches]
        self.positions = [np.full((rows, cache.max_length), -1, np.int32) for cache in self.caches]
        self.filled = 0
        """Number of entries of the longest cache that hold tokens, including padding."""

    def reset(self) -> None:
        """Forget all tokens."""
        self.filled = 0
        for positions in self.positions:
            positions.fill(-1)

    def rewind(self, count: int) -> None:
        """Forget the last tokens.

        Args:
            count: Number of tokens, at most `chunk` if layers with a window have overwritten entries.
        """
        if count > self.rewindable:
            raise GraphError(f"the cache cannot forget {count} tokens, only the last {self.rewindable}")
        entries = np.arange(self.filled - count, self.filled)
        for cache, positions in zip(self.caches, self.positions, strict=True):
            positions[:, entries % cache.max_length] = -1
        self.filled -= count

    @property
    def rewindable(self) -> int:
        """Number of tokens that `rewind` can forget."""
        return min(self.filled, self.chunk) if 0 < self.recent < self.filled else self.filled

    def run(self, tokens: np.ndarray, positions: np.ndarray, *, every: bool = False) -> np.ndarray:
        """Process tokens that follow the tokens in the caches.

        Args:
            tokens: int32 (rows, L).
            positions: Positions of the tokens in their sequences, int32 (rows, L); negative at padding.
            every: Whether to return the logits of all tokens instead of the last one. Defaults to False.

        Returns:
            Logits, float32 (rows, vocabulary), or (rows, L, vocabulary).

        Raises:
            ShapeError: If the tokens exceed the capacity.
        """
        count = tokens.shape[1]
        if self.filled + count > self.capacity:
            raise ShapeError(
                f"{self.filled + count} tokens exceed the capacity of the cache, {self.capacity}: pass a shorter "
                "prompt or fewer max_tokens, or create a longer cache"
            )
        length = int(positions.max()) + 1
        if self.switch and self.filled and self.switched != (length > self.switch):
            before = self.history[:, :, : self.filled].copy()
            self.reset()
            self._process(before[0], before[1], length, every=False)
        return self._process(tokens, positions, length, every)

    def _process(self, tokens: np.ndarray, positions: np.ndarray, length: int, every: bool) -> np.ndarray:
        """Process tokens in pieces; `length` is the length of the longest sequence at the end."""
        count, done, found = tokens.shape[1], 0, []
        self.switched = length > self.switch
        self.history[:, :, self.filled : self.filled + count] = tokens, positions
        while done < count:
            size, padded = self._piece(count - done)
            part = slice(done, done + size)
            done += size
            wanted = np.arange(size) if every else np.array([size - 1])
            logits = self._run(tokens[:, part], positions[:, part], padded, wanted, length)
            if every or done == count:
                found.append(logits)
        return np.concatenate(found, 1) if every else found[-1][:, 0]

    def _piece(self, left: int) -> tuple[int, int]:
        """Return how many of the remaining tokens to process in one run, and the length to which to pad them."""
        room = self.capacity - self.filled
        if self.recent:
            room = min(room, self.recent - self.filled % self.recent)
        most = min(left, self.chunk, room)
        size = 1 << (most.bit_length() - 1)
        if most == left and left < _PADDED and left > 8 and power_of_two(left) <= min(room, self.chunk):
            return left, power_of_two(left)
        return (left, left) if left <= min(8, most) else (size, size)

    def _run(self, tokens: np.ndarray, positions: np.ndarray, padded: int, at: np.ndarray, length: int) -> np.ndarray:
        size = tokens.shape[1]
        more = ((0, 0), (0, padded - size))
        feeds: dict[Tensor, np.ndarray] = {
            self.tokens: np.ascontiguousarray(np.pad(tokens, more), np.int32),
            self.queries: np.ascontiguousarray(np.pad(positions, more, constant_values=-1), np.int32),
            self.at: at.astype(np.int32),
        }
        if self.length is not None:
            feeds[self.length] = np.array([length], np.int32)
        for cache, held, start, keys, used in zip(
            self.caches, self.positions, self.starts, self.keys, self.used, strict=True
        ):
            first = self.filled % cache.max_length
            held[:, first : first + padded] = -1
            held[:, first : first + size] = positions
            if used:
                extent = min(max(power_of_two(self.filled + padded), _SMALLEST), cache.max_length)
                feeds[start] = np.array([first], np.int32)
                feeds[keys] = np.ascontiguousarray(held[:, :extent])
        found = self.graph.run(feeds, self.logits).numpy()
        self.filled += size
        return found


class _Pool:
    """The engines of a model that are not in use."""

    def __init__(self, signature: tuple[Any, ...]) -> None:
        self.signature, self.free, self.lock = signature, list[Engine](), Lock()


_pools: WeakKeyDictionary[LanguageModel, _Pool] = WeakKeyDictionary()
_pools_lock = Lock()


def _signature(model: LanguageModel) -> tuple[Any, ...]:
    """Return what changes when layers are replaced or adapters selected, so that programs must be built again."""
    parts = [part for _, part in model.named_modules()]
    active = [tuple(part.active.items()) for part in parts if isinstance(part, Adapted)]
    return (*map(id, parts), *map(id, all_variables(model).values()), *active)


def borrow(model: LanguageModel, rows: int, capacity: int, chunk: int = CHUNK) -> Engine:
    """Return an engine with empty caches that nothing else uses until `give_back`."""
    if not isinstance(model, Decoder):
        raise GraphError(f"generation needs a Decoder, got {type(model).__name__}")
    signature = _signature(model)
    with _pools_lock:
        pool = _pools.get(model)
        if pool is None or pool.signature != signature:
            pool = _pools[model] = _Pool(signature)
    with pool.lock:
        fitting = [e for e in pool.free if e.rows == rows and e.capacity >= capacity and e.chunk == chunk]
        if fitting:
            engine = min(fitting, key=lambda e: e.capacity)
            pool.free.remove(engine)
            engine.reset()
            return engine
        return Engine(model, rows, max(power_of_two(capacity), 256), chunk)


def give_back(model: LanguageModel, engine: Engine) -> None:
    """Make an engine available to later calls of `borrow`."""
    with _pools_lock:
        pool = _pools.get(model)
    if pool is not None:
        with pool.lock:
            pool.free.append(engine)


@contextmanager
def borrowed(model: LanguageModel, rows: int, capacity: int) -> Iterator[Engine]:
    """Use an engine within a `with` block."""
    engine = borrow(model, rows, capacity)
    try:
        yield engine
    finally:
        give_back(model, engine)


def continued(
    engine: Engine, tokens: list[int], new: Sequence[int], count: int, sampler: Sampler, ends: frozenset[int]
) -> Iterator[int]:
    """Yield tokens that follow `tokens`, of which the engine has not yet processed the last ones, `new`.

    Each yielded token is appended to `tokens`.
    """
    for _ in range(count):
        positions = np.arange(len(tokens) - len(new), len(tokens), dtype=np.int32)[None]
        logits = engine.run(np.array([new], np.int32), positions)[0]
        token = sampler.choose(logits, tokens)
        tokens.append(token)
        new = [token]
        yield token
        if token in ends:
            return
