"""The profiler: where a step's time goes, kernel by kernel, and what the machine could do at most.

`with mg.profiler.profile() as p:` records everything that runs meanwhile, on all threads; `print(p.table())` says which
kernels took the time, how many bytes and operations they had to do, and how near they came to the machine's limits;
`p.save_chrome_trace("step.json")` writes the timeline for chrome://tracing and ui.perfetto.dev. Outside, a run pays for
one look at a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import current_thread
from typing import Any

from . import _core
from ._checks import checked
from ._core import Device
from ._shown import shown
from .errors import DeviceError, GraphError

CAPACITY = 262144  # records, about 150 bytes each


@dataclass(frozen=True)
class Kernel:
    """What is known of a kernel before it runs. FLOPs count a multiplication and an addition as two."""

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
    """Something that happened: an interval on a thread, one that overlaps others, or an instant. Times in seconds."""

    name: str
    category: str  # "compile", "pass", "encode", "commit", "queue", "run", "kernel", "device", "copy", "event", "wait"
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


@checked
class Profile:
    """What was recorded between start and stop."""

    def __init__(self) -> None:
        self._recorded: _core.Profile | None = None
        self._records: list[Record] | None = None

    def _fill(self, recorded: _core.Profile) -> None:
        self._recorded = recorded

    @property
    def _done(self) -> _core.Profile:
        if self._recorded is None:
            raise DeviceError("this profile is still being taken; look at it after its `with` block, or after stop()")
        return self._recorded

    @property
    def duration(self) -> float:
        """Seconds from start to stop."""
        return self._done.duration * 1e-9

    @property
    def dropped(self) -> int:
        """How many records made room for newer ones; 0 when nothing is missing."""
        return self._done.dropped

    @property
    def records(self) -> list[Record]:
        """All that happened, by the time of its beginning."""
        if self._records is None:
            threads = self._done.threads
            records, kernels = self._done.contents()
            self._records = _ordered(records, [Kernel(*kernel) for kernel in kernels], threads)
        return self._records

    @property
    def kernels(self) -> list[Record]:
        """The runs of kernels; `record.kernel` describes what ran."""
        return [record for record in self.records if record.category == "kernel"]

    def save_chrome_trace(self, path: str | Path) -> None:
        """Writes the timeline as JSON in Chrome's trace event format. Errors: GraphError when it cannot be written."""
        try:
            Path(path).write_text(self._done.chrome_trace(), encoding="utf-8")
        except OSError as error:
            raise GraphError(f"save_chrome_trace: {shown(str(path))} cannot be written: {error.strerror}") from None

    def plot(self, axes: Any = None, begin: float = 0.0, end: float | None = None) -> Any:
        """Draws the timeline: a lane a thread, kernels in the colour of their kind, what they lie in above them.

        Args: axes of matplotlib, None: a new figure; begin and end, in seconds since the start, None: to the stop.
        Result: the axes. Errors: ImportError without matplotlib.
        """
        from ._profile_plot import plot_timeline

        return plot_timeline(self, axes, begin, self.duration if end is None else end)

    def table(self, by: str = "kernel", top: int | None = 20, limits: Limits | None = None) -> str:
        """The kernels, or kinds of kernels, that took the most time.

        Args: by, "kernel" or "kind"; top, rows, None for all; limits, of the machine, None: `machine_limits()`.
        Result: text with calls, time without the kernels within, share of all kernels' time, the median of a call, and
        for a call bytes, operations, their rates, and the share of the bound: the time that the machine needs at least
        over the time that it took. Above 100% operands came from caches. Errors: GraphError for another `by`
        or a negative `top`.
        """
        from ._profile_table import format_table

        if by not in ("kernel", "kind"):
            raise GraphError(f'a profile has tables by "kernel" or by "kind", not by {shown(by)}')
        if top is not None and top < 0:
            raise GraphError(f"top is a number of rows, 0 or more, or None for all, got {top}")
        return format_table(self, by, top, limits or machine_limits())


