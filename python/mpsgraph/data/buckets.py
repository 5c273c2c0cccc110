"""Batches of sequences of similar length, which need little padding and few compiled shapes.

Boundaries are maximum lengths. Each sequence is assigned to the bucket with the smallest boundary that is not less than
the sequence's length. All sequences of a batch come from the same bucket and are padded to its boundary. Order and
state are as for `batches`: seed and epoch determine the order, and a checkpoint in the middle of an epoch continues
with the next batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._checks import Size, checked
from .._display import shown
from ..errors import DTypeError, ShapeError
from .batches import Batches

Sequences = Sequence[np.ndarray]
_SHORTEST = 8  # First boundary if no boundaries are given.


class BatchesByLength(Batches):
    """Base class of data sets each of whose batches has rows of one bucket, a range of lengths."""

    def _divide(self, boundaries: np.ndarray | Sequence[int], lengths: np.ndarray | Sequence[int]) -> None:
        """Divide rows among buckets by their lengths; `boundaries` are the increasing largest lengths."""
        bucket_of = np.searchsorted(boundaries, lengths)
        self._buckets = [np.flatnonzero(bucket_of == i) for i in range(len(boundaries))]

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return sum(self._count(len(bucket)) for bucket in self._buckets)

    def _picks(self) -> Sequence[np.ndarray]:
        generator, picks = self._generator(), []
        for bucket in self._buckets:
            order = generator.permutation(bucket) if self.shuffle else bucket
            picks += [order[i * self.batch_size : (i + 1) * self.batch_size] for i in range(self._count(len(bucket)))]
        return [picks[i] for i in generator.permutation(len(picks))] if self.shuffle else picks


@checked
class Buckets(BatchesByLength):
    """Iterable over batches of sequences of similar length, as returned by `bucketed`.

    Each iteration goes through one epoch; the next iteration continues with the next epoch, or where an unfinished
    epoch stopped.

    Args:
        dataset: Sequences, a list of arrays, followed by other columns with as many items.
        batch_size: Number of samples per batch.
        boundaries: Increasing maximum lengths of the buckets, or None.
        shuffle: Whether each epoch has a different order.
        seed: Seed of the order.
        drop_last: Whether to omit batches with fewer samples.
        padding: Value to store after the end of each sequence.
        with_lengths: Whether the last item of each batch is an array of the sequences' lengths.

    Raises:
        ShapeError: If the columns, boundaries, or batch_size are invalid.
        DTypeError: If the dtype of the sequences cannot represent padding.

    Example:
        >>> sequences = [np.ones(n, np.float32) for n in (3, 5, 7, 2)]
        >>> data = mg.data.bucketed((sequences, np.arange(4)), batch_size=2, boundaries=[4, 8], shuffle=False)
        >>> type(data).__name__, [x.shape for x, y in data]
        ('Buckets', [(2, 4), (2, 8)])
    """

    def __init__(
        self,
        dataset: Sequence[Sequences | np.ndarray],
        batch_size: Size,
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
                "bucketed: dataset must start with a list of sequences, followed by arrays or lists with as many "
                f"items; got {', '.join(map(str, self.columns)) or 'nothing'}"
            )
        self.lengths = self.columns[0].lengths
        longest = int(self.lengths.max(initial=1))
        if boundaries is None:
            boundaries = [_SHORTEST << i for i in range(max((longest - 1) // _SHORTEST, 0).bit_length() + 1)]
        self.boundaries = np.array(boundaries, np.int64)
        if self.boundaries.size == 0 or self.boundaries[0] < 1 or (np.diff(self.boundaries) < 1).any():
            raise ShapeError(f"bucketed: boundaries must be increasing and at least 1, got {shown(boundaries)}")
        if longest > self.boundaries[-1]:
            raise ShapeError(
                f"bucketed: the longest sequence has {longest} steps, more than the last boundary, "
                f"{self.boundaries[-1]}: add a larger boundary or shorten the sequence"
            )
        if batch_size < 1:
            raise ShapeError(f"batch_size must be at least 1, got {batch_size}")
        self.with_lengths = with_lengths
        self._divide(self.boundaries, self.lengths)
        self._begin(len(self.lengths), batch_size, shuffle, seed, drop_last)

    def _batch(self, picked: np.ndarray) -> tuple[np.ndarray, ...]:
        steps = int(self.boundaries[np.searchsorted(self.boundaries, self.lengths[picked[0]])])
        arrays = tuple(column.batch(picked, steps if column.follows(self.lengths) else None) for column in self.columns)
        return (*arrays, self.lengths[picked].astype(np.int32)) if self.with_lengths else arrays


class _Column:
    """One array or list of sequences of a dataset.

    Sequences must have the same dtype and may differ only in the size of their first axis.
    """

    def __init__(self, items: Sequences | np.ndarray, padding: float, number: int) -> None:
        self.ragged = not isinstance(items, np.ndarray)
        self.items = list(map(np.asarray, items)) if self.ragged else np.asarray(items)
        if self.ragged:
            kinds = {(item.dtype, item.shape[1:]) for item in self.items}
            if len(kinds) > 1 or any(item.ndim == 0 for item in self.items):
                raise ShapeError(
                    f"bucketed: the sequences of column {number} must have the same dtype, and the same shape except "
                    f"for the first axis; got {', '.join(sorted(f'{dtype} {shape}' for dtype, shape in kinds))}"
                )
            self.padding = np.array(padding)
            if len(kinds) and not np.can_cast(np.min_scalar_type(padding), next(iter(kinds))[0], "same_kind"):
                raise DTypeError(
                    f"bucketed: padding must fit the dtype of column {number}, {next(iter(kinds))[0]}, got {padding}"
                )
        elif np.ndim(self.items) == 0:
            raise ShapeError(f"bucketed: column {number} must have one item for each sequence, got a single number")
        self.lengths = np.array([len(item) for item in self.items] if self.ragged else [], np.int64)

    def follows(self, lengths: np.ndarray) -> bool:
        """Return whether the column holds sequences whose lengths equal `lengths`, sample by sample."""
        return self.ragged and bool((self.lengths == lengths).all())

    def batch(self, picked: np.ndarray, steps: int | None) -> np.ndarray:
        """Return the picked samples as one array.

        Sequences are padded to length `steps` or, if `steps` is None, to the length of the longest picked sequence.
        """
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
    batch_size: Size = 64,
    boundaries: Sequence[int] | None = None,
    shuffle: bool = True,
    seed: int = 0,
    drop_last: bool = False,
    *,
    padding: float = 0,
    with_lengths: bool = False,
) -> Buckets:
    """Divide sequences into batches of similar length, padded at the end.

    Args:
        dataset: Columns with one item per sample. The first is the sequences, a list of arrays (T_i, ...) of one dtype.
            Others are arrays (n, ...), such as labels, or lists of arrays, which are padded like the first column if
            their lengths equal those of the first column, and otherwise to the longest item of the batch.
        batch_size: Number of samples per batch. Defaults to 64.
        boundaries: Maximum lengths of the buckets, to which their sequences are padded. None, the default, means 8, 16,
            32, and so on up to the longest sequence.
        shuffle: Whether the order of samples and batches differs in each epoch, determined by seed and epoch. Defaults
            to True.
        seed: Seed of the order. Defaults to 0.
        drop_last: Whether to omit batches with fewer samples, of which each bucket has at most one. Defaults to False.
        padding: Value to store after the end of each sequence. Defaults to 0.
        with_lengths: Whether the last item of each batch is the sequences' lengths, int32 (batch,). Defaults to False.

    Returns:
        An iterable over tuples of arrays.

    Raises:
        ShapeError: If the columns, boundaries, or batch_size are invalid.
        DTypeError: If the dtype of the sequences cannot represent padding.

    Example:
        >>> words = [np.arange(1, n + 1) for n in (2, 9, 3)]
        >>> data = mg.data.bucketed((words, np.array([0, 1, 0])), batch_size=2, boundaries=(4, 10), shuffle=False)
        >>> [(x.shape, y.tolist()) for x, y in data]
        [((2, 4), [0, 0]), ((1, 10), [1])]
    """
    return Buckets(dataset, batch_size, boundaries, shuffle, seed, drop_last, padding, with_lengths)
