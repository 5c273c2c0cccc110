"""Batches of a dataset in an order that depends only on the seed and the epoch, and that can be taken up anywhere.

Each batch is a fresh pair of arrays, which `Trainer.train_step` may hold on to. The state is two numbers, so that a
checkpoint in the middle of an epoch continues with the very next batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .._checks import checked
from .._display import shown
from ..errors import GraphError, ShapeError

Dataset = Sequence[np.ndarray]
"""Arrays of one length, such as (inputs, labels)."""


@checked
class Batches:
    """An iterable over the batches of one epoch; the next `iter` goes on with the next epoch, or where it was left.

    >>> data = mg.data.batches((np.arange(4), np.arange(4)), batch_size=2, seed=1)
    >>> first, *_ = data
    >>> data.epoch, data.position, len(data)
    (1, 0, 2)
    >>> state = data.state_dict()
    >>> data.load_state_dict({**state, "epoch": 0, "position": 1})
    >>> len(list(data))
    1
    """

    def __init__(self, dataset: Dataset, batch_size: int, shuffle: bool, seed: int, drop_last: bool) -> None:
        self.arrays = tuple(np.asarray(array) for array in dataset)
        lengths = {len(array) if array.ndim else -1 for array in self.arrays}
        if len(lengths) != 1 or -1 in lengths:
            shapes = ", ".join(str(array.shape) for array in self.arrays)
            raise ShapeError(f"a dataset is arrays of one length, such as (images, labels); got shapes {shapes}")
        if batch_size < 1:
            raise ShapeError(f"batch_size must be at least 1, got {batch_size}")
        self._begin(len(self.arrays[0]), batch_size, shuffle, seed, drop_last)

    def _begin(self, samples: int, batch_size: int, shuffle: bool, seed: int, drop_last: bool) -> None:
        self.samples = samples
        self.batch_size, self.shuffle, self.seed, self.drop_last = batch_size, shuffle, seed, drop_last
        self.shards = 0, 1
        """Which part of each batch is given out, and of how many."""
        self.epoch = 0
        self.position = 0  # batches of this epoch that have been given out

    def shard(self, index: int, count: int) -> Batches:
        """From now on batches are `count` times as large, and one part of each is given out: this object.

        So as many processes share one order, and each has batches of its own size. A last batch has parts that differ
        by one sample at most; one with fewer samples than parts is left out. Errors: ShapeError for a part that there
        is not; GraphError for batches that have been sharded already.

        >>> data = mg.data.batches((np.arange(7),), batch_size=2, shuffle=False).shard(1, 2)
        >>> [x.tolist() for x, in data]
        [[2, 3], [5, 6]]
        """
        if not 0 <= index < count:
            raise ShapeError(f"shard: there are parts 0 to {count - 1} of {count}, {index} is none of them")
        if self.shards != (0, 1):
            raise GraphError(f"shard: these batches are part {self.shards[0]} of {self.shards[1]} already")
        self.shards, self.batch_size = (index, count), self.batch_size * count
        return self

    def __len__(self) -> int:
        """Batches in an epoch."""
        return self._count(self.samples)

    def _count(self, samples: int) -> int:
        full, rest = divmod(samples, self.batch_size)
        return full + (rest >= self.shards[1] and not self.drop_last)

    def _part(self, picked: np.ndarray) -> np.ndarray:
        """What is given out of a batch."""
        index, count = self.shards
        return picked[len(picked) * index // count : len(picked) * (index + 1) // count]

    def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
        if self.position and self.position >= len(self):  # whoever took the last batch asked for no more
            self.epoch, self.position = self.epoch + 1, 0
        picks = self._picks()
        while self.position < len(self):
            self.position += 1
            yield self._batch(self._part(picks[self.position - 1]))
        self.epoch, self.position = self.epoch + 1, 0

    def _picks(self) -> Sequence[np.ndarray]:
        """Which samples each batch of this epoch has."""
        order = np.arange(self.samples)
        if self.shuffle:
            order = self._generator().permutation(self.samples)
        return [order[first : first + self.batch_size] for first in range(0, self.samples, self.batch_size)]

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng([self.seed % 2**64, self.epoch])

    def _batch(self, picked: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(array[picked] for array in self.arrays)

    def fits(self, other: Batches) -> bool:
        """Do both stand for the same order of as many samples, so that one's state means the same for the other?"""
        mine, its = self.state_dict(), other.state_dict()
        return self.batch_size == other.batch_size and all(mine[key] == its[key] for key in ("seed", "samples"))

    def state_dict(self) -> dict[str, int]:
        """Where the order stands: epoch, batches given out in it, and the seed that it belongs to."""
        state = {"epoch": self.epoch, "position": self.position, "seed": self.seed, "samples": self.samples}
        return state if self.shards[1] == 1 else state | {"batch_size": self.batch_size}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continues where `state` was taken; where batches are parts of larger ones, behind as many samples.

        Errors: ShapeError when it belongs to another seed or dataset length.
        """
        if missing := [key for key in ("epoch", "position", "seed", "samples") if key not in state]:
            raise ShapeError(f"load_state_dict takes what state_dict gives, {shown(state)} has no {missing[0]}")
        for key, own in (("seed", self.seed), ("samples", self.samples)):
            if state[key] != own:
                raise ShapeError(f"the data order was saved with {key} {state[key]}, these batches have {own}")
        self.epoch, self.position = state["epoch"], state["position"]
        if "batch_size" in state:  # of all processes together, of which there may be others now
            self.position = self.position * state["batch_size"] // self.batch_size


@checked
def batches(
    dataset: Dataset, batch_size: int = 64, shuffle: bool = True, seed: int = 0, drop_last: bool = False
) -> Batches:
    """Batches of a dataset.

    Args: dataset, arrays of one length, such as (images, labels); batch_size in samples; shuffle, another order each
    epoch, from seed and epoch; drop_last, leave out the last batch when it is smaller. Errors: ShapeError.

    >>> data = mg.data.batches((np.arange(5), np.arange(5) * 10), batch_size=2, shuffle=False)
    >>> [x.tolist() for x, y in data]
    [[0, 1], [2, 3], [4]]
    """
    return Batches(dataset, batch_size, shuffle, seed, drop_last)
