"""Batches of a dataset, in an order that depends only on seed and epoch and can be resumed at any batch.

Each batch is a new tuple of arrays, which `Trainer.train_step` may keep. The position is part of a small state, so a
checkpoint in the middle of an epoch continues with the next batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .._checks import Size, checked
from .._display import shown
from ..errors import GraphError, ShapeError

Dataset = Sequence[np.ndarray]
"""Arrays of equal length, such as (inputs, labels)."""


@checked
class Batches:
    """Iterable over the batches of a dataset of arrays, as returned by `batches`.

    Each iteration goes through one epoch; the next iteration continues with the next epoch, or where an unfinished
    epoch stopped.

    Args:
        dataset: Arrays of equal length.
        batch_size: Number of samples per batch.
        shuffle: Whether each epoch has a different order.
        seed: Seed of the order.
        drop_last: Whether to omit the last batch if it is smaller.

    Attributes:
        epoch: Index of the current epoch, from 0.
        position: Number of batches of this epoch already returned.

    Raises:
        ShapeError: If the arrays have different lengths, or batch_size is below 1.

    Example:
        >>> data = mg.data.batches((np.arange(4), np.arange(4)), batch_size=2, seed=1)
        >>> first, *_ = data
        >>> data.epoch, data.position, len(data)
        (1, 0, 2)
        >>> state = data.state_dict()
        >>> data.load_state_dict({**state, "epoch": 0, "position": 1})
        >>> len(list(data))
        1
    """

    def __init__(self, dataset: Dataset, batch_size: Size, shuffle: bool, seed: int, drop_last: bool) -> None:
        self.arrays = tuple(np.asarray(array) for array in dataset)
        lengths = {len(array) if array.ndim else -1 for array in self.arrays}
        if len(lengths) != 1 or -1 in lengths:
            shapes = ", ".join(str(array.shape) for array in self.arrays[:4]) + ", ..." * (len(self.arrays) > 4)
            raise ShapeError(
                "the arrays of a dataset, such as inputs and labels, must have equal lengths, "
                f"got {f'shapes {shapes}' if shapes else 'no arrays'}: stack a list of samples with np.stack"
            )
        if batch_size < 1:
            raise ShapeError(f"batch_size must be at least 1, got {batch_size}")
        self._begin(len(self.arrays[0]), batch_size, shuffle, seed, drop_last)

    def _begin(self, samples: int, batch_size: int, shuffle: bool, seed: int, drop_last: bool) -> None:
        self.samples = samples
        self.batch_size, self.shuffle, self.seed, self.drop_last = batch_size, shuffle, seed, drop_last
        self.shards = 0, 1
        """Index of the part of each batch that is returned, and number of parts."""
        self.hosts = 0, 1, 1
        """Index of the share of each batch that is returned, number of shares, and divisor of shared batches."""
        self.epoch = 0
        self.position = 0  # Number of batches of this epoch already returned.

    def shard(self, index: int, count: int) -> Batches:
        """Make each batch `count` times as large, and return only part `index` of each batch from now on.

        This lets `count` processes share one order, each with batches of the original size. The parts of the last batch
        differ by at most one sample; a last batch with fewer samples than parts is omitted.

        Args:
            index: Part to return, from 0 to count - 1.
            count: Number of parts.

        Returns:
            This object.

        Raises:
            ShapeError: If index is out of range.
            GraphError: If the batches are already sharded.

        Example:
            >>> data = mg.data.batches((np.arange(7),), batch_size=2, shuffle=False).shard(1, 2)
            >>> [x.tolist() for x, in data]
            [[2, 3], [5, 6]]
        """
        if not 0 <= index < count:
            raise ShapeError(f"shard: index must be from 0 to {count - 1} for count={count}, got {index}")
        if self.shards != (0, 1):
            raise GraphError(
                f"shard: these batches are already part {self.shards[0]} of {self.shards[1]} and cannot be sharded "
                "again"
            )
        self.shards, self.batch_size = (index, count), self.batch_size * count
        return self

    def divide(self, index: int, count: int, divisor: int) -> Batches:
        """Return only one of `count` equal shares of each batch from now on.

        The batches of all shares together are those of one process, whatever the number of shares. A batch whose size
        is not a multiple of `divisor` is returned whole.

        Args:
            index: Share to return, from 0 to count - 1.
            count: Number of shares.
            divisor: Number of parts into which the shares together are divided, a multiple of count.

        Returns:
            This object.

        Raises:
            ShapeError: If index or divisor are out of range.

        Example:
            >>> data = mg.data.batches((np.arange(7),), batch_size=4, shuffle=False).divide(1, 2, 4)
            >>> [x.tolist() for x, in data]
            [[2, 3], [4, 5, 6]]
        """
        if not 0 <= index < count or divisor < 1 or divisor % count:
            raise ShapeError(
                f"divide: index must be from 0 to count - 1 and divisor a multiple of count, got index {index}, count "
                f"{count}, divisor {divisor}"
            )
        self.hosts = index, count, divisor
        return self

    @property
    def is_whole(self) -> bool:
        """Whether the batch that was returned last is whole, because its size cannot be divided into shares."""
        return min(self.batch_size, self.samples - (self.position - 1) * self.batch_size) % self.hosts[2] != 0

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return self._count(self.samples)

    def _count(self, samples: int) -> int:
        full, rest = divmod(samples, self.batch_size)
        return full + (rest >= self.shards[1] and not self.drop_last)

    def _part(self, picked: np.ndarray) -> np.ndarray:
        """Return the share of a batch's sample indices that this process reads in distributed training."""
        index, count, divisor = (*self.shards, 1) if self.shards[1] > 1 else self.hosts
        if len(picked) % divisor:
            return picked
        return picked[len(picked) * index // count : len(picked) * (index + 1) // count]

    def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
        # The previous epoch ended without its iterator being exhausted: start the next one.
        if self.position and self.position >= len(self):
            self.epoch, self.position = self.epoch + 1, 0
        picks = self._picks()
        while self.position < len(self):
            self.position += 1
            yield self._batch(self._part(picks[self.position - 1]))
        self.epoch, self.position = self.epoch + 1, 0

    def _picks(self) -> Sequence[np.ndarray]:
        """Return the sample indices of each batch of this epoch."""
        order = np.arange(self.samples)
        if self.shuffle:
            order = self._generator().permutation(self.samples)
        return [order[first : first + self.batch_size] for first in range(0, self.samples, self.batch_size)]

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng([self.seed % 2**64, self.epoch])

    def _batch(self, picked: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(array[picked] for array in self.arrays)

    def fits(self, other: Batches) -> bool:
        """Return whether `other` has the same order of samples, so that the state of either object is valid for both.

        Args:
            other: Batches to compare with.
        """
        mine, its = self.state_dict(), other.state_dict()
        return self.batch_size == other.batch_size and all(mine[key] == its[key] for key in ("seed", "samples"))

    def state_dict(self) -> dict[str, int]:
        """Return the epoch, the number of batches returned in it, the seed, and the number of samples."""
        state = {"epoch": self.epoch, "position": self.position, "seed": self.seed, "samples": self.samples}
        return state if self.shards[1] == 1 else state | {"batch_size": self.batch_size}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue at the position where a state was taken.

        Sharded batches continue after the same number of samples.

        Args:
            state: Result of `state_dict`.

        Raises:
            ShapeError: If the state has a different seed or number of samples, or is incomplete.
        """
        if missing := [key for key in ("epoch", "position", "seed", "samples") if key not in state]:
            raise ShapeError(
                f"load_state_dict: state must come from state_dict, got {shown(state)} without '{missing[0]}'"
            )
        for key, own in (("seed", self.seed), ("samples", self.samples)):
            if state[key] != own:
                raise ShapeError(
                    f"load_state_dict: the state was saved with {key} {state[key]}, but these batches have {key} "
                    f"{own}: use the same seed and dataset"
                )
        self.epoch, self.position = state["epoch"], state["position"]
        # The position counts batches of all processes together, and the number of processes may have changed since the
        # save.
        if "batch_size" in state:
            self.position = self.position * state["batch_size"] // self.batch_size


@checked
def batches(
    dataset: Dataset, batch_size: Size = 64, shuffle: bool = True, seed: int = 0, drop_last: bool = False
) -> Batches:
    """Divide a dataset of arrays into batches.

    Args:
        dataset: Arrays of equal length, such as (images, labels).
        batch_size: Number of samples per batch. Defaults to 64.
        shuffle: Whether each epoch has a different order, determined by seed and epoch. Defaults to True.
        seed: Seed of the order. Defaults to 0.
        drop_last: Whether to omit the last batch if it is smaller. Defaults to False.

    Returns:
        An iterable over tuples of arrays.

    Raises:
        ShapeError: If the arrays have different lengths, or batch_size is below 1.

    Example:
        >>> data = mg.data.batches((np.arange(5), np.arange(5) * 10), batch_size=2, shuffle=False)
        >>> [x.tolist() for x, y in data]
        [[0, 1], [2, 3], [4]]
    """
    return Batches(dataset, batch_size, shuffle, seed, drop_last)
