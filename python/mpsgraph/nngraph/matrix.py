"""Matrices and vectors: views of memory that layers and optimizers read and write in place."""

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
    """Size, row spacing, and dtype of a matrix.

    Args:
        rows: Number of rows.
        columns: Number of columns.
        row_bytes: Bytes from the start of one row to the start of the next. 0 (the default) means that rows are
            adjacent.
        data_type: Floating-point or integer dtype. Defaults to float32.
        matrices: Number of matrices of this size, one after the other. Defaults to 1.
        matrix_bytes: Bytes from the start of one matrix to the start of the next. 0 (the default) means that matrices
            are adjacent.

    The values are checked when a Matrix is created from the descriptor.

    Source: MPSMatrixDescriptor matrixDescriptorWithRows:columns:matrices:rowBytes:matrixBytes:dataType:.

    Example:
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
        """Return the recommended number of bytes per row. On all devices, this is the size of a row, so that rows are
        adjacent.

        Args:
            columns: Number of columns.
            data_type: dtype of the elements.

        Returns:
            The number of bytes.

        Source: rowBytesForColumns:dataType:.
        """
        return columns * as_dtype(data_type).itemsize


@dataclass
class VectorDescriptor:
    """Length, number, spacing, and dtype of vectors.

    Args:
        length: Number of elements.
        data_type: Floating-point or integer dtype. Defaults to float32.
        vectors: Number of vectors of this length, one after the other. Defaults to 1.
        vector_bytes: Bytes from the start of one vector to the start of the next. 0 (the default) means that vectors
            are adjacent.

    The values are checked when a Vector is created from the descriptor.

    Source: MPSVectorDescriptor vectorDescriptorWithLength:vectors:vectorBytes:dataType:.

    Example:
        >>> mg.nngraph.Vector("cpu", mg.nngraph.VectorDescriptor(3)).numpy().tolist()
        [0.0, 0.0, 0.0]
    """

    length: int
    data_type: DTypeLike = "float32"
    vectors: int = 1
    vector_bytes: int = 0


class Matrix(_core.Matrix):
    """Matrix that shares existing memory or allocates memory.

    There are three forms:

    - `Matrix(array)` shares the memory of an array [rows, columns] or [matrices, rows, columns]. There may be gaps
      between rows, but not between the elements of a row.
    - `Matrix(device, descriptor)` allocates a matrix of zeros.
    - `Matrix(buffer, descriptor, offset)` shares part of the memory of a contiguous array of any shape. Several
      matrices may be views of one buffer.

    Args:
        first: Array, buffer (a contiguous array), or device (a Device, its name, or None for the default device).
        descriptor: Size and dtype. None (the default) takes them from the array.
        offset: Byte in the buffer at which the matrix starts. Defaults to 0.

    Attributes:
        rows: Number of rows.
        columns: Number of columns.
        matrices: Number of matrices.
        row_bytes: Bytes from the start of one row to the start of the next.
        matrix_bytes: Bytes from the start of one matrix to the start of the next.
        offset: Byte in the buffer at which the matrix starts.
        array: NDArray over the same memory.

    Raises:
        ShapeError: If the matrix exceeds the memory, a stride is not a multiple of the element size, or the elements of
            a row are not adjacent.
        DTypeError: If the dtype is not a floating-point or integer dtype.
        GraphError: If descriptor is not a MatrixDescriptor.

    Source: MPSMatrix initWithBuffer:descriptor:, initWithBuffer:offset:descriptor:, initWithDevice:descriptor:.

    Example:
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
            raise GraphError(f"Matrix: descriptor must be a MatrixDescriptor, got {shown(descriptor)}")
        d = descriptor
        super().__init__(
            _memory(first), d.rows, d.columns, d.matrices, d.row_bytes, d.matrix_bytes, as_dtype(d.data_type), offset
        )

    @property
    def data_type(self) -> DType:
        """dtype of the elements."""
        return self.dtype

    def numpy(self) -> np.ndarray:
        """Return a view of the same memory, [rows, columns] or, for several matrices, [matrices, rows, columns]."""
        return self.array.numpy()

    def _tensor_data(self, command_buffer: Any, written: bool) -> NDArray:
        return self.array

    def __repr__(self) -> str:
        return f"Matrix({self.rows} x {self.columns}, {self.dtype.name})"


class Vector(_core.Vector):
    """Vector that shares existing memory or allocates memory.

    There are three forms:

    - `Vector(array)` shares the memory of an array [length] or [vectors, length].
    - `Vector(device, descriptor)` allocates a vector of zeros.
    - `Vector(buffer, descriptor, offset)` shares part of the memory of a contiguous array of any shape.

    Args:
        first: Array, buffer (a contiguous array), or device (a Device, its name, or None for the default device).
        descriptor: Length and dtype. None (the default) takes them from the array.
        offset: Byte in the buffer at which the vector starts. Defaults to 0.

    Attributes:
        length: Number of elements.
        vectors: Number of vectors.
        vector_bytes: Bytes from the start of one vector to the start of the next.
        offset: Byte in the buffer at which the vector starts.
        array: NDArray over the same memory.

    Raises:
        ShapeError: If the vector exceeds the memory, a stride is not a multiple of the element size, or the elements
            are not adjacent.
        DTypeError: If the dtype is not a floating-point or integer dtype.
        GraphError: If descriptor is not a VectorDescriptor.

    Source: MPSVector initWithBuffer:descriptor:, initWithBuffer:offset:descriptor:, initWithDevice:descriptor:.

    Example:
        >>> v = mg.nngraph.Vector("cpu", mg.nngraph.VectorDescriptor(4))
        >>> v.length, v.numpy().tolist()
        (4, [0.0, 0.0, 0.0, 0.0])
    """

    def __init__(self, first: Any, descriptor: VectorDescriptor | None = None, offset: int = 0) -> None:
        if descriptor is None:
            super().__init__(first)
            return
        if not isinstance(descriptor, VectorDescriptor):
            raise GraphError(f"Vector: descriptor must be a VectorDescriptor, got {shown(descriptor)}")
        d = descriptor
        super().__init__(_memory(first), d.length, d.vectors, d.vector_bytes, as_dtype(d.data_type), offset)

    @property
    def data_type(self) -> DType:
        """dtype of the elements."""
        return self.dtype

    def numpy(self) -> np.ndarray:
        """Return a view of the same memory, [length] or, for several vectors, [vectors, length]."""
        return self.array.numpy()

    def _tensor_data(self, command_buffer: Any, written: bool) -> NDArray:
        return self.array

    def __repr__(self) -> str:
        return f"Vector({self.length}, {self.dtype.name})"


def device_of(device: _core.Device | str | None) -> _core.Device:
    """Return a Device, given the device, its name, or None for the default; raise DeviceError if it does not exist."""
    if device is None:
        return _core.Device.default()
    return device if isinstance(device, _core.Device) else _core.Device(device)


def _memory(first: Any) -> Any:
    """Return a constructor's first argument: a buffer unchanged, or the Device that will allocate the memory."""
    return device_of(first) if first is None or isinstance(first, (str, _core.Device)) else first
