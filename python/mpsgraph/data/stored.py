"""Datasets that lie in files and are larger than memory: HDF5 by h5py, and columns of tables such as `datasets` has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._checks import checked
from .._display import shown
from .._optional import require
from ..errors import GraphError, ShapeError
from .files import DataError


@checked
class HDF5:
    """Samples of an HDF5 file's datasets by number. Each process that reads opens the file for itself.

    >>> import h5py, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "data.h5")
    >>> with h5py.File(path, "w") as file:
    ...     file["x"] = np.float32([[1, 2], [3, 4]])
    >>> samples = mg.data.hdf5(path, "x")
    >>> len(samples), np.ravel(samples[1]).tolist()
    (2, [3.0, 4.0])
    """

    def __init__(self, path: str | Path, names: tuple[str, ...]) -> None:
        self.path, self.names = Path(path), names
        self._columns: list[Any] | None = None
        columns = self._opened()
        lengths = {name: len(column) if column.shape else -1 for name, column in zip(names, columns, strict=True)}
        if len(set(lengths.values())) != 1 or -1 in lengths.values():
            raise ShapeError(f"hdf5: the datasets of {path} must have one length, got {lengths}")
        self._length = next(iter(lengths.values()))

    def _opened(self) -> list[Any]:
        if self._columns is None:
            h5py: Any = require("h5py", "data", "hdf5")
            try:
                file = h5py.File(self.path, "r")
            except OSError as error:
                raise DataError(f"hdf5: {self.path} cannot be read as HDF5: {error}") from error
            missing = [name for name in self.names if not isinstance(file.get(name), h5py.Dataset)]
            if missing:
                there: list[str] = []
                file.visititems(lambda name, item: there.append(name) if isinstance(item, h5py.Dataset) else None)
                file.close()
                raise DataError(f"hdf5: {self.path} has no dataset '{missing[0]}'; it has {', '.join(there) or 'none'}")
            self._columns = [file[name] for name in self.names]
        return self._columns

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_columns": None}  # an open file goes to no other process

    def __len__(self) -> int:
        """How many samples there are."""
        return self._length

    def __getitem__(self, index: int) -> Any:
        sample = tuple(np.asarray(column[index]) for column in self._opened())
        return sample[0] if len(sample) == 1 else sample


@checked
def hdf5(path: str | Path, *names: str) -> HDF5:
    """A dataset of an HDF5 file, which is read sample by sample as `loaded` asks.

    Args: path; names of datasets in it, of one length, such as "images" and "labels". Samples are tuples in their
    order, of one name the array itself. Errors: DataError for a file that is none, or without such datasets;
    ShapeError for other lengths; GraphError without names; ImportError without h5py.

    >>> import h5py, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "data.h5")
    >>> with h5py.File(path, "w") as file:
    ...     file["x"], file["y"] = np.zeros((5, 3), np.float32), np.arange(5)
    >>> [y.tolist() for x, y in mg.data.loaded(mg.data.hdf5(path, "x", "y"), 2, shuffle=False)]
    [[0, 1], [2, 3], [4]]
    """
    if not names:
        raise GraphError("hdf5: say which datasets of the file, such as hdf5(path, 'images', 'labels')")
    return HDF5(path, names)


@checked
class Columns:
    """Some columns of a table, sample by sample, in an order.

    >>> table = mg.data.columns([{"x": [1.0, 2.0], "y": 0}, {"x": [3.0, 4.0], "y": 1}], "y")
    >>> len(table), int(np.ravel(table[1])[0])
    (2, 1)
    """

    def __init__(self, dataset: Any, names: tuple[str, ...]) -> None:
        self.dataset, self.names = dataset, names

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        row = self.dataset[index]
        if not isinstance(row, Mapping):
            raise GraphError(f"columns: samples of the dataset are dicts by column, got {shown(row)}")
        if missing := [name for name in self.names if name not in row]:
            raise GraphError(f"columns: the dataset has no column '{missing[0]}'; it has {', '.join(map(str, row))}")
        sample = tuple(np.asarray(row[name]) for name in self.names)
        return sample[0] if len(sample) == 1 else sample


@checked
def columns(dataset: Any, *names: str) -> Columns:
    """Columns of a table as (inputs, labels) for `loaded`: of Hugging Face's `datasets`, whose Arrow files are mapped.

    Args: dataset, what has a length and by number dicts by column; names of columns, in the order that samples have;
    of one name the sample is the array itself. Errors: GraphError for columns that are not there.

    >>> table = [{"text": "a", "x": [1.0, 2.0], "y": 0}, {"text": "b", "x": [3.0, 4.0], "y": 1}]
    >>> next(iter(mg.data.loaded(mg.data.columns(table, "x", "y"), 2, shuffle=False)))
    (array([[1., 2.],
           [3., 4.]]), array([0, 1]))
    """
    if isinstance(dataset, Mapping) or not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise GraphError(f"columns: a dataset has a length and samples by number, got {shown(dataset)}")
    if not names:
        raise GraphError("columns: say which, such as columns(dataset, 'image', 'label')")
    if len(dataset):
        Columns(dataset, names)[0]  # names that are not there are told now, not by a worker
    return Columns(dataset, names)
