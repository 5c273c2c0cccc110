"""tensor_data: what a graph reads and writes, over memory of something else. MPSGraphTensorData's constructors."""

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
    """An array for feeds and results, over the memory of a buffer, of a batch of images, of a matrix or of a vector.

    Four forms:
        tensor_data(buffer, shape, dtype): elements from the begin of a buffer's bytes on. A buffer is an NDArray or a
        C-contiguous numpy array, whatever its dtype, or what has Python's buffer protocol. row_bytes: from one row,
        along the last axis, to the next; dense when None.
        tensor_data(image_batch): [images, height, width, channels]. Of float formats the same memory; unorm8 and
        unorm16 become float32 from 0 to 1, in a copy, which is counted.
        tensor_data(matrix, rank=None), tensor_data(vector, rank=None): of their own shapes. With a rank, from 1 to 16,
        axes of size 1 come first, or the first axes are joined.
        tensor_data(array): an NDArray of an array's memory.
    The memory is shared and kept alive. `run` and `encode` take batches of images, matrices and vectors by themselves,
    too, as feeds and as results; `encode` also batches that earlier work on its queue has yet to write. Rows that stand
    apart are copied when they are fed, and refused as results.
    Errors: ShapeError for sizes that do not lie within the buffer, and for rows that a rank cannot join; DTypeError;
    GraphError for arguments of another form; DeviceError for a batch that is not written yet. Source:
    MPSGraphTensorData initWithMTLBuffer:shape:dataType:, initWithMTLBuffer:shape:dataType:rowBytes:,
    initWithMPSImageBatch:, initWithMPSMatrix:rank:, initWithMPSVector:rank:, initWithMPSNDArray:.

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
            raise GraphError("tensor_data over a buffer needs a shape and a dtype, and takes no rank")
        return _over_buffer(source, tuple(shape), as_dtype(dtype), row_bytes)
    if row_bytes is not None:
        raise GraphError("tensor_data: row_bytes goes with a buffer, a shape and a dtype")
    if rank is not None and not isinstance(source, (_core.Matrix, _core.Vector)):
        raise GraphError(f"tensor_data: a rank goes with a Matrix or a Vector, not with {shown(source)}")
    stands_for = getattr(source, "_tensor_data", None)
    array = _core.asarray(source, copy=False) if stands_for is None else stands_for(None, False)
    return array if rank is None else _of_rank(array, rank)


def _over_buffer(buffer: Any, shape: tuple[int, ...], dtype: _core.DType, row_bytes: int | None) -> NDArray:
    size = dtype.itemsize
    if any(not isinstance(n, (int, np.integer)) or n < 0 for n in shape):
        raise ShapeError(f"tensor_data: a shape is sizes from 0, got {shown(shape)}")
    row = shape[-1] * size if shape else size
    if row_bytes is None:
        row_bytes = row
    elif not shape or row_bytes < row or row_bytes % size:
        raise ShapeError(f"tensor_data: row_bytes is a multiple of {size} from the row's {row} on, got {row_bytes}")
    memory = _bytes_of(buffer)
    rows = math.prod(shape[:-1])
    needed = (rows - 1) * row_bytes + row if rows and row else 0
    if needed > memory.size:
        raise ShapeError(f"tensor_data: {shape} of {dtype.name} takes {needed} bytes, the buffer has {memory.size}")
    strides, step = [size] * len(shape), row_bytes
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis], step = step, step * shape[axis]
    return _core.asarray(np.ndarray(shape, dtype.numpy, memory, 0, strides), dtype, copy=False)


def _bytes_of(buffer: Any) -> np.ndarray:
    """All bytes of a buffer."""
    try:
        view = memoryview(buffer.numpy() if isinstance(buffer, NDArray) else buffer)  # type: ignore[arg-type]
        return np.frombuffer(view.cast("B"), np.uint8)
    except (TypeError, ValueError, BufferError) as error:
        raise ShapeError(f"tensor_data: {shown(buffer)} is no buffer of contiguous bytes: {error}") from error


def _of_rank(array: NDArray, rank: int) -> NDArray:
    if not isinstance(rank, (int, np.integer)) or not 1 <= rank <= 16:
        raise ShapeError(f"tensor_data: a rank is from 1 to 16, got {shown(rank)}")
    view = array.numpy()
    joined = view.ndim - rank + 1  # the first axes, as one; those of size 1 when it is less than one
    shape = (1,) * (1 - joined) + view.shape if joined < 1 else (-1, *view.shape[joined:])
    shaped = view.reshape(shape)
    if view.size and not np.may_share_memory(shaped, view):
        raise ShapeError(f"tensor_data: rows that stand apart cannot be joined to rank {rank}; take dense ones")
    return _core.asarray(shaped, array.dtype, copy=False)
