"""Batches of sequences of about one length: little padding, and few shapes, each of which is compiled once.

Sequences of different lengths fall into buckets by the shortest boundary that holds them. A batch comes from one
bucket and is padded to its boundary. Order and state are those of `batches`: seed and epoch decide, and a checkpoint in
the middle of an epoch continues with the very next batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._checks import checked
from .._display import shown
from ..errors import DTypeError, ShapeError
from .batches import Batches

Sequences = Sequence[np.ndarray]
_SHORTEST = 8  # the first boundary where none are given


@checked
class Buckets(Batches):
    """An iterable over the batches of one epoch; the next `iter` goes on with the next epoch, or where it was left.

    >>> sequences = [np.ones(n, np.float32) for n in (3, 5, 7, 2)]
    >>> data = mg.data.bucketed((sequences, np.arange(4)), batch_size=2, boundaries=[4, 8], shuffle=False)
    >>> type(data).__name__, [x.shape for x, y in data]
    ('Buckets', [(2, 4), (2, 8)])
    """

    def __init__(
        self,
        dataset: Sequence[Sequences | np.ndarray],
        batch_size: int,
        boundaries: Sequence[int] | None,
        shuffle: bool,
        seed: int,
        drop_last: bool,
        padding: float,
        with_lengths: bool,
    ) -> None:
        self.columns = [_Column(column, padding, i) for i, column in enumerate(dataset)]
        sizes = {len(column.items) for column in self.columns}
        if len(sizes) != 1 or not self.columns[0].ragged:
            raise ShapeError(
                "bucketed: a dataset is sequences of different lengths, a list of arrays, and beside them arrays or "
                f"lists of as many; got {', '.join(map(str, self.columns)) or 'nothing'}"
            )
        self.lengths = self.columns[0].lengths
        longest = int(self.lengths.max(initial=1))
        if boundaries is None:
            boundaries = [_SHORTEST << i for i in range(max((longest - 1) // _SHORTEST, 0).bit_length() + 1)]
        self.boundaries = np.array(boundaries, np.int64)
        if self.boundaries.size == 0 or self.boundaries[0] < 1 or (np.diff(self.boundaries) < 1).any():
            raise ShapeError(f"bucketed: boundaries must grow from 1 at least, got {shown(boundaries)}")
        if longest > self.boundaries[-1]:
            raise ShapeError(
                f"bucketed: a sequence has {longest} steps, the last boundary is {self.boundaries[-1]}: give a greater "
                "one, or cut the sequence"
            )
        if batch_size < 1:
            raise ShapeError(f"batch_size must be at least 1, got {batch_size}")
        self.with_lengths = with_lengths
        bucket_of = np.searchsorted(self.boundaries, self.lengths)
        self._buckets = [np.flatnonzero(bucket_of == i) for i in range(len(self.boundaries))]
        self._begin(len(self.lengths), batch_size, shuffle, seed, drop_last)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return sum(self._count(len(bucket)) for bucket in self._buckets)

    def _picks(self) -> Sequence[np.ndarray]:
        generator, picks = self._generator(), []
        for bucket in self._buckets:
            order = generator.permutation(bucket) if self.shuffle else bucket
            picks += [order[i * self.batch_size : (i + 1) * self.batch_size] for i in range(self._count(len(bucket)))]
        return [picks[i] for i in generator.permutation(len(picks))] if self.shuffle else picks

    def _batch(self, picked: np.ndarray) -> tuple[np.ndarray, ...]:
        steps = int(self.boundaries[np.searchsorted(self.boundaries, self.lengths[picked[0]])])
        arrays = tuple(column.batch(picked, steps if column.follows(self.lengths) else None) for column in self.columns)
        return (*arrays, self.lengths[picked].astype(np.int32)) if self.with_lengths else arrays


class _Column:
    """Sequences of one dtype whose first axes differ, or an array of samples."""

    def __init__(self, items: Sequences | np.ndarray, padding: float, number: int) -> None:
        self.ragged = not isinstance(items, np.ndarray)
        self.items = list(map(np.asarray, items)) if self.ragged else np.asarray(items)
        if self.ragged:
            kinds = {(item.dtype, item.shape[1:]) for item in self.items}
            if len(kinds) > 1 or any(item.ndim == 0 for item in self.items):
                raise ShapeError(
                    f"bucketed: the sequences of column {number} must have one dtype, and one shape but for their "
                    f"first axis; got {', '.join(sorted(f'{dtype} {shape}' for dtype, shape in kinds))}"
                )
            self.padding = np.array(padding)
            if len(kinds) and not np.can_cast(np.min_scalar_type(padding), next(iter(kinds))[0], "same_kind"):
                raise DTypeError(
                    f"bucketed: padding {padding} is no {next(iter(kinds))[0]}, which column {number} is of"
                )
        elif np.ndim(self.items) == 0:
            raise ShapeError(f"bucketed: column {number} is a number, not as many samples as there are sequences")
        self.lengths = np.array([len(item) for item in self.items] if self.ragged else [], np.int64)

    def follows(self, lengths: np.ndarray) -> bool:
        """Does each item have as many steps as the sequence it belongs to?"""
        return self.ragged and bool((self.lengths == lengths).all())

    def batch(self, picked: np.ndarray, steps: int | None) -> np.ndarray:
        """The samples, sequences padded to so many steps, or to the longest among them."""
        if isinstance(self.items, np.ndarray):
            return np.asarray(self.items[picked])
        steps = int(self.lengths[picked].max()) if steps is None else steps
        first = self.items[picked[0]]
        padded = np.full((len(picked), steps, *first.shape[1:]), self.padding, first.dtype)
        for row, i in zip(padded, picked, strict=True):
            row[: len(self.items[i])] = self.items[i]
        return padded

    def __str__(self) -> str:
        return f"an array {self.items.shape}" if isinstance(self.items, np.ndarray) else f"{len(self.items)} sequences"


@checked
def bucketed(
    dataset: Sequence[Sequence[np.ndarray] | np.ndarray],
    batch_size: int = 64,
    boundaries: Sequence[int] | None = None,
    shuffle: bool = True,
    seed: int = 0,
    drop_last: bool = False,
    *,
    padding: float = 0,
    with_lengths: bool = False,
) -> Buckets:
    """Batches of sequences of about one length, padded behind.

    Args: dataset, columns of as many samples: first the sequences, a list of arrays (T_i, ...) of one dtype; then for
    example labels, an array (n, ...), or a list of arrays, which are padded like the first where their lengths are
    equal, else to the longest of the batch; batch_size in samples; boundaries, up to how many steps each bucket takes
    and to how many it is padded: 8, 16, 32 and so on up to the longest when None; shuffle, another order in and of the
    batches each epoch, from seed and epoch; drop_last, leave out batches that are smaller, one a bucket at most;
    padding, what stands behind sequences; with_lengths, whether each batch ends with the lengths, int32 (batch,).
    Errors: ShapeError, DTypeError.

    >>> words = [np.arange(1, n + 1) for n in (2, 9, 3)]
    >>> data = mg.data.bucketed((words, np.array([0, 1, 0])), batch_size=2, boundaries=(4, 10), shuffle=False)
    >>> [(x.shape, y.tolist()) for x, y in data]
    [((2, 4), [0, 0]), ((1, 10), [1])]
    """
    return Buckets(dataset, batch_size, boundaries, shuffle, seed, drop_last, padding, with_lengths)
