"""The errors that mpsgraph raises. Each also belongs to the built-in class that Python users would expect.

They are made by the compiled core, which raises most of them; type checkers see the classes that stand here.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

if TYPE_CHECKING:

    class Error(Exception):
        """Every error that mpsgraph raises on purpose."""

    class ShapeError(Error, ValueError):
        """Ranks, dimensions, sizes, axes that do not fit."""

    class OutOfRangeError(Error, IndexError):
        """Indices, class numbers, lengths outside of what they count."""

    class CheckError(Error, AssertionError):
        """A check of a run that did not hold: Graph.check, or that all numbers are finite."""

    class DTypeError(Error, TypeError):
        """Element types that do not match or are not supported there."""

    class GraphError(Error, ValueError):
        """Structure: foreign tensors, feeds, names, attributes, text that does not parse."""

    class UnsupportedError(Error, NotImplementedError):
        """Valid, but this device cannot do it."""

    class DeviceError(Error, RuntimeError):
        """The run itself: memory, queues, command buffers, fork."""

    class TimeoutError(DeviceError, builtins.TimeoutError):
        """An event or a command buffer that did not come in time."""

    class CheckpointError(Error, ValueError):
        """A damaged or foreign checkpoint."""

    class PackageError(Error, ValueError):
        """A damaged or foreign package, or one that cannot be written."""

else:
    from ._core import (
        CheckError,
        CheckpointError,
        DeviceError,
        DTypeError,
        Error,
        GraphError,
        OutOfRangeError,
        PackageError,
        ShapeError,
        TimeoutError,
        UnsupportedError,
    )

__all__ = [
    "CheckError",
    "CheckpointError",
    "DTypeError",
    "DeviceError",
    "Error",
    "GraphError",
    "OutOfRangeError",
    "PackageError",
    "ShapeError",
    "TimeoutError",
    "UnsupportedError",
]
