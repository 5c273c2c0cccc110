"""Datasets in files larger than memory: HDF5, read with h5py, and columns of tables such as those of `datasets`."""

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
    """Samples from datasets of an HDF5 file, as returned by `hdf5`. Each process opens the file for itself.

    Args:
        path: Path of the file.
        names: Names of datasets in the file.

    Raises:
        DataError: If the file is not HDF5 or lacks a dataset.
        ShapeError: If the datasets have different lengths.
        ImportError: If h5py is not installed.

    Example:
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
            raise ShapeError(f"hdf5: the datasets of {path} must have equal lengths, got {lengths}")
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
                raise DataError(
                    f"hdf5: {self.path} has no dataset '{missing[0]}'; its datasets are {', '.join(there) or 'none'}"
                )
            self._columns = [file[name] for name in self.names]
        return self._columns

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_columns": None}  # An open file cannot be sent to another process.

    def __len__(self) -> int:
        """Return the number of samples."""
        return self._length

    def __getitem__(self, index: int) -> Any:
        sample = tuple(np.asarray(column[index]) for column in self._opened())
        return sample[0] if len(sample) == 1 else sample


@checked
def hdf5(path: str | Path, *names: str) -> HDF5:
    """Create a dataset from an HDF5 file, read sample by sample, for use with `loaded`.

    Args:
        path: Path of the file.
        *names: Names of datasets in the file, of equal length, such as "images" and "labels".

    Returns:
        The dataset. A sample is a tuple of arrays in the order of names, or the array itself for a single name.

    Raises:
        DataError: If the file is not HDF5 or lacks a dataset.
        ShapeError: If the datasets have different lengths.
        GraphError: If no name is given.
        ImportError: If h5py is not installed.

    Example:
        >>> import h5py, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "data.h5")
        >>> with h5py.File(path, "w") as file:
        ...     file["x"], file["y"] = np.zeros((5, 3), np.float32), np.arange(5)
        >>> [y.tolist() for x, y in mg.data.loaded(mg.data.hdf5(path, "x", "y"), 2, shuffle=False)]
        [[0, 1], [2, 3], [4]]
    """
    if not names:
        raise GraphError("hdf5: pass the names of datasets in the file, such as hdf5(path, 'images', 'labels')")
    return HDF5(path, names)


@checked
class Columns:
    """Dataset whose samples are the items of given columns in one row of a table, as returned by `columns`.

    Args:
        dataset: Object with a length and an index operator that returns each row as a dict keyed by column name.
        names: Names of columns.

    Raises:
        GraphError: If a row is not a dict, or lacks a column.

    Example:
        >>> table = mg.data.columns([{"x": [1.0, 2.0], "y": 0}, {"x": [3.0, 4.0], "y": 1}], "y")
        >>> len(table), int(np.ravel(table[1])[0])
        (2, 1)
    """

    def __init__(self, dataset: Any, names: tuple[str, ...]) -> None:
        self.dataset, self.names = dataset, names

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        row = self.dataset[index]
        if not isinstance(row, Mapping):
            raise GraphError(f"columns: rows of the dataset must be dicts keyed by column name, got {shown(row)}")
        if missing := [name for name in self.names if name not in row]:
            raise GraphError(
                f"columns: the dataset has no column '{missing[0]}'; its columns are {', '.join(map(str, row))}"
            )
        sample = tuple(np.asarray(row[name]) for name in self.names)
        return sample[0] if len(sample) == 1 else sample


@checked
def columns(dataset: Any, *names: str) -> Columns:
    """Create a dataset from columns of a table, such as (inputs, labels), for use with `loaded`.

    Works with Hugging Face's `datasets`, whose Arrow files are memory-mapped.

    Args:
        dataset: Object with a length and an index operator that returns each row as a dict keyed by column name.
        *names: Names of columns, in the order of the sample's items.

    Returns:
        The dataset. A sample is a tuple of arrays in the order of names, or the array itself for a single name.

    Raises:
        GraphError: If dataset is not such an object, no name is given, or a column does not exist.

    Example:
        >>> table = [{"text": "a", "x": [1.0, 2.0], "y": 0}, {"text": "b", "x": [3.0, 4.0], "y": 1}]
        >>> next(iter(mg.data.loaded(mg.data.columns(table, "x", "y"), 2, shuffle=False)))
        (array([[1., 2.],
               [3., 4.]]), array([0, 1]))
    """
    if isinstance(dataset, Mapping) or not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise GraphError(f"columns: dataset must have __len__ and __getitem__, got {shown(dataset)}")
    if not names:
        raise GraphError("columns: pass the names of columns, such as columns(dataset, 'image', 'label')")
    if len(dataset):
        Columns(dataset, names)[0]  # Report missing columns here rather than in a worker.
    return Columns(dataset, names)
