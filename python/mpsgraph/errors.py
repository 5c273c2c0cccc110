"""The errors that mpsgraph raises. Each also belongs to the built-in class that Python users would expect.

Error: all of them. ShapeError (ValueError): ranks, sizes, axes. DTypeError (TypeError): element types that do not
match. GraphError (ValueError): structure, feeds, names. UnsupportedError (NotImplementedError): valid, but not on this
device. DeviceError (RuntimeError): the run itself. TimeoutError (DeviceError): what did not come in time.
CheckpointError (ValueError): a damaged or foreign checkpoint.
"""

from ._core import (
    CheckpointError,
    DeviceError,
    DTypeError,
    Error,
    GraphError,
    ShapeError,
    TimeoutError,
    UnsupportedError,
)

__all__ = [
    "CheckpointError",
    "DTypeError",
    "DeviceError",
    "Error",
    "GraphError",
    "ShapeError",
    "TimeoutError",
    "UnsupportedError",
]
