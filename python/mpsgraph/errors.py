"""The errors that mpsgraph raises. Each error class is also a subclass of the matching built-in exception.

The compiled core, which raises most of these errors, defines the classes. The definitions below are for type checkers.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

if TYPE_CHECKING:

    class Error(Exception):
        """Base class of the errors that mpsgraph raises."""

    class ShapeError(Error, ValueError):
        """Raised when ranks, sizes, or axes do not match or are out of range."""

    class OutOfRangeError(Error, IndexError):
        """Raised when an index, a class number, or a length is out of range."""

    class CheckError(Error, AssertionError):
        """Raised when a check fails during a run: Graph.check, or check_finite on NaN or an infinity."""

    class DTypeError(Error, TypeError):
        """Raised when element types do not match or are not supported."""

    class GraphError(Error, ValueError):
        """Raised for invalid graphs or arguments, such as tensors of another graph, wrong names, or unparsable text."""

    class UnsupportedError(Error, NotImplementedError):
        """Raised when a device does not support an operation that is otherwise valid."""

    class DeviceError(Error, RuntimeError):
        """Raised when a device does not exist, or a run fails because of memory, queues, command buffers, or a fork."""

    class TimeoutError(DeviceError, builtins.TimeoutError):
        """Raised when an event or a command buffer does not complete in time."""

    class CancelledError(DeviceError):
        """Raised when a run was cancelled; variables have the values from before the run."""

    class OutOfMemoryError(DeviceError, MemoryError):
        """Raised when there is not enough memory."""

    class LimitError(Error, ValueError):
        """Raised when a graph or a file exceeds a limit set with `mpsgraph.limits`."""

    class CheckpointError(Error, ValueError):
        """Raised when a checkpoint is damaged or is not a checkpoint."""

    class PackageError(Error, ValueError):
        """Raised when a package is damaged, is not a package, or cannot be written."""

else:
    from ._core import (
        CancelledError,
        CheckError,
        CheckpointError,
        DeviceError,
        DTypeError,
        Error,
        GraphError,
        LimitError,
        OutOfMemoryError,
        OutOfRangeError,
        PackageError,
        ShapeError,
        TimeoutError,
        UnsupportedError,
    )


class ArgumentError(GraphError, TypeError):
    """Raised for arguments that a function does not take: too many by position, or a name that it does not have."""


class AxisError(ShapeError, IndexError):
    """Raised by `mpsgraph.numpy` when an axis is out of range.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> try:
        ...     mnp.sum(mnp.ones(3), axis=1)
        ... except mg.errors.AxisError as error:
        ...     print(error)
        sum: axis 1 is out of range for rank 1
    """


__all__ = [
    "ArgumentError",
    "AxisError",
    "CancelledError",
    "CheckError",
    "CheckpointError",
    "DTypeError",
    "DeviceError",
    "Error",
    "GraphError",
    "LimitError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "PackageError",
    "ShapeError",
    "TimeoutError",
    "UnsupportedError",
]
