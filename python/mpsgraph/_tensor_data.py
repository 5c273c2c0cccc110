"""tensor_data: arrays for feeds and results over existing memory, the counterpart of MPSGraphTensorData."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _core
from ._checks import checked
from ._core import NDArray
from ._display import shown
from ._dtypes import DTypeLike, as_dtype
from .errors import GraphError, ShapeError


@checked
def tensor_data(
    source: Any,
    shape: Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    *,
    row_bytes: int | None = None,
    rank: int | None = None,
) -> NDArray:
    """Create an array for feeds and results over the memory of a buffer, a batch of images, a matrix, or a vector.

    The memory is shared and kept alive. There are four forms:

    - tensor_data(buffer, shape, dtype): elements from the start of a buffer, which is an NDArray or a C-contiguous
      numpy array of any dtype, or any object with Python's buffer protocol.
    - tensor_data(image_batch): an array of shape [images, height, width, channels]. For floating-point formats, the
      array shares the memory of the batch. Formats unorm8 and unorm16 are converted to a float32 copy with values from
      0 to 1, and the copy is counted.
    - tensor_data(matrix, rank=None) and tensor_data(vector, rank=None): an array with the shape of the matrix or
      vector. With a rank, axes of size 1 are prepended, or the first axes are joined.
    - tensor_data(array): an NDArray over the memory of an array.

    `run` and `encode` also accept batches of images, matrices, and vectors directly, as feeds and as results; `encode`
    even accepts batches that earlier work on the queue has not written yet. Matrices with padding between rows are
    copied when they are fed, and rejected as results.

    Args:
        source: A buffer, a batch of images, a matrix, a vector, or an array.
        shape: Shape of the array, for a buffer. Defaults to None.
        dtype: Element type of the array, for a buffer. Defaults to None.
        row_bytes: For a buffer, the number of bytes from the start of one row (the elements along the last axis) to the
            start of the next. None, the default, means that rows are dense.
        rank: For a matrix or a vector, the rank of the array, from 1 to 16. Defaults to None.

    Returns:
        An NDArray that shares the memory of source.

    Raises:
        ShapeError: If the array does not fit in the buffer, or rows cannot be joined to the given rank.
        DTypeError: If dtype is not supported.
        GraphError: If the arguments do not match one of the forms.
        DeviceError: If a batch of images has not been written yet.

    Source: MPSGraphTensorData initWithMTLBuffer:shape:dataType:, initWithMTLBuffer:shape:dataType:rowBytes:,
    initWithMPSImageBatch:, initWithMPSMatrix:rank:, initWithMPSVector:rank:, and initWithMPSNDArray:.

    Example:
        >>> buffer = bytearray(np.arange(6, dtype=np.float32))
        >>> mg.tensor_data(buffer, (2, 2), "float32", row_bytes=12).tolist()
        [[0.0, 1.0], [3.0, 4.0]]
        >>> mg.tensor_data(mg.nngraph.ImageBatch(np.full((1, 1, 1, 2), 255, np.uint8))).tolist()
        [[[[1.0, 1.0]]]]
        >>> mg.tensor_data(mg.nngraph.Vector(np.zeros(4, np.float32)), rank=2).shape
        (1, 4)
    """
    if shape is not None or dtype is not None:
        if shape is None or dtype is None or rank is not None:
            raise GraphError("tensor_data: a buffer requires both shape and dtype, and does not take rank")
        return _over_buffer(source, tuple(shape), as_dtype(dtype), row_bytes)
    if row_bytes is not None:
        raise GraphError("tensor_data: row_bytes requires a buffer with shape and dtype")
    if rank is not None and not isinstance(source, (_core.Matrix, _core.Vector)):
        raise GraphError(f"tensor_data: rank requires a Matrix or a Vector, got {shown(source)}")
    stands_for = getattr(source, "_tensor_data", None)
    array = _core.asarray(source, copy=False) if stands_for is None else stands_for(None, False)
    return array if rank is None else _of_rank(array, rank)


def _over_buffer(buffer: Any, shape: tuple[int, ...], dtype: _core.DType, row_bytes: int | None) -> NDArray:
    size = dtype.itemsize
    if any(not isinstance(n, (int, np.integer)) or n < 0 for n in shape):
        raise ShapeError(f"tensor_data: shape must be a sequence of ints of at least 0, got {shown(shape)}")
    row = shape[-1] * size if shape else size
    if row_bytes is None:
        row_bytes = row
    elif not shape or row_bytes < row or row_bytes % size:
        raise ShapeError(
            f"tensor_data: row_bytes must be a multiple of {size} and at least {row} (one row), got {row_bytes}"
        )
    memory = _bytes_of(buffer)
    rows = math.prod(shape[:-1])
    needed = (rows - 1) * row_bytes + row if rows and row else 0
    if needed > memory.size:
        raise ShapeError(
            f"tensor_data: {dtype.name} elements of shape {shape} need {needed} bytes, but the buffer has {memory.size}"
        )
    strides, step = [size] * len(shape), row_bytes
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis], step = step, step * shape[axis]
    return _core.asarray(np.ndarray(shape, dtype.numpy, memory, 0, strides), dtype, copy=False)


def _bytes_of(buffer: Any) -> np.ndarray:
    """Return the bytes of a buffer as a uint8 array."""
    try:
        view = memoryview(buffer.numpy() if isinstance(buffer, NDArray) else buffer)  # type: ignore[arg-type]
        return np.frombuffer(view.cast("B"), np.uint8)
    except (TypeError, ValueError, BufferError) as error:
        raise ShapeError(
            f"tensor_data: source must be a buffer of contiguous bytes, got {shown(buffer)}: {error}"
        ) from error


def _of_rank(array: NDArray, rank: int) -> NDArray:
    if not isinstance(rank, (int, np.integer)) or not 1 <= rank <= 16:
        raise ShapeError(f"tensor_data: rank must be an int from 1 to 16, got {shown(rank)}")
    view = array.numpy()
    joined = view.ndim - rank + 1  # The number of leading axes to join; less than 1 if axes of size 1 are prepended.
    shape = (1,) * (1 - joined) + view.shape if joined < 1 else (-1, *view.shape[joined:])
    shaped = view.reshape(shape)
    if view.size and not np.may_share_memory(shaped, view):
        raise ShapeError(
            f"tensor_data: rank={rank} would join rows that have padding between them: use a matrix with dense rows"
        )
    return _core.asarray(shaped, array.dtype, copy=False)
