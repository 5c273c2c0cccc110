"""Rows of results, and how they are printed.

A row is one side's figure in one workload, with its spread. Where a ratio stands, it is ours to that side; in our first
row of a workload it is the ratio to the best peer, which the target is about, where there is one.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

OURS = "mpsgraph"
DISTURBED = 0.05  # of the machine: what others may use before it is said


@dataclass(frozen=True)
class Spread:
    """Median, minimum and quartiles of some samples."""

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
    """One side's figure in one workload."""

    workload: str
    title: str
    unit: str
    side: str
    mode: str
    value: Spread
    ratio: Spread | None = None
    target: float | None = None  # for the ratio
    limit: float | None = None  # for the value
    disturbed: float | None = None  # the share of the machine that others used in the middle turn
    version: str = ""  # of the side, and of what else makes its mode: "2.4.6, scipy 1.17.1"; empty: not recorded
    bound: float | None = None  # what the machine at hand needs at least, in the value's unit
    bound_by: str = ""  # "operations" or "bytes"
    primitives: float | None = None  # the sum of oneDNN's primitives, as it was measured once
    benchmark: str = ""  # the script
    measured: str = ""  # the day
    machine: str = ""  # its processors

    @property
    def measured_as(self) -> tuple[str, ...]:
        """What the rows of one comparison have in common."""
        return self.benchmark, self.workload, self.title, self.machine

    @property
    def verdict(self) -> str:
        """What the row says about its target, where it has one."""
        if self.target is not None and self.ratio is not None:
            reached = "reached" if self.ratio.median <= self.target else "missed"
            return f"{self.ratio.median:.2f} of the best peer, target {self.target:.2f}: {reached}"
        if self.limit is not None:
            reached = "reached" if self.value.median <= self.limit else "missed"
            return f"{figure(self.value.median)} {self.unit}, target {figure(self.limit)}: {reached}"
        return ""


def headlines(rows: Sequence[Row]) -> list[Row]:
    """Ours beside a best peer, one a comparison: our first row, where it has a ratio."""
    first: dict[tuple[str, ...], Row] = {}
    for row in rows:
        if row.side == OURS:
            first.setdefault(row.measured_as, row)
    return [row for row in first.values() if row.ratio is not None]


def best_peer(rows: Sequence[Row], headline: Row) -> Row | None:
    """The peer that the headline's ratio is about: of those that took part in the rounds, where any did."""
    peers = [row for row in rows if row.measured_as == headline.measured_as and row.side != OURS]
    compared = [row for row in peers if row.ratio is not None]
    return min(compared or peers, key=lambda row: row.value.median, default=None)


def bound_holds(rows: Sequence[Row], row: Row) -> bool:
    """Whether what the machine needs at least, as it was counted, is less than what any side took."""
    same = [other.value.median for other in rows if other.measured_as == row.measured_as]
    return row.bound is not None and row.bound <= min(same)


def figure(value: float) -> str:
    """Three or four significant digits, never an exponent."""
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3
    return f"{value:,.{digits}f}"


def print_rows(rows: Iterable[Row]) -> None:
    """A table for each workload."""
    for (workload, title), group in groupby(rows, key=lambda row: (row.workload, row.title)):
        table = list(group)
        width = max(len(f"{row.side} {row.mode}") for row in table)
        spread = any(row.value.samples > 1 for row in table)
        own = headlines(table)
        compared = [row for row in table if row.ratio is not None and row not in own]
        heading = f"  {'':{width}} {'median':>8}" + f" {'min':>12} {'quartiles':>21}" * spread
        print(f"\n{workload}  {title}\n{heading}" + f"   {OURS} / it" * bool(compared))
        for row in table:
            value = row.value
            line = f"  {f'{row.side} {row.mode}':{width}} {figure(value.median):>8} {row.unit:2}"
            if spread:
                quartiles = f"{figure(value.q1)} .. {figure(value.q3)}"
                line += f" {figure(value.minimum):>9} {quartiles:>21}" if value.samples > 1 else " " * 32
            if row in compared:
                line += f"   {row.ratio.median:.2f} ({row.ratio.q1:.2f} .. {row.ratio.q3:.2f})"
            if row.disturbed is not None and row.disturbed > DISTURBED:
                line += f"   others used {row.disturbed:.0%}"
            print(line)
        for row in table:
            if row.verdict:
                print(f"  {row.verdict}")
            elif row in own:
                print(f"  {row.ratio.median:.2f} of the best peer")
        if bound_holds(table, table[0]):
            print(f"  at least {figure(table[0].bound)} {table[0].unit} by {table[0].bound_by}")
