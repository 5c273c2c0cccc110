"""Collective calls on arrays, for training steps and programs of one's own.

All processes must make the same calls in the same order. They compare shapes and element types first, so that those who
disagree are told so, each of them.
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
    """The number of this process, from 0: by habit that one prints and writes files.

    >>> mg.distributed.rank()
    0
    """
    return everyone().rank


def size() -> int:
    """How many processes there are: 1 where no mpiexec has started this one.

    >>> mg.distributed.size()
    1
    """
    return everyone().size


def barrier() -> None:
    """Waits until all processes are here. DeviceError where one has ended.

    >>> mg.distributed.barrier()
    """
    them = everyone()
    them.finish(them.common.Ibarrier(), "barrier")


@checked
def all_reduce(array: Any, operation: Literal["sum", "mean", "max", "min"] = "sum") -> np.ndarray:
    """The elements of all processes' arrays put together: the same array in each of them, bit for bit.

    Args: array, of one shape and dtype in all processes; halves are added up in float32 and rounded once; operation,
    "mean" for floats only. Result: a new array of that shape and dtype. Errors: on every process ShapeError and
    DTypeError where they differ; DTypeError for what are no numbers, DeviceError where a process has ended. Source: MPI
    5.0, MPI_Iallreduce.

    >>> mg.distributed.all_reduce(np.float32([1, 2]), "mean").tolist()
    [1.0, 2.0]
    """
    given = _numbers(array, "all_reduce")
    them = everyone()
    if operation == "mean" and given.dtype.kind != "f":
        raise DTypeError(f"[all_reduce] the mean of {given.dtype} is none: use 'sum', or convert to a float first")
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
    """The root's array, in all processes.

    Args: array, which only the root must give; root, the process that has it. Result: a new array. Errors: on every
    process OutOfRangeError for a root that there is not, and DTypeError where the root gave no array of numbers;
    DeviceError where a process has ended. Source: MPI 5.0, MPI_Ibcast.

    >>> mg.distributed.broadcast(np.arange(3)).tolist()
    [0, 1, 2]
    """
    them = everyone()
    if not 0 <= root < them.size:
        raise OutOfRangeError(f"[broadcast] there are processes 0 to {them.size - 1}, root {root} is none of them")
    given: np.ndarray | None = None
    wrong = ""
    if them.rank == root:
        try:
            given = _numbers(array, "broadcast")
        except DTypeError as error:
            wrong = str(error)
    what = them.exchanged(None if given is None else (given.shape, given.dtype.str), "broadcast")[root]
    if what is None:
        raise DTypeError(wrong or f"[broadcast] process {root} gave no array of numbers")
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
        raise DTypeError(f"[{name}] arrays are of numbers, got {given.dtype}: {shown(array)}")
    return given


def _compare(given: np.ndarray, operation: str) -> None:
    """ShapeError or DTypeError on every process where they do not call with the same."""
    them = everyone()
    all_of_them = them.exchanged((given.shape, given.dtype.str, operation), "all_reduce")
    for other, (shape, dtype, asked) in enumerate(all_of_them):
        kinds = f"process {other} gave {shape} {np.dtype(dtype)}, process 0 {all_of_them[0][0]} "
        kinds += f"{np.dtype(all_of_them[0][1])}"
        if shape != all_of_them[0][0]:
            raise ShapeError(f"[all_reduce] arrays are of one shape: {kinds}")
        if dtype != all_of_them[0][1]:
            raise DTypeError(f"[all_reduce] arrays are of one dtype: {kinds}")
        if asked != all_of_them[0][2]:
            raise GraphError(f"[all_reduce] process {other} asked for '{asked}', process 0 for '{all_of_them[0][2]}'")
