"""Batches of any dataset, read ahead by threads or processes, in an order that no number of workers changes.

A dataset is anything with a length and samples by number: arrays, memory maps, HDF5 files and tables (`stored.py`),
images in folders (`images.py`), a class of your own. Samples are read when their batch is near, so that the whole need
not fit in memory.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from .._checks import Count, Size, checked
from .._display import shown
from ..errors import GraphError, ShapeError
from .batches import Batches

Transform = Callable[[Any, np.random.Generator], Any]


class Samples(Protocol):
    """A dataset: how many samples there are, and each by its number."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Any: ...


@checked
class Loader(Batches):
    """An iterable over the batches of one epoch; the next `iter` goes on with the next epoch, or where it was left.

    >>> data = mg.data.loaded(np.arange(6), 2, shuffle=False)
    >>> type(data).__name__, [batch.tolist() for batch in data]
    ('Loader', [[0, 1], [2, 3], [4, 5]])
    >>> data.state_dict()
    {'epoch': 1, 'position': 0, 'seed': 0, 'samples': 6}
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        shuffle: bool,
        seed: int,
        drop_last: bool,
        workers: int,
        processes: bool,
        prefetch: int,
        transform: Transform | None,
    ) -> None:
        if isinstance(dataset, tuple):
            dataset = _Side(dataset)
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise GraphError(f"loaded: a dataset has a length and samples by number, got {shown(dataset)}")
        if batch_size < 1:
            raise ShapeError(f"batch_size must be at least 1, got {batch_size}")
        if processes and not workers:
            raise GraphError("loaded: processes are workers, say how many by workers=")
        self.reader = _Reader(dataset, transform, seed % 2**64)
        self.workers, self.processes, self.prefetch = workers, processes, prefetch
        self._begin(len(dataset), batch_size, shuffle, seed, drop_last)

    def __iter__(self) -> Iterator[Any]:
        if not self.workers:
            yield from super().__iter__()
            return
        if self.position and self.position >= len(self):  # whoever took the last batch asked for no more
            self.epoch, self.position = self.epoch + 1, 0
        picks, epoch = self._picks(), self.epoch
        ahead = (self._part(picked) for picked in picks[self.position : len(self)])
        due = deque[Future[Any]]()
        pool = self._pool()
        try:
            while True:
                while len(due) < self.workers + self.prefetch and (picked := next(ahead, None)) is not None:
                    due.append(
                        pool.submit(_read_in_process, epoch, picked)
                        if self.processes
                        else pool.submit(self.reader.batch, epoch, picked)
                    )
                if not due:
                    break
                try:
                    batch = due.popleft().result()
                except BrokenExecutor as error:
                    raise GraphError(
                        "loaded: a worker process ended by itself. Processes are started anew (spawn): dataset and "
                        "transform must be importable and picklable, and a program guards its start by 'if __name__ "
                        '== "__main__":\''
                    ) from error
                self.position += 1
                yield batch
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        self.epoch, self.position = self.epoch + 1, 0

    def _pool(self) -> Executor:
        if not self.processes:
            return ThreadPoolExecutor(self.workers, "mpsgraph-loader")
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.workers, context, _begin_process, (self.reader,))

    def _batch(self, picked: np.ndarray) -> Any:
        return self.reader.batch(self.epoch, picked)


class _Side:
    """Several datasets of one length, side by side: samples are tuples."""

    def __init__(self, parts: tuple[Any, ...]) -> None:
        if not parts or not all(hasattr(part, "__getitem__") and hasattr(part, "__len__") for part in parts):
            raise GraphError(f"loaded: a tuple is of datasets, such as (images, labels), got {shown(parts)}")
        if len({len(part) for part in parts}) > 1:
            raise ShapeError(
                f"loaded: datasets of a tuple have one length, got {', '.join(str(len(p)) for p in parts)}"
            )
        self.parts = parts

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return tuple(part[index] for part in self.parts)


class _Reader:
    """Reads samples and puts them together; it goes to worker processes as it is."""

    def __init__(self, dataset: Any, transform: Transform | None, seed: int) -> None:
        self.dataset, self.transform, self.seed = dataset, transform, seed

    def batch(self, epoch: int, picked: np.ndarray) -> Any:
        return together([self._sample(epoch, int(i)) for i in picked])

    def _sample(self, epoch: int, index: int) -> Any:
        sample = self.dataset[index]
        if self.transform is None:
            return sample
        return self.transform(sample, np.random.default_rng([self.seed, epoch, index]))


_reader: _Reader | None = None  # of a worker process


def _begin_process(reader: _Reader) -> None:
    global _reader
    _reader = reader


def _read_in_process(epoch: int, picked: np.ndarray) -> Any:
    assert _reader is not None
    return _reader.batch(epoch, picked)


@checked
def together(samples: list[Any]) -> Any:
    """Samples as one batch: arrays and numbers stacked, tuples and dicts item by item.

    Errors: ShapeError for samples of different shapes or structures.

    >>> mg.data.loader.together([(np.zeros(2), 1), (np.ones(2), 0)])
    (array([[0., 0.], [1., 1.]]), array([1, 0]))
    """
    first = samples[0]
    if isinstance(first, dict):
        if any(not isinstance(s, dict) or s.keys() != first.keys() for s in samples):
            raise ShapeError(f"a batch needs samples of equal keys, the first has {shown(sorted(first))}")
        return {key: together([sample[key] for sample in samples]) for key in first}
    if isinstance(first, (tuple, list)):
        if any(not isinstance(s, (tuple, list)) or len(s) != len(first) for s in samples):
            raise ShapeError(f"a batch needs samples of as many items, the first has {len(first)}")
        return tuple(together(list(items)) for items in zip(*samples, strict=True))
    arrays = [np.asarray(sample) for sample in samples]
    if len({(array.shape, array.dtype) for array in arrays}) > 1 and len({array.shape for array in arrays}) > 1:
        shapes = sorted({array.shape for array in arrays})
        raise ShapeError(
            f"a batch needs samples of one shape, got {', '.join(map(str, shapes[:3]))}: cut or pad them in a "
            "transform, or see mpsgraph.data.bucketed"
        )
    return np.stack(arrays)


@checked
def loaded(
    dataset: Any,
    batch_size: int = 64,
    shuffle: bool = True,
    seed: int = 0,
    drop_last: bool = False,
    *,
    workers: Count = 0,
    processes: bool = False,
    prefetch: Size = 2,
    transform: Transform | None = None,
) -> Loader:
    """Batches of a dataset of samples, read ahead by workers.

    Args: dataset, what has a length and by `dataset[i]` samples: arrays, numbers, or tuples or dicts of them, which
    become batches of the same structure; or a tuple of such, side by side, as (images, labels); batch_size in samples;
    shuffle, another order each epoch, from seed and epoch; drop_last, leave out the last batch when it is smaller;
    workers, how many read at once, 0 to read when asked; processes, whether they are processes, started anew (spawn),
    which get a pickled copy of the dataset, for samples that Python itself computes; else threads, for files and numpy;
    prefetch, batches that are ready beyond those in work; transform, a function (sample, numpy generator) that gives
    the sample to take: its generator is that of seed, epoch and sample, so that workers change nothing. What a worker
    raises is raised where its batch is due. State and resuming are those of `batches`. Errors: ShapeError, GraphError,
    and the dataset's.

    >>> class Squares:
    ...     def __len__(self): return 5
    ...     def __getitem__(self, i): return np.float32([i, i * i]), i
    >>> [y.tolist() for x, y in mg.data.loaded(Squares(), 2, shuffle=False, workers=2)]
    [[0, 1], [2, 3], [4]]
    """
    return Loader(dataset, batch_size, shuffle, seed, drop_last, workers, processes, prefetch, transform)
