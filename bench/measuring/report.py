"""Rows of results and how they are printed.

A row holds the measurement of one side in one workload, with its spread. Its ratio is our time divided by that side's.
In our first row of a workload, the ratio and the target refer to the best peer, if there is one.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

OURS = "mpsgraph"
DISTURBED = 0.05  # Share of the machine used by other processes above which a row is marked.


@dataclass(frozen=True)
class Spread:
    """Median, minimum, and quartiles of some samples."""

    median: float
    minimum: float
    q1: float
    q3: float
    samples: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        ordered = sorted(samples)
        if len(ordered) == 1:
            return cls(ordered[0], ordered[0], ordered[0], ordered[0], 1)
        q1, median, q3 = statistics.quantiles(ordered, n=4, method="inclusive")
        return cls(median, ordered[0], q1, q3, len(ordered))


@dataclass(frozen=True)
class Row:
    """The measurement of one side in one workload."""

    workload: str
    title: str
    unit: str
    side: str
    mode: str
    value: Spread
    ratio: Spread | None = None
    target: float | None = None  # Upper limit for the ratio.
    limit: float | None = None  # Upper limit for the value.
    disturbed: float | None = None  # Share of the machine that other processes used, the median over turns.
    # Versions of the side and of libraries in its mode, as in "2.4.6, scipy 1.17.1"; "" if not recorded.
    version: str = ""
    bound: float | None = None  # Lower bound for this machine, in the unit of the value.
    bound_by: str = ""  # What limits it: "operations" or "bytes".
    primitives: float | None = None  # The sum of oneDNN's primitives, measured once.
    benchmark: str = ""  # Name of the script.
    measured: str = ""  # Date of the measurement.
    machine: str = ""  # Its processors.

    @property
    def measured_as(self) -> tuple[str, ...]:
        """The fields that all rows of a comparison have in common."""
        return self.benchmark, self.workload, self.title, self.machine

    @property
    def verdict(self) -> str:
        """Whether the row reaches its target or limit, in words; "" without one."""
        if self.target is not None and self.ratio is not None:
            reached = "reached" if self.ratio.median <= self.target else "missed"
            return f"{self.ratio.median:.2f} times the best peer, target {self.target:.2f}: {reached}"
        if self.limit is not None:
            reached = "reached" if self.value.median <= self.limit else "missed"
            return f"{figure(self.value.median)} {self.unit}, target {figure(self.limit)}: {reached}"
        return ""


def headlines(rows: Sequence[Row]) -> list[Row]:
    """Return our first row of each comparison, if that row has a ratio to a best peer."""
    first: dict[tuple[str, ...], Row] = {}
    for row in rows:
        if row.side == OURS:
            first.setdefault(row.measured_as, row)
    return [row for row in first.values() if row.ratio is not None]


def best_peer(rows: Sequence[Row], headline: Row) -> Row | None:
    """Return the peer that the headline's ratio refers to, preferring peers that took part in the rounds."""
    peers = [row for row in rows if row.measured_as == headline.measured_as and row.side != OURS]
    compared = [row for row in peers if row.ratio is not None]
    return min(compared or peers, key=lambda row: row.value.median, default=None)


def bound_holds(rows: Sequence[Row], row: Row) -> bool:
    """Return whether the computed lower bound is at most the time of every side."""
    same = [other.value.median for other in rows if other.measured_as == row.measured_as]
    return row.bound is not None and row.bound <= min(same)


def figure(value: float) -> str:
    """Format a number with three or four significant digits and without an exponent."""
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3
    return f"{value:,.{digits}f}"


def print_rows(rows: Iterable[Row]) -> None:
    """Print a table for each workload."""
    for (workload, title), group in groupby(rows, key=lambda row: (row.workload, row.title)):
        table = list(group)
        width = max(len(f"{row.side} {row.mode}") for row in table)
        spread = any(row.value.samples > 1 for row in table)
        own = headlines(table)
        compared = [row for row in table if row.ratio is not None and row not in own]
        heading = f"  {'':{width}} {'median':>8}" + f" {'min':>12} {'quartiles':>21}" * spread
        print(f"\n{workload}  {title}\n{heading}" + f"   {OURS} / this" * bool(compared))
        for row in table:
            value = row.value
            line = f"  {f'{row.side} {row.mode}':{width}} {figure(value.median):>8} {row.unit:2}"
            if spread:
                quartiles = f"{figure(value.q1)} .. {figure(value.q3)}"
                line += f" {figure(value.minimum):>9} {quartiles:>21}" if value.samples > 1 else " " * 32
            if row in compared:
                line += f"   {row.ratio.median:.2f} ({row.ratio.q1:.2f} .. {row.ratio.q3:.2f})"
            if row.disturbed is not None and row.disturbed > DISTURBED:
                line += f"   other processes used {row.disturbed:.0%}"
            print(line)
        for row in table:
            if row.verdict:
                print(f"  {row.verdict}")
            elif row in own:
                print(f"  {row.ratio.median:.2f} times the best peer")
        if bound_holds(table, table[0]):
            print(f"  lower bound: {figure(table[0].bound)} {table[0].unit} ({table[0].bound_by})")
