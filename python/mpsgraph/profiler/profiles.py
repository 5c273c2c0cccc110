"""Profiles, which present a recording as a table, a plot, or a trace for other programs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .. import _core
from .._checks import checked
from .._display import shown
from ..errors import DeviceError, GraphError
from .limits import machine_limits
from .records import Kernel, Limits, Record
from .table import format_table
from .timeline import plot_timeline


@checked
class Profile:
    """Recording of everything that ran between start() and stop().

    Example:
        >>> g = mg.Graph()
        >>> x = g.constant([1.0, 2.0])
        >>> with mg.profiler.profile() as p:
        ...     _ = g.run({}, g.exponent(x) + x)
        >>> [record.kernel.kind for record in p.kernels]
        ['exponent', 'addition', 'copy']
    """

    def __init__(self) -> None:
        self._recorded: _core.Profile | None = None
        self._records: list[Record] | None = None

    @property
    def _done(self) -> _core.Profile:
        if self._recorded is None:
            raise DeviceError("this profile is still being recorded; read it after its `with` block, or after stop()")
        return self._recorded

    @property
    def duration(self) -> float:
        """Seconds from start to stop."""
        return self._done.duration * 1e-9

    @property
    def dropped(self) -> int:
        """Number of records that were overwritten by newer ones; 0 if the profile is complete."""
        return self._done.dropped

    @property
    def records(self) -> list[Record]:
        """All records, sorted by start time."""
        if self._records is None:
            threads = self._done.threads
            records, kernels = self._done.contents()
            self._records = _ordered(records, [Kernel(*kernel) for kernel in kernels], threads)
        return self._records

    @property
    def kernels(self) -> list[Record]:
        """Records of kernels that ran; the attribute `kernel` of a record describes the kernel."""
        return [record for record in self.records if record.category == "kernel"]

    def save_chrome_trace(self, path: str | Path) -> None:
        """Write the timeline as JSON in Chrome's trace event format.

        Args:
            path: Path of the file.

        Raises:
            GraphError: If the file cannot be written.
            DeviceError: If the profile is still being recorded.
        """
        try:
            Path(path).write_text(self._done.chrome_trace(), encoding="utf-8")
        except OSError as error:
            raise GraphError(f"save_chrome_trace: cannot write {shown(str(path))}: {error.strerror}") from None

    def plot(self, axes: Any = None, begin: float = 0.0, end: float | None = None) -> Any:
        """Plot the timeline, with a separate track for each thread.

        Kernels are colored by kind and drawn below the intervals that contain them.

        Args:
            axes: matplotlib axes to draw into. None (the default) creates a figure.
            begin: Start of the plot, in seconds since the start of the profile. Defaults to 0.
            end: End of the plot, in seconds since the start of the profile. None (the default) means the end of the
                profile.

        Returns:
            The axes.

        Raises:
            ImportError: If matplotlib is not installed.
            DeviceError: If the profile is still being recorded.
        """
        return plot_timeline(self.records, axes, begin, self.duration if end is None else end)

    def table(self, by: str = "kernel", top: int | None = 20, limits: Limits | None = None) -> str:
        """Return a table of the kernels, or kinds of kernels, that took the most time.

        The columns are the number of calls, the time without nested kernels, the fraction of the time of all kernels,
        the median time of a call, the bytes and operations per call, the rates of both, and the fraction of the bound.
        The fraction of the bound is the least time that the machine needs, divided by the measured time; it can exceed
        100% if operands are in a cache.

        Args:
            by: "kernel" (the default) or "kind".
            top: Number of rows, or None for all. Defaults to 20.
            limits: Limits of the machine. None (the default) means those of `machine_limits()`.

        Returns:
            The table as text.

        Raises:
            GraphError: If by is unknown, or top is negative.
            DeviceError: If the profile is still being recorded.
        """
        if by not in ("kernel", "kind"):
            raise GraphError(f"table: by must be 'kernel' or 'kind', got {shown(by)}")
        if top is not None and top < 0:
            raise GraphError(f"table: top must be a number of rows, at least 0, or None for all rows, got {top}")
        return format_table(self.records, by, top, limits or machine_limits(), self.duration, self.dropped)


def _ordered(records: Iterable[Any], kernels: list[Kernel], threads: dict[int, str]) -> list[Record]:
    """Sort records by start time, with nested records after those that contain them.

    Also compute each kernel's own time, which excludes the kernels nested in it.
    """
    records = sorted(records, key=lambda r: (r[4], -r[5]))
    own = [r[5] for r in records]
    within: dict[int, list[tuple[int, int]]] = {}  # For each thread, the open kernels as (end, index).
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


def fill(profile: Profile, recorded: _core.Profile) -> None:
    """Store what was recorded in a profile."""
    profile._recorded = recorded
