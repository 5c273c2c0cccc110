"""The picture of the results: our ratio to the best peer in each workload, its quartiles and target, on a log scale."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .report import OURS, Row, best_peer, figure, headlines

RANGE = 0.05, 4.0  # of ratios; what lies outside stands at the edge
TICKS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4)
AHEAD, REACHED, BEHIND, INK, FAINT = "#e09c2c", "#2e7d32", "#c62828", "#222222", "#9a9a9a"


def draw(rows: Sequence[Row], path: Path) -> bool:
    """Writes the picture. Result: False when no row has a ratio to a peer, or matplotlib is missing."""
    shown = headlines(rows)
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    if not shown:
        return False

    drawing = Figure(figsize=(11, 1.5 + 0.36 * len(shown)), layout="constrained")
    axes = drawing.subplots()
    axes.set_xscale("log")
    for place, row in enumerate(shown):
        _one(axes, place, row, best_peer(rows, row))
    axes.axvline(1, color=FAINT, linewidth=1, zorder=0)
    axes.set_xlim(*RANGE)
    axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axes.minorticks_off()
    axes.set_yticks(range(len(shown)), [_label(row) for row in shown], fontsize=9)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlabel("our time / the best peer's, log scale: left is faster. Dashed: the target.", color=INK)
    axes.set_title(
        f"{OURS} beside the best of its peers: green reaches the target, amber is ahead, red is behind",
        loc="left",
        fontsize=11,
        fontweight="bold",
    )
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=110, bbox_inches="tight")  # a long name of a mode passes the border
    return True


def _label(row: Row) -> str:
    return row.title.split(",")[0] + ", memory" if row.workload == "memory" else row.workload


def _one(axes, place: int, row: Row, peer: Row | None) -> None:
    low, high = RANGE
    ratio, target = row.ratio, row.target
    reached = target is not None and ratio.median <= target
    color = REACHED if reached else AHEAD if ratio.median < 1 else BEHIND
    at = min(max(ratio.median, low), high)
    axes.barh(place, at - 1, left=1, height=0.55, color=color, alpha=0.85)
    axes.hlines(place, max(ratio.q1, low), min(ratio.q3, high), color=INK, linewidth=2)
    if target is not None:
        axes.vlines(target, place - 0.42, place + 0.42, color=INK, linewidth=1.5, linestyle=(0, (2, 1)))
    what = f"{figure(row.value.median)} {row.unit} against {figure(peer.value.median)}, {peer.side} {peer.mode}"
    for offset, text, weight in ((1.01, f"{ratio.median:.2f}", "bold"), (1.1, what, "normal")):
        axes.text(offset, place, text, transform=axes.get_yaxis_transform(), va="center", fontsize=9, weight=weight)
