"""Readers of dataset files: IDX (MNIST and similar datasets), and CIFAR-10 in its binary and Python versions.

A file that is truncated, has the wrong magic number, or contains invalid labels raises a DataError that names the file;
partial data is never returned.
"""

from __future__ import annotations

import gzip
import io
import math
import pickle
import pickletools
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from .._checks import checked
from .._display import shown
from ..errors import Error

_IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_IDX_MAX_RANK = 16  # The maximum rank of arrays in this package.
_CIFAR_RECORD = 1 + 3 * 32 * 32


class DataError(Error, ValueError):
    """A data file is missing, truncated, or not in the expected format.

    Example:
        >>> try:
        ...     mg.data.read_idx("no such file")
        ... except mg.data.DataError as error:
        ...     print(type(error).__mro__[1].__name__)
        Error
    """


@checked
def read_idx(path: str | Path) -> np.ndarray:
    """Read the array in an IDX file, plain or gzipped.

    The format is two zero bytes, a type, and a rank, followed by the sizes as big-endian uint32, and the elements.

    Args:
        path: Path of the file.

    Returns:
        The array, in native byte order.

    Raises:
        DataError: If the file is missing, truncated, or not an IDX file.

    Source: Yann LeCun, "The MNIST database of handwritten digits".

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "labels"
        >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 3]))
        >>> mg.data.read_idx(path).tolist()
        [7, 3]
    """
    data = _contents(Path(path))
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _IDX_TYPES or data[3] > _IDX_MAX_RANK:
        raise DataError(
            f"{path} is not an IDX file: it must start with two zero bytes, an element type, and a rank, got "
            f"{data[:4].hex(' ') or 'nothing'}"
        )
    dtype, rank = np.dtype(_IDX_TYPES[data[2]]), data[3]
    start = 4 + 4 * rank
    if len(data) < start:
        raise DataError(f"{path} is truncated: {len(data)} bytes cannot hold the sizes of {rank} dimensions")
    shape = struct.unpack(f">{rank}I", data[4:start])
    expected = math.prod(shape) * dtype.itemsize
    if len(data) - start != expected:
        what = "truncated" if len(data) - start < expected else "too long"
        raise DataError(f"{path} is {what}: shape {shape} needs {expected} bytes of data, got {len(data) - start}")
    return np.frombuffer(data, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


@checked
def read_mnist(
    directory: str | Path,
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Read MNIST, or a dataset in its format, from its four files, plain or gzipped.

    Args:
        directory: Folder with train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, and
            t10k-labels-idx1-ubyte, with or without .gz.

    Returns:
        ((images, labels), (images, labels)) for training and test: images float32 (n, 28, 28, 1) from 0 to 1, labels
        int32 (n,).

    Raises:
        DataError: If a file is missing, truncated, or not in the format.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> images = bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 51, 102, 255])  # one of 2 x 2
        >>> labels = bytes([0, 0, 8, 1, 0, 0, 0, 1, 7])
        >>> for part in ("train", "t10k"):
        ...     _ = (folder / f"{part}-images-idx3-ubyte").write_bytes(images)
        ...     _ = (folder / f"{part}-labels-idx1-ubyte").write_bytes(labels)
        >>> (images, labels), test_set = mg.data.read_mnist(folder)
        >>> images.shape, labels.tolist()
        ((1, 2, 2, 1), [7])
    """

    def part(prefix: str) -> tuple[np.ndarray, np.ndarray]:
        images = read_idx(_find(Path(directory), f"{prefix}-images-idx3-ubyte"))
        labels = read_idx(_find(Path(directory), f"{prefix}-labels-idx1-ubyte"))
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise DataError(
                f"{directory}: the {prefix} set must have 3-D images with one label each, got images of shape "
                f"{images.shape} and labels of shape {labels.shape}"
            )
        return (images[..., None] / np.float32(255)).astype(np.float32), labels.astype(np.int32)

    return part("train"), part("t10k")


@checked
def read_cifar10(
    directory: str | Path,
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Read CIFAR-10 from the six files of its binary or its Python version.

    The files of the Python version are pickles; only what is needed to restore arrays is executed.

    Args:
        directory: Folder with data_batch_1.bin to data_batch_5.bin and test_batch.bin, or the same names without .bin,
            each with or without .gz.

    Returns:
        ((images, labels), (images, labels)) for training and test: images float32 (n, 32, 32, 3) from 0 to 1, labels
        int32 (n,).

    Raises:
        DataError: If a file is missing, truncated, or not in the format.

    Source: Krizhevsky, "Learning multiple layers of features from tiny images", 2009.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        ...     _ = (folder / f"{name}.bin").write_bytes(bytes([3]) + bytes(3 * 32 * 32))
        >>> (images, labels), test_set = mg.data.read_cifar10(folder)
        >>> images.shape, labels.tolist()
        ((5, 32, 32, 3), [3, 3, 3, 3, 3])
    """

    def is_there(name: str) -> bool:
        return any(_is_file(Path(directory) / f"{name}{end}") for end in ("", ".gz"))

    pickled = not is_there("data_batch_1.bin")
    if pickled and not is_there("data_batch_1"):
        raise DataError(
            f"read_cifar10: {shown(str(directory))} contains neither data_batch_1.bin nor data_batch_1, with or "
            "without .gz: pass the folder of CIFAR-10's binary or Python version"
        )

    def part(names: list[str]) -> tuple[np.ndarray, np.ndarray]:
        end, read = ("", _cifar_pickle) if pickled else (".bin", _cifar_records)
        read_parts = [read(_find(Path(directory), name + end)) for name in names]
        pixels, labels = (np.concatenate(arrays) for arrays in zip(*read_parts, strict=True))
        images = pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return np.ascontiguousarray(images, np.float32) / np.float32(255), labels.astype(np.int32)

    return part([f"data_batch_{i}" for i in range(1, 6)]), part(["test_batch"])


