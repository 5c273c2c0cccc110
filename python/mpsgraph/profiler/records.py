"""Data of a profile: kernels, records, and the limits of a machine."""

from __future__ import annotations

from dataclasses import dataclass, field

from .._checks import checked
from ..errors import GraphError


@dataclass(frozen=True)
class Kernel:
    """Properties of a kernel that are known before it runs.

    Args:
        name: Name of the operation in the graph, unique in its program.
        kind: Kind of the operation.
        types: Types of operands and results, such as "float32[8,32], float32[32,10] -> float32[8,10]".
        implementation: Implementation, such as "winograd: tiles of 4 x 4 by Winograd".
        location: Source line that built the operation, such as "model.py:41", or "".
        flops: Number of floating-point operations. A multiply-add counts as two.
        bytes_read: Bytes of the operands, each counted once.
        bytes_written: Bytes of the results, each counted once.

    Example:
        >>> g = mg.Graph()
        >>> x = g.constant([1.0, 2.0])
        >>> with mg.profiler.profile() as p:
        ...     _ = g.run({}, g.exponent(x) + x)
        >>> [(kernel.kernel.types, kernel.kernel.bytes) for kernel in p.kernels]
        [('float32[2] -> float32[2]', 16.0), ('float32[2], float32[2] -> float32[2]', 24.0), ('', 16.0)]
    """

    name: str
    kind: str
    types: str
    implementation: str
    location: str
    flops: float
    bytes_read: float
    bytes_written: float

    @property
    def bytes(self) -> float:
        """Bytes read and written, each operand and result counted once."""
        return self.bytes_read + self.bytes_written

    @property
    def dtype(self) -> str:
        """dtype of the first operand."""
        return self.types.split("[")[0]


@dataclass(frozen=True)
class Record:
    """Event in a profile. Times are in seconds.

    Args:
        name: Name of the event.
        category: "compile", "pass", "encode", "commit", "queue", "run", "kernel", "device", "copy", "event", "wait", or
            "communication".
        shape: "interval" (nested within others on its thread), "overlapping", or "instant".
        thread: Name of the thread.
        begin: Start time, relative to the start of the profile.
        end: End time, relative to the start of the profile.
        command_buffer: Number of the command buffer, counted in this process; 0 if the event belongs to no command
            buffer.
        kernel: The kernel, for records of kernels. Defaults to None.
        own: For kernels, the duration without nested kernels. Defaults to 0.

    Example:
        >>> g = mg.Graph()
        >>> x = g.constant([1.0, 2.0])
        >>> with mg.profiler.profile() as p:
        ...     _ = g.run({}, g.exponent(x) + x)
        >>> [(record.category, record.shape) for record in p.kernels]
        [('kernel', 'interval'), ('kernel', 'interval'), ('kernel', 'interval')]
    """

    name: str
    category: str
    # "communication"
    shape: str
    thread: str
    begin: float
    end: float
    command_buffer: int
    kernel: Kernel | None = None
    own: float = 0.0

    @property
    def duration(self) -> float:
        """Duration in seconds."""
        return self.end - self.begin


@checked
@dataclass(frozen=True)
class Limits:
    """Peak rates of a machine.

    Args:
        flops: float32 FLOP/s of all threads.
        bandwidth: Bytes per second between memory and processor.
        by_dtype: Dict from dtypes to FLOP/s, for dtypes whose rate differs from that of float32. Empty by default.

    Raises:
        GraphError: If a rate is not positive.

    Example:
        >>> limits = mg.profiler.Limits(1e11, 2e10)
        >>> limits.flops / limits.bandwidth
        5.0
    """

    flops: float
    bandwidth: float
    by_dtype: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for rate in (self.flops, self.bandwidth, *self.by_dtype.values()):
            if not rate > 0:
                raise GraphError(f"Limits: all rates must be positive, got {self}")

    def bound(self, kernel: Kernel) -> float:
        """Return the least time that a kernel needs: max(FLOPs / peak, bytes / bandwidth).

        Args:
            kernel: The kernel.

        Returns:
            The time in seconds.
        """
        return max(kernel.flops / self.by_dtype.get(kernel.dtype, self.flops), kernel.bytes / self.bandwidth)
