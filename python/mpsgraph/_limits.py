"""Limits for untrusted graphs and files, applied while they are read."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from . import _core
from ._checks import checked
from .errors import GraphError


class limits:
    """Context manager that limits what graphs and files from untrusted sources may contain.

    The limits apply to everything that the current thread parses, loads, imports, or builds inside the `with` block:
    graphs in text form, packages, safetensors files, and ONNX and Core ML models. They do not limit the time and memory
    of runs; for these, use the argument `timeout` of `Graph.run` and the limits of the operating system. The limits of
    nested blocks all apply.

    Args:
        nodes: Maximum number of operations. Defaults to 1,000,000.
        depth: Maximum nesting of control flow, functions, and JSON. Defaults to 64.
        bytes: Maximum total size of the files that are read and the constants that are built. Defaults to 16 GiB.
        time: Maximum number of seconds that the block may take to read its input. Defaults to 60.

    Each limit may be None, which means no limit.

    Raises:
        GraphError: If a limit is negative or not a number.
        LimitError: In the block, if input exceeds a limit. A time limit is checked at each operation that is read.

    Example:
        >>> text = str(mg.parse("graph { %x = constant(){value=float32[1] [0x3f800000]}: float32[1] }"))
        >>> try:
        ...     with mg.limits(nodes=0):
        ...         mg.parse(text)
        ... except mg.LimitError as error:
        ...     print(str(error).partition(";")[0])
        the input has more than 0 operations, which is the limit
    """

    @checked
    def __init__(
        self,
        *,
        nodes: int | None = 1_000_000,
        depth: int | None = 64,
        bytes: int | None = 16 << 30,
        time: float | None = 60.0,
    ) -> None:
        for name, value in {"nodes": nodes, "depth": depth, "bytes": bytes, "time": time}.items():
            if value is not None and not 0 <= value <= 1 << 62:
                raise GraphError(f"[limits] {name} must be at least 0 and at most 2**62, or None, got {value}")
        self._nodes, self._depth, self._bytes = (-1 if value is None else value for value in (nodes, depth, bytes))
        self._seconds = -1.0 if time is None else float(time)

    def __enter__(self) -> limits:
        _core.enter_limits(self._nodes, self._depth, self._bytes, self._seconds)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _core.exit_limits()


def count_input(*, nodes: int = 0, bytes: int = 0, depth: int = 0, what: str = "the input") -> None:
    """Count input towards the limits of the current thread.

    Args:
        nodes: Number of operations that were read. Defaults to 0.
        bytes: Number of bytes that were read. Defaults to 0.
        depth: Nesting depth that was reached. Defaults to 0.
        what: Name of the part of the input that contains the bytes, for the error message. Defaults to "the input".

    Raises:
        LimitError: If the input exceeds a limit.
    """
    _core.count_input(nodes, bytes, depth, what)


def file_bytes(path: Any, size: int) -> None:
    """Count a file towards the limits of the current thread.

    Args:
        path: Path of the file, for the error message.
        size: Size of the file in bytes.

    Raises:
        LimitError: If the input exceeds a limit.
    """
    _core.count_input(0, size, 0, str(path))
