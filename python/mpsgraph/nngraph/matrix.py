"""Matrix and Vector: numbers in memory that layers read and write in place, with rows that may stand apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from .._core import DType, NDArray
from .._display import shown
from .._dtypes import DTypeLike, as_dtype
from ..errors import GraphError


@dataclass
class MatrixDescriptor:
    """What a matrix is: its size, where its rows begin, its element type.

    Args: rows, columns, matrices (of one size, one after the other); row_bytes and matrix_bytes, from the begin of a
    row or matrix to that of the next, dense when 0; data_type, a float or integer dtype. A Matrix made of it refuses
    sizes that cannot be with ShapeError. Source: MPSMatrixDescriptor
    matrixDescriptorWithRows:columns:matrices:rowBytes:matrixBytes:dataType:.

    >>> mg.nngraph.MatrixDescriptor(3, 4).row_bytes_for_columns(4, "float16")
    8
    """

    rows: int
    columns: int
    row_bytes: int = 0
    data_type: DTypeLike = "float32"
    matrices: int = 1
    matrix_bytes: int = 0

    @staticmethod
    def row_bytes_for_columns(columns: int, data_type: DTypeLike) -> int:
        """Bytes of a row that is read quickly: here dense ones are. Source: rowBytesForColumns:dataType:."""
        return columns * as_dtype(data_type).itemsize


@dataclass
class VectorDescriptor:
    """What a vector is: length, how many of them, bytes from one to the next (dense when 0), element type.

    Source: MPSVectorDescriptor vectorDescriptorWithLength:vectors:vectorBytes:dataType:.

    >>> mg.nngraph.Vector("cpu", mg.nngraph.VectorDescriptor(3)).numpy().tolist()
    [0.0, 0.0, 0.0]
    """

    length: int
    data_type: DTypeLike = "float32"
    vectors: int = 1
    vector_bytes: int = 0


class Matrix(_core.Matrix):
    """Rows and columns over memory, float or integer.

    Three forms:
        Matrix(array): over an array [rows, columns] or [matrices, rows, columns] of numpy's or mpsgraph's, whose memory
        it shares; rows may stand apart, elements of a row may not.
        Matrix(device, descriptor): zeros of its own.
        Matrix(buffer, descriptor, offset=0): over the memory of a contiguous array from a byte on, whatever its shape:
        several matrices may be views of one buffer.
    Attributes: rows, columns, matrices, row_bytes, matrix_bytes, offset (bytes), data_type; `array`, an NDArray of the
    same memory, and `numpy()`. Errors: ShapeError when it does not lie within the memory, when a stride is no multiple
    of the element or when an array's memory cannot be shared; DTypeError. Source: MPSMatrix initWithBuffer:descriptor:,
    initWithBuffer:offset:descriptor:, initWithDevice:descriptor:.

    >>> sequence = np.zeros((2, 20, 3), np.float32)  # two sequences of twenty steps
    >>> step = mg.nngraph.Matrix(sequence[:, 5])
    >>> step.numpy()[:] = 1
    >>> step.rows, step.columns, step.row_bytes, float(sequence.sum())
    (2, 3, 240, 6.0)
    """

    def __init__(self, first: Any, descriptor: MatrixDescriptor | None = None, offset: int = 0) -> None:
        if descriptor is None:
            super().__init__(first)
            return
        if not isinstance(descriptor, MatrixDescriptor):
            raise GraphError(f"Matrix: the descriptor is {shown(descriptor)} and must be a MatrixDescriptor")
        d = descriptor
        super().__init__(
            _memory(first), d.rows, d.columns, d.matrices, d.row_bytes, d.matrix_bytes, as_dtype(d.data_type), offset
        )

    @property
    def data_type(self) -> DType:
        """The element type."""
        return self.dtype

    def numpy(self) -> np.ndarray:
        """A view of the same memory, [rows, columns] or [matrices, rows, columns]."""
        return self.array.numpy()

    def _tensor_data(self, command_buffer: Any, written: bool) -> NDArray:
        return self.array

    def __repr__(self) -> str:
        return f"Matrix({self.rows} x {self.columns}, {self.dtype.name})"


class Vector(_core.Vector):
    """Numbers over memory, one after the other.

    Vector(array): over an array [length] or [vectors, length]. Vector(device, descriptor): zeros. Vector(buffer,
    descriptor, offset=0): over a contiguous array's memory. Attributes: length, vectors, vector_bytes, offset,
    data_type, array; numpy(). Errors: ShapeError, DTypeError, as of Matrix. Source: MPSVector
    initWithBuffer:descriptor: and its other forms.

    >>> v = mg.nngraph.Vector("cpu", mg.nngraph.VectorDescriptor(4))
    >>> v.length, v.numpy().tolist()
    (4, [0.0, 0.0, 0.0, 0.0])
    """

    def __init__(self, first: Any, descriptor: VectorDescriptor | None = None, offset: int = 0) -> None:
        if descriptor is None:
            super().__init__(first)
            return
        if not isinstance(descriptor, VectorDescriptor):
            raise GraphError(f"Vector: the descriptor is {shown(descriptor)} and must be a VectorDescriptor")
        d = descriptor
        super().__init__(_memory(first), d.length, d.vectors, d.vector_bytes, as_dtype(d.data_type), offset)

    @property
    def data_type(self) -> DType:
        """The element type."""
        return self.dtype

    def numpy(self) -> np.ndarray:
        """A view of the same memory, [length] or [vectors, length]."""
        return self.array.numpy()

    def _tensor_data(self, command_buffer: Any, written: bool) -> NDArray:
        return self.array

    def __repr__(self) -> str:
        return f"Vector({self.length}, {self.dtype.name})"


def device_of(device: _core.Device | str | None) -> _core.Device:
    """A device by itself, by its name, or the default for None. DeviceError when there is none."""
    if device is None:
        return _core.Device.default()
    return device if isinstance(device, _core.Device) else _core.Device(device)


def _memory(first: Any) -> Any:
    """The array that is a buffer, or the device that shall give the memory."""
    return device_of(first) if first is None or isinstance(first, (str, _core.Device)) else first
