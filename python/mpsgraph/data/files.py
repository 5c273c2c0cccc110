"""Readers of dataset files that the user has: IDX (MNIST and its kin) and CIFAR-10 in its binary form.

A file that is cut short, has another magic number or holds labels that cannot be raises a DataError that names the
file; no half of it is returned.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from ..errors import Error

_IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_IDX_MAX_RANK = 16  # that of the arrays here
_CIFAR_RECORD = 1 + 3 * 32 * 32


class DataError(Error, ValueError):
    """A data file that is missing, truncated or not what it should be."""


def read_idx(path: str | Path) -> np.ndarray:
    """The array of an IDX file, plain or gzipped.

    Format: two zero bytes, a type, a rank; then the sizes as big-endian uint32, then the elements.
    Args: path. Result: an array in native byte order. Errors: DataError.
    Source: Yann LeCun, "The MNIST database of handwritten digits".
    """
    data = _contents(Path(path))
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _IDX_TYPES or data[3] > _IDX_MAX_RANK:
        raise DataError(f"{path} is not an IDX file: it begins with {data[:4].hex(' ') or 'nothing'}")
    dtype, rank = np.dtype(_IDX_TYPES[data[2]]), data[3]
    start = 4 + 4 * rank
    if len(data) < start:
        raise DataError(f"{path} is truncated: {len(data)} bytes do not hold the sizes of {rank} dimensions")
    shape = struct.unpack(f">{rank}I", data[4:start])
    expected = math.prod(shape) * dtype.itemsize
    if len(data) - start != expected:
        what = "truncated" if len(data) - start < expected else "too long"
        raise DataError(f"{path} is {what}: shape {shape} needs {expected} bytes, it has {len(data) - start}")
    return np.frombuffer(data, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def read_mnist(
    directory: str | Path,
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """MNIST, or a set in its form, from its four files, plain or gzipped.

    Args: directory with train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
    t10k-labels-idx1-ubyte, with or without .gz. Result: ((images, labels), (images, labels)) for training and test;
    images float32 (n, 28, 28, 1) in 0..1, labels int32 (n,). Errors: DataError.
    """

    def part(prefix: str) -> tuple[np.ndarray, np.ndarray]:
        images = read_idx(_find(Path(directory), f"{prefix}-images-idx3-ubyte"))
        labels = read_idx(_find(Path(directory), f"{prefix}-labels-idx1-ubyte"))
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise DataError(f"{directory}: {prefix} has images {images.shape} and labels {labels.shape}")
        return (images[..., None] / np.float32(255)).astype(np.float32), labels.astype(np.int32)

    return part("train"), part("t10k")


def read_cifar10(
    directory: str | Path,
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """CIFAR-10 from its binary version's six files.

    Args: directory with data_batch_1.bin to data_batch_5.bin and test_batch.bin. Result: ((images, labels), (images,
    labels)) for training and test; images float32 (n, 32, 32, 3) in 0..1, labels int32 (n,). Errors: DataError.
    Source: Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
    """

    def part(names: list[str]) -> tuple[np.ndarray, np.ndarray]:
        records = np.concatenate([_cifar_records(_find(Path(directory), name)) for name in names])
        images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return np.ascontiguousarray(images, np.float32) / np.float32(255), records[:, 0].astype(np.int32)

    return part([f"data_batch_{i}.bin" for i in range(1, 6)]), part(["test_batch.bin"])


def _cifar_records(path: Path) -> np.ndarray:
    data = np.frombuffer(_contents(path), np.uint8)
    if len(data) == 0 or len(data) % _CIFAR_RECORD:
        raise DataError(f"{path} is truncated: {len(data)} bytes are no multiple of a record of {_CIFAR_RECORD}")
    records = data.reshape(-1, _CIFAR_RECORD)
    if records[:, 0].max() > 9:
        raise DataError(f"{path} is not CIFAR-10 in binary form: it has a label {records[:, 0].max()}")
    return records


def _find(directory: Path, name: str) -> Path:
    for path in (directory / name, directory / f"{name}.gz"):
        if path.is_file():
            return path
    raise DataError(f"{directory} has no {name} and no {name}.gz")


def _contents(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
