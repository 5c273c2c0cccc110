"""Batches of any dataset, read ahead by threads or processes, in an order independent of the number of workers.

A dataset is any object with a length and samples by index: arrays, memory maps, HDF5 files and tables (`stored.py`),
images in folders (`images.py`), or a custom class. Samples are read shortly before their batch is due, so the dataset
need not fit in memory.
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
    """Protocol of datasets: a length, and samples by index."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Any: ...


@checked
class Loader(Batches):
    """The iterable that `loaded` returns: the batches of a dataset of samples.

    Each iteration goes through one epoch; the next iteration continues with the next epoch, or where an unfinished
    epoch stopped.

    Args:
        dataset: Object with a length and samples by index, or a tuple of such objects.
        batch_size: Number of samples per batch.
        shuffle: Whether each epoch has a different order.
        seed: Seed of the order and of the transform.
        drop_last: Whether to omit the last batch if it is smaller.
        workers: Number of workers, or 0.
        processes: Whether workers are processes instead of threads.
        prefetch: Number of batches to keep ready in addition to those being read.
        transform: Function (sample, numpy generator) that returns the sample to use, or None.

    Raises:
        GraphError: If dataset is not a dataset, or processes is set without workers.
        ShapeError: If batch_size is below 1, datasets of a tuple differ in length, or the samples of a batch differ in
            structure or shape.

    Example:
        >>> data = mg.data.loaded(np.arange(6), 2, shuffle=False)
        >>> type(data).__name__, [batch.tolist() for batch in data]
        ('Loader', [[0, 1], [2, 3], [4, 5]])
        >>> data.state_dict()
        {'epoch': 1, 'position': 0, 'seed': 0, 'samples': 6}
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: Size,
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
            raise GraphError(f"loaded: dataset must have __len__ and __getitem__, got {shown(dataset)}")
        if batch_size < 1:
            raise ShapeError(f"batch_size must be at least 1, got {batch_size}")
        if processes and not workers:
            raise GraphError("loaded: processes=True needs workers: pass the number of processes as workers=")
        self.reader = _Reader(dataset, transform, seed % 2**64)
        self.workers, self.processes, self.prefetch = workers, processes, prefetch
        self._begin(len(dataset), batch_size, shuffle, seed, drop_last)

    def __iter__(self) -> Iterator[Any]:
        if not self.workers:
            yield from super().__iter__()
            return
        # The previous epoch ended without its iterator being exhausted: start the next one.
        if self.position and self.position >= len(self):
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
                        "loaded: a worker process died. Workers are started by spawn, so dataset and transform must be "
                        "importable and picklable, and the main program must be guarded by "
                        "'if __name__ == \"__main__\":'"
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
    """A tuple of datasets of equal length, presented as one dataset whose samples are tuples."""

    def __init__(self, parts: tuple[Any, ...]) -> None:
        if not parts or not all(hasattr(part, "__getitem__") and hasattr(part, "__len__") for part in parts):
            raise GraphError(
                "loaded: a tuple must contain datasets with __len__ and __getitem__, such as (images, labels), got "
                f"{shown(parts)}"
            )
        if len({len(part) for part in parts}) > 1:
            raise ShapeError(
                f"loaded: datasets in a tuple must have equal lengths, got {', '.join(str(len(p)) for p in parts)}"
            )
        self.parts = parts

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return tuple(part[index] for part in self.parts)


class _Reader:
    """An object that reads samples and combines them into batches. Each worker process gets a copy of it."""

    def __init__(self, dataset: Any, transform: Transform | None, seed: int) -> None:
        self.dataset, self.transform, self.seed = dataset, transform, seed

    def batch(self, epoch: int, picked: np.ndarray) -> Any:
        return together([self._sample(epoch, int(i)) for i in picked])

    def _sample(self, epoch: int, index: int) -> Any:
        sample = self.dataset[index]
        if self.transform is None:
            return sample
        return self.transform(sample, np.random.default_rng([self.seed, epoch, index]))


_reader: _Reader | None = None  # Reader used by this worker process.


def _begin_process(reader: _Reader) -> None:
    global _reader
    _reader = reader


def _read_in_process(epoch: int, picked: np.ndarray) -> Any:
    assert _reader is not None
    return _reader.batch(epoch, picked)


@checked
def together(samples: list[Any]) -> Any:
    """Combine samples into one batch: stack arrays and numbers, and combine tuples and dicts item by item.

    Args:
        samples: Samples of the same structure and shapes.

    Returns:
        The batch, in the structure of the samples; lists become tuples.

    Raises:
        ShapeError: If the samples have different shapes or structures.

    Example:
        >>> mg.data.loader.together([(np.zeros(2), 1), (np.ones(2), 0)])
        (array([[0., 0.], [1., 1.]]), array([1, 0]))
    """
    first = samples[0]
    if isinstance(first, dict):
        if any(not isinstance(s, dict) or s.keys() != first.keys() for s in samples):
            raise ShapeError(
                "samples of a batch must have the same keys: the first sample has the keys "
                f"{shown(sorted(first))}, but at least one other sample differs"
            )
        return {key: together([sample[key] for sample in samples]) for key in first}
    if isinstance(first, (tuple, list)):
        if any(not isinstance(s, (tuple, list)) or len(s) != len(first) for s in samples):
            raise ShapeError(
                f"samples of a batch must have the same number of items: the first sample has {len(first)}, but at "
                "least one other sample differs"
            )
        return tuple(together(list(items)) for items in zip(*samples, strict=True))
    arrays = [np.asarray(sample) for sample in samples]
    if len({(array.shape, array.dtype) for array in arrays}) > 1 and len({array.shape for array in arrays}) > 1:
        shapes = sorted({array.shape for array in arrays})
        raise ShapeError(
            f"samples of a batch must have the same shape, got {', '.join(map(str, shapes[:3]))}: crop or pad them in "
            "transform, or use mpsgraph.data.bucketed"
        )
    return np.stack(arrays)


@checked
def loaded(
    dataset: Any,
    batch_size: Size = 64,
    shuffle: bool = True,
    seed: int = 0,
    drop_last: bool = False,
    *,
    workers: Count = 0,
    processes: bool = False,
    prefetch: Size = 2,
    transform: Transform | None = None,
) -> Loader:
    """Divide a dataset of samples into batches, read ahead by workers.

    State and resuming work as for `batches`. An exception in a worker is raised when the worker's batch is due.

    Args:
        dataset: Object with `len(dataset)` and `dataset[i]`, whose samples are arrays, numbers, or tuples or dicts of
            them; batches have the same structure. Or a tuple of such objects, such as (images, labels).
        batch_size: Number of samples per batch. Defaults to 64.
        shuffle: Whether each epoch has a different order, determined by seed and epoch. Defaults to True.
        seed: Seed of the order and of the transform's generators. Defaults to 0.
        drop_last: Whether to omit the last batch if it is smaller. Defaults to False.
        workers: Number of batches read at the same time; 0, the default, reads each batch when it is requested.
        processes: Whether workers are processes, started by spawn, which get a pickled copy of the dataset; use them if
            samples are computed by Python code. Defaults to False, which uses threads, suited to files and numpy.
        prefetch: Number of batches to keep ready in addition to those being read. Defaults to 2.
        transform: Function (sample, numpy generator) that returns the sample to use. The generator depends only on
            seed, epoch, and sample, so results do not depend on workers. Defaults to none.

    Returns:
        An iterable over batches.

    Raises:
        GraphError: If dataset is not a dataset, processes is set without workers, or a worker process dies.
        ShapeError: If batch_size is below 1, datasets of a tuple differ in length, or the samples of a batch differ in
            structure or shape.

    Example:
        >>> class Squares:
        ...     def __len__(self): return 5
        ...     def __getitem__(self, i): return np.float32([i, i * i]), i
        >>> [y.tolist() for x, y in mg.data.loaded(Squares(), 2, shuffle=False, workers=2)]
        [[0, 1], [2, 3], [4]]
    """
    return Loader(dataset, batch_size, shuffle, seed, drop_last, workers, processes, prefetch, transform)
