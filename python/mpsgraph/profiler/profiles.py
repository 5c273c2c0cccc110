"""Profile: what was recorded, in order, as a table, a picture and a trace for other programs."""

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
    """What was recorded between start and stop.

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
        return plot_timeline(self.records, axes, begin, self.duration if end is None else end)

    def table(self, by: str = "kernel", top: int | None = 20, limits: Limits | None = None) -> str:
        """The kernels, or kinds of kernels, that took the most time.

        Args: by, "kernel" or "kind"; top, rows, None for all; limits, of the machine, None: `machine_limits()`.
        Result: text with calls, time without the kernels within, share of all kernels' time, the median of a call, and
        for a call bytes, operations, their rates, and the share of the bound: the time that the machine needs at least
        over the time that it took. Above 100% operands came from caches. Errors: GraphError for another `by`
        or a negative `top`.
        """
        if by not in ("kernel", "kind"):
            raise GraphError(f'a profile has tables by "kernel" or by "kind", not by {shown(by)}')
        if top is not None and top < 0:
            raise GraphError(f"top is a number of rows, 0 or more, or None for all, got {top}")
        return format_table(self.records, by, top, limits or machine_limits(), self.duration, self.dropped)


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
