"""Bar charts of the results: how many times faster than the fastest peer, with quartiles, on a log scale.

The charts are narrow and their text is large, so that they can be read on a phone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .report import Row, best_peer, headlines

TICKS = (0.5, 1, 2, 4, 8)
FASTER, SLOWER, INK, FAINT = "#2e7d32", "#c62828", "#222222", "#9a9a9a"
WIDTH, ROW, MARGIN = 5.4, 0.52, 1.15  # inches


def draw(rows: Sequence[Row], path: Path, chosen: Sequence[Row] | None = None, *, memory: bool = True) -> bool:
    """Draw a bar for each comparison and save the chart.

    Args:
        rows: All rows, our own and the peers'.
        path: File to write.
        chosen: Our rows to draw, of those that `headlines` returns. Defaults to all.
        memory: Whether to draw comparisons of memory, too.

    Returns:
        False if there is nothing to draw or matplotlib is not installed.
    """
    shown = [row for row in (headlines(rows) if chosen is None else chosen) if memory or row.workload != "memory"]
    titles = {row.workload: row.title.split(",")[0] for row in headlines(rows)}
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    if not shown:
        return False

    drawing = Figure(figsize=(WIDTH, MARGIN + ROW * len(shown)), layout="constrained")
    axes = drawing.subplots()
    axes.set_xscale("log")
    for index, row in enumerate(shown):
        _bar(axes, index, row, best_peer(rows, row), _label(row, titles))
    axes.axvline(1, color=FAINT, linewidth=1, zorder=0)
    fastest = max(1 / row.ratio.q1 for row in shown)
    slowest = min(1 / row.ratio.q3 for row in shown)
    axes.set_xlim(min(0.9, slowest * 0.9), fastest * 2.6)
    axes.set_xticks(TICKS, [f"{tick:g}x" for tick in TICKS], fontsize=11)
    axes.set_xlim(min(0.9, slowest * 0.9), fastest * 2.6)  # set_xticks may widen the limits
    axes.minorticks_off()
    axes.set_yticks([])
    axes.set_ylim(len(shown) - 0.35, -0.75)
    axes.set_xlabel("compared with the fastest other library (1x: equal)", fontsize=11)
    axes.spines[["top", "right", "left"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=150)
    return True


def speedup(row: Row) -> str:
    """Return our advantage in words, such as "1.7x faster" or "2.4x less memory"."""
    ratio = row.ratio.median
    better, worse = ("less", "more") if row.workload == "memory" else ("faster", "slower")
    unit = " memory" if row.workload == "memory" else ""
    return f"{max(ratio, 1 / ratio):.{2 if 0.91 < ratio < 1.1 else 1}f}x {better if ratio <= 1 else worse}{unit}"


def capitalized(title: str) -> str:
    return title[0].upper() + title[1:]


def _label(row: Row, titles: dict[str, str]) -> str:
    """Return a description of what a row measures; for single operations and memory, the workload contains it."""
    if row.workload == "memory":
        code, what = row.title.split(", ", 1)
        return f"{titles.get(code, code)}, {what}"
    return f"{row.workload.removeprefix('W9 ')}, {row.title}" if row.workload.startswith("W9 ") else row.title


def _bar(axes, index: int, row: Row, peer: Row, label: str) -> None:
    gain = 1 / row.ratio.median
    axes.barh(index, gain - 1, left=1, height=0.36, color=FASTER if gain >= 1 else SLOWER, alpha=0.85)
    axes.hlines(index, 1 / row.ratio.q3, 1 / row.ratio.q1, color=INK, linewidth=2)
    axes.text(1, index - 0.42, capitalized(label), fontsize=11, va="center", color=INK)
    value = f" {speedup(row)} than {peer.side}"
    axes.text(max(gain, 1 / row.ratio.q1, 1), index, value, fontsize=11, va="center", color=INK)
