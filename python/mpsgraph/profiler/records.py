"""What a profile is made of: kernels, records of what happened, and the limits of a machine. Data and no more."""

from __future__ import annotations

from dataclasses import dataclass, field

from .._checks import checked
from ..errors import GraphError


@dataclass(frozen=True)
class Kernel:
    """What is known of a kernel before it runs. FLOPs count a multiplication and an addition as two.

    >>> g = mg.Graph()
    >>> x = g.constant([1.0, 2.0])
    >>> with mg.profiler.profile() as p:
    ...     _ = g.run({}, g.exponent(x) + x)
    >>> [(kernel.kernel.types, kernel.kernel.bytes) for kernel in p.kernels]
    [('float32[2] -> float32[2]', 16.0), ('float32[2], float32[2] -> float32[2]', 24.0), ('', 16.0)]
    """

    name: str  # of the operation in the graph, unique in its program
    kind: str  # of the operation
    types: str  # "float32[8,32], float32[32,10] -> float32[8,10]"
    implementation: str  # what computes it, e.g. "oneDNN brgconv:avx512_core"
    location: str  # where it was built: "model.py:41", or empty
    flops: float
    bytes_read: float
    bytes_written: float

    @property
    def bytes(self) -> float:
        """Read and written, each operand and result once."""
        return self.bytes_read + self.bytes_written

    @property
    def dtype(self) -> str:
        """Of its first operand."""
        return self.types.split("[")[0]


@dataclass(frozen=True)
class Record:
    """Something that happened: an interval on a thread, one that overlaps others, or an instant. Times in seconds.

    >>> g = mg.Graph()
    >>> x = g.constant([1.0, 2.0])
    >>> with mg.profiler.profile() as p:
    ...     _ = g.run({}, g.exponent(x) + x)
    >>> [(record.category, record.shape) for record in p.kernels]
    [('kernel', 'interval'), ('kernel', 'interval'), ('kernel', 'interval')]
    """

    name: str
    category: str  # "compile", "pass", "encode", "commit", "queue", "run", "kernel", "device", "copy", "event", "wait",
    # "communication"
    shape: str  # "interval", "overlapping", "instant"
    thread: str
    begin: float  # since the profile was started
    end: float
    command_buffer: int  # its number in this process; 0: none
    kernel: Kernel | None = None
    own: float = 0.0  # of a kernel: without the kernels that ran within it

    @property
    def duration(self) -> float:
        """end - begin."""
        return self.end - self.begin


@checked
@dataclass(frozen=True)
class Limits:
    """What the machine can do: FLOP/s of float32 multiply-adds by all threads, bytes/s between memory and processor.

    Errors: GraphError for rates that are not above 0.

    >>> limits = mg.profiler.Limits(1e11, 2e10)
    >>> limits.flops / limits.bandwidth
    5.0
    """

    flops: float
    bandwidth: float
    by_dtype: dict[str, float] = field(default_factory=dict)  # FLOP/s where another type is faster or slower

    def __post_init__(self) -> None:
        for rate in (self.flops, self.bandwidth, *self.by_dtype.values()):
            if not rate > 0:
                raise GraphError(f"limits are rates above 0, got {self}")

    def bound(self, kernel: Kernel) -> float:
        """The seconds that a kernel needs at least: max(FLOPs / peak, bytes / bandwidth)."""
        return max(kernel.flops / self.by_dtype.get(kernel.dtype, self.flops), kernel.bytes / self.bandwidth)