def _is_file(path: Path) -> bool:
    with suppress(OSError):  # Some strings are not valid file names.
        return path.is_file()
    return False


def _cifar_records(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels (n, 3072) and labels (n,), both uint8."""
    data = np.frombuffer(_contents(path), np.uint8)
    if len(data) == 0 or len(data) % _CIFAR_RECORD:
        raise DataError(
            f"{path} is empty or truncated: {len(data)} bytes are not a multiple of the {_CIFAR_RECORD} bytes of a "
            "record"
        )
    records = data.reshape(-1, _CIFAR_RECORD)
    if records[:, 0].max() > 9:
        raise DataError(f"{path} is not CIFAR-10 in binary form: labels must be 0 to 9, got {records[:, 0].max()}")
    return records[:, 1:], records[:, 0]


def _cifar_pickle(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels and labels from a pickled dict with the keys `data`, a uint8 array, and `labels`, a list."""
    try:
        data = _contents(path)
        _check_memo(data)
        batch = _ArrayUnpickler(io.BytesIO(data), encoding="bytes").load()
        pixels, labels = np.asarray(batch[b"data"]), np.asarray(batch[b"labels"])
    except DataError as error:
        raise DataError(f"{path} is not a batch of CIFAR-10's Python version: {error}") from error
    except Exception as error:  # A truncated or invalid pickle can raise any exception.
        raise DataError(
            f"{path} is not a batch of CIFAR-10's Python version: {type(error).__name__} {error}"
        ) from error
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != _CIFAR_RECORD - 1:
        raise DataError(
            f"{path} is not CIFAR-10: data must be uint8 of shape (n, 3072), got {pixels.dtype} of shape {pixels.shape}"
        )
    if labels.shape != pixels.shape[:1] or labels.dtype.kind != "i" or labels.min(initial=0) < 0:
        raise DataError(
            f"{path} is not CIFAR-10: {pixels.shape[0]} images need as many integer labels of at least 0, got "
            f"{labels.dtype} of shape {labels.shape}"
        )
    if labels.max(initial=0) > 9:
        raise DataError(f"{path} is not CIFAR-10: labels must be 0 to 9, got {labels.max()}")
    return pixels, labels


def _check_memo(data: bytes) -> None:
    """Raise DataError if a pickle would make the unpickler allocate much more memory than the pickle has bytes.

    The unpickler allocates its memo as an array up to the largest index, which a pickle of ten bytes can choose.
    """
    for opcode, argument, _ in pickletools.genops(data):
        if "PUT" in opcode.name and isinstance(argument, int) and argument > len(data):
            raise DataError(f"the pickle of {len(data)} bytes has {argument} in its memo")


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickler for arrays, strings, and containers; pickles that refer to anything else are rejected."""

    _ALLOWED = {
        ("multiarray", "_reconstruct"): lambda subtype, shape, code: np.ndarray(shape, np.uint8),
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        # Pickle protocol 2 stores bytes as this call.
        ("_codecs", "encode"): lambda text, encoding: text.encode("latin1"),
    }

    def find_class(self, module: str, name: str) -> Any:
        found = self._ALLOWED.get((module.removeprefix("numpy.core.").removeprefix("numpy._core."), name))
        if found is None:
            raise DataError(f"the pickle refers to {module}.{name}, which arrays do not need, so it was not loaded")
        return found


def _find(directory: Path, name: str) -> Path:
    for path in (directory / name, directory / f"{name}.gz"):
        if path.is_file():
            return path
    raise DataError(f"{directory} contains neither {name} nor {name}.gz")


def _contents(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
