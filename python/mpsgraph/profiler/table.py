"""A profile as a text table and a summary.

The table has one row per kernel or kind of kernel, in descending order of time.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from .records import Limits, Record


@dataclass
class _Row:
    title: str
    detail: str
    runs: list[Record] = field(default_factory=list)

    def cells(self, total: float, limits: Limits | None) -> list[str]:
        time = sum(run.own for run in self.runs)
        kernels = [run.kernel for run in self.runs if run.kernel is not None]
        flops, size = sum(k.flops for k in kernels), sum(k.bytes for k in kernels)
        bound = sum(limits.bound(k) for k in kernels) if limits else 0.0
        calls = len(self.runs)
        return [
            self.title,
            str(calls),
            f"{time * 1e3:.2f}",
            f"{100 * _over(time, total):.1f}%",
            f"{statistics.median(run.own for run in self.runs) * 1e6:.1f}",
            f"{size / calls / 1e6:.3f}",
            f"{_over(size, time) / 1e9:.1f}",
            f"{flops / calls / 1e6:.2f}",
            f"{_over(flops, time) / 1e9:.1f}",
            f"{100 * _over(bound, time):.0f}%" if limits else "-",
            self.detail,
        ]


_DETAIL = 200  # Maximum number of characters.
_HEAD = ["calls", "ms", "share", "median µs", "MB", "GB/s", "MFLOP", "GFLOP/s", "of bound"]


def _over(a: float, b: float) -> float:
    return a / b if b > 0 else 0.0


def format_table(
    records: list[Record], by: str, top: int | None, limits: Limits | None, duration: float, dropped: int
) -> str:
    rows: dict[object, _Row] = {}
    runs = [record for record in records if record.category == "kernel"]
    for run in runs:
        kernel = run.kernel
        assert kernel is not None
        if by == "kind":
            row = rows.setdefault(kernel.kind, _Row(kernel.kind, ""))
        else:
            detail = f"{kernel.kind}: {kernel.types}; {kernel.implementation}"
            cut = detail if len(detail) <= _DETAIL else detail[:_DETAIL] + "…"
            row = rows.setdefault(kernel, _Row(kernel.name, cut))
        row.runs.append(run)
    total = sum(run.own for run in runs)
    longest = sorted(rows.values(), key=lambda row: -sum(run.own for run in row.runs))
    shown = longest[:top]
    lines = [[by, *_HEAD, "" if by == "kind" else "details"]]
    lines += [row.cells(total, limits) for row in shown]
    rest = [run for row in longest[len(shown) :] for run in row.runs]
    if rest:
        lines.append(_Row(f"{len(longest) - len(shown)} more", "", rest).cells(total, limits))
    return "\n".join([*_aligned(lines), "", *_summary(records, runs, limits, duration, dropped)]) + "\n"


def _aligned(lines: list[list[str]]) -> list[str]:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    result = []
    for line in lines:
        first, *numbers, detail = line
        cells = [first.ljust(widths[0]), *(n.rjust(w) for n, w in zip(numbers, widths[1:-1], strict=True)), detail]
        result.append("  ".join(cells).rstrip())
    return result


def _summary(
    records: list[Record], kernels: list[Record], limits: Limits | None, duration: float, dropped: int
) -> list[str]:
    buffers = [record.duration for record in records if record.category == "run"]
    total = sum(kernel.own for kernel in kernels)
    lines = [
        f"{len(kernels)} kernel runs, {total * 1e3:.2f} ms, in {len(buffers)} command buffers, "
        f"{sum(buffers) * 1e3:.2f} ms; {duration * 1e3:.2f} ms from start to stop",
    ]
    if limits:
        bound = sum(limits.bound(run.kernel) for run in kernels if run.kernel is not None)
        lines.append(
            f"bound {bound * 1e3:.2f} ms at {limits.flops / 1e9:.0f} GFLOP/s and {limits.bandwidth / 1e9:.1f} GB/s"
        )
    if dropped:
        lines.append(f"{dropped} records are missing, because newer records replaced them; increase capacity")
    return lines