def _ordered(records: Iterable[Any], kernels: list[Kernel], threads: dict[int, str]) -> list[Record]:
    """By beginning, and what lies within behind what it lies in; with the kernels' own times."""
    records = sorted(records, key=lambda r: (r[4], -r[5]))
    own = [r[5] for r in records]
    within: dict[int, list[tuple[int, int]]] = {}  # thread: open kernels, as (end, place)
    for place, (_, category, _, thread, begin, duration, _, _) in enumerate(records):
        if category != "kernel":
            continue
        stack = within.setdefault(thread, [])
        while stack and stack[-1][0] < begin + duration:
            stack.pop()
        if stack:
            own[stack[-1][1]] -= duration
        stack.append((begin + duration, place))
    result = []
    for (name, category, shape, thread, begin, duration, buffer, index), time in zip(records, own, strict=True):
        kernel = kernels[index] if index >= 0 else None
        result.append(
            Record(
                kernel.name if kernel else name,
                category,
                shape,
                threads[thread],
                begin * 1e-9,
                (begin + duration) * 1e-9,
                buffer,
                kernel,
                time * 1e-9 if kernel else 0.0,
            )
        )
    return result


_started: Profile | None = None


@checked
def start(capacity: int = CAPACITY) -> None:
    """Records from now on, until stop(). Keeps the newest `capacity` records.

    Errors: DeviceError when a profile is being taken already, GraphError for a capacity below 1.

    >>> mg.profiler.start()
    >>> len(mg.profiler.stop().kernels)
    0
    """
    global _started
    profile = Profile()
    _start(capacity)
    _started = profile


def stop() -> Profile:
    """Ends what start() began and returns it. Work that is still in flight is not in it.

    Errors: DeviceError when none is being taken.
    """
    global _started
    if _started is None:
        raise DeviceError("no profile was started with mpsgraph.profiler.start()")
    profile, _started = _started, None
    profile._fill(_core.stop_profile())
    return profile


@checked
@contextmanager
def profile(capacity: int = CAPACITY) -> Iterator[Profile]:
    """Records what runs within the block, on all threads. Work that is in flight at its end is not in it.

    Args: capacity, the newest so many records are kept. Result: the profile, to be looked at after the block, also
    when the block raised. Errors: DeviceError when a profile is being taken already.

    >>> g = mg.Graph()
    >>> x = g.placeholder((-1, 4), name="x")
    >>> y = g.matrix_multiplication(x, g.constant(np.ones((4, 2), np.float32)))
    >>> with mg.profiler.profile() as p:
    ...     _ = g.run({x: np.ones((3, 4), np.float32)}, y, device="cpu")
    >>> [(k.kernel.kind, k.kernel.flops, k.kernel.bytes_read) for k in p.kernels]
    [('matrix_multiplication', 48.0, 80.0)]
    """
    result = Profile()
    _start(capacity)
    try:
        yield result
    finally:
        result._fill(_core.stop_profile())


def _start(capacity: int) -> None:
    if capacity < 1:
        raise GraphError(f"a profile keeps at least 1 record, capacity {capacity} came")
    _core.name_this_thread(current_thread().name)
    _core.start_profile(capacity)


@checked
def machine_limits(device: Device | str | None = None) -> Limits | None:
    """What a device can do at most: measured for a tenth of a second when first asked for, then remembered.

    Multiply-adds from registers by all threads, and a copy of memory larger than most caches. Args: device, None: the
    default one. Result: None for a device that cannot tell, such as "metal".

    >>> mg.profiler.machine_limits("cpu").flops > 1e9
    True
    """
    name = device if isinstance(device, str) else (device or Device.default()).name
    flops, bandwidth = _core.device_limits(name)
    return Limits(flops["float32"], bandwidth, flops) if flops else None
