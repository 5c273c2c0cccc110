"""Collective operations on arrays, for custom training steps and other programs.

All processes must make the same calls in the same order. The calls compare shapes and dtypes first, so a mismatch
raises an error in every process.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from .._checks import checked, refuse
from .._core import NDArray
from .._display import shown
from ..errors import DTypeError, GraphError, OutOfRangeError, ShapeError
from .processes import everyone

_OPERATIONS = {"sum": "SUM", "mean": "SUM", "max": "MAX", "min": "MIN"}


def rank() -> int:
    """Return the index of this process, starting at 0.

    By convention, process 0 prints and writes files.

    Returns:
        An int from 0 to size() - 1.

    Example:
        >>> mg.distributed.rank()
        0
    """
    return everyone().rank


def size() -> int:
    """Return the number of processes, which is 1 if the program was not started by mpiexec.

    Returns:
        A positive int.

    Example:
        >>> mg.distributed.size()
        1
    """
    return everyone().size


def barrier() -> None:
    """Wait until all processes have called this function.

    Raises:
        DeviceError: If a process has ended.

    Example:
        >>> mg.distributed.barrier()
    """
    them = everyone()
    them.finish(them.common.Ibarrier(), "barrier")


@checked
def all_reduce(array: Any, operation: Literal["sum", "mean", "max", "min"] = "sum") -> np.ndarray:
    """Combine the arrays of all processes element by element.

    The result is bit-identical in all processes. float16 arrays are combined in float32 and rounded once.

    Args:
        array: Array with the same shape and dtype in all processes.
        operation: "sum" (the default), "mean" (for floating-point arrays only), "max", or "min".

    Returns:
        A new array with the shape and dtype of array.

    Raises:
        ShapeError: In every process, if the shapes differ.
        DTypeError: In every process, if the dtypes differ; also if an array is not numeric, or if operation is "mean"
            and the array is not floating-point.
        GraphError: In every process, if the operations differ.
        DeviceError: If a process has ended.

    Source: MPI 5.0, MPI_Iallreduce.

    Example:
        >>> mg.distributed.all_reduce(np.float32([1, 2]), "mean").tolist()
        [1.0, 2.0]
    """
    given = _numbers(array, "all_reduce")
    them = everyone()
    if operation == "mean" and given.dtype.kind != "f":
        raise DTypeError(
            f"[all_reduce] operation='mean' requires a floating-point array, got {given.dtype}; use operation='sum' or "
            "convert the array first"
        )
    _compare(given, operation)
    narrow = given.dtype == np.float16
    buffer = np.array(given, np.float32 if narrow else given.dtype, order="C")
    if buffer.size:
        operator = getattr(them.MPI, _OPERATIONS[operation])
        request = them.common.Iallreduce(them.MPI.IN_PLACE, buffer, operator)
        them.finish(request, "all_reduce", buffer)
    if operation == "mean":
        buffer /= them.size
    return buffer.astype(given.dtype) if narrow else buffer


@checked
def broadcast(array: Any = None, root: int = 0) -> np.ndarray:
    """Send an array from one process to all others.

    Args:
        array: Array to send. Only the root process has to pass it.
        root: Rank of the process that sends the array. Defaults to 0.

    Returns:
        A new array, equal in all processes.

    Raises:
        OutOfRangeError: In every process, if there is no process with the rank root.
        DTypeError: In every process, if the root's array is not numeric.
        DeviceError: If a process has ended.

    Source: MPI 5.0, MPI_Ibcast.

    Example:
        >>> mg.distributed.broadcast(np.arange(3)).tolist()
        [0, 1, 2]
    """
    them = everyone()
    if not 0 <= root < them.size:
        raise OutOfRangeError(f"[broadcast] root must be a rank from 0 to {them.size - 1}, got {root}")
    given: np.ndarray | None = None
    wrong = ""
    if them.rank == root:
        try:
            given = _numbers(array, "broadcast")
        except DTypeError as error:
            wrong = str(error)
    what = them.exchanged(None if given is None else (given.shape, given.dtype.str), "broadcast")[root]
    if what is None:
        raise DTypeError(
            wrong or f"[broadcast] array must be numeric in process {root}, the root; see the error of that process"
        )
    shape, dtype = what
    buffer = np.empty(shape, dtype) if given is None else np.array(given, order="C")
    if buffer.size:
        them.finish(them.common.Ibcast(buffer, root), "broadcast", buffer)
    return buffer


def _numbers(array: Any, name: str) -> np.ndarray:
    if not isinstance(array, (np.ndarray, np.number, NDArray, float, int)) or isinstance(array, bool):
        refuse(f"{name}: array", np.ndarray, array)
    given = array.numpy() if isinstance(array, NDArray) else np.asarray(array)
    if given.dtype.kind not in "iufc" or given.dtype.itemsize > 16 or not given.dtype.isnative:
        raise DTypeError(f"[{name}] array must be numeric, got dtype {given.dtype}: {shown(array)}")
    return given


def _compare(given: np.ndarray, operation: str) -> None:
    """Raise an error in every process if the processes pass different shapes, dtypes, or operations."""
    them = everyone()
    all_of_them = them.exchanged((given.shape, given.dtype.str, operation), "all_reduce")
    for other, (shape, dtype, asked) in enumerate(all_of_them):
        kinds = f"process {other} passed {shape} {np.dtype(dtype)}, process 0 {all_of_them[0][0]} "
        kinds += f"{np.dtype(all_of_them[0][1])}"
        if shape != all_of_them[0][0]:
            raise ShapeError(f"[all_reduce] all processes must pass arrays of the same shape, got {kinds}")
        if dtype != all_of_them[0][1]:
            raise DTypeError(f"[all_reduce] all processes must pass arrays of the same dtype, got {kinds}")
        if asked != all_of_them[0][2]:
            raise GraphError(
                f"[all_reduce] all processes must pass the same operation: process {other} passed '{asked}', process 0 "
                f"passed '{all_of_them[0][2]}'"
            )
