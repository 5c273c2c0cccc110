"""The picture of a run: our ratio to the best peer in each workload, with its quartiles and the target."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .report import OURS, Row, figure

REACHED, MISSED, INK, FAINT = "#2e7d32", "#c62828", "#222222", "#9a9a9a"


def draw(rows: Sequence[Row], path: Path) -> bool:
    """Writes the picture. Result: False when no row has a ratio to a peer, or matplotlib is missing."""
    headlines = [row for row in rows if row.target is not None and row.ratio is not None]
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    if not headlines:
        return False

    drawing = Figure(figsize=(10, 1.5 + 0.8 * len(headlines)), layout="constrained")
    axes = drawing.subplots()
    for place, row in enumerate(headlines):
        ratio = row.ratio
        color = REACHED if ratio.median <= row.target else MISSED
        axes.barh(place, ratio.median, height=0.5, color=color, alpha=0.85)
        axes.hlines(place, ratio.q1, ratio.q3, color=INK, linewidth=2)
        axes.vlines(row.target, place - 0.38, place + 0.38, color=INK, linewidth=2, linestyle=(0, (2, 1)))
        edge = max(ratio.median, ratio.q3, row.target)
        peer = best_peer(rows, row)
        axes.text(
            edge + 0.02,
            place,
            f"{ratio.median:.2f}   {figure(row.value.median)} {row.unit} against {figure(peer.value.median)}"
            f"\n{peer.side} {peer.mode}",
            va="center",
            fontsize=9,
            color=INK,
        )
    axes.axvline(1, color=FAINT, linewidth=1)
    axes.set_yticks(range(len(headlines)), [f"{row.workload}\n{row.title}" for row in headlines], fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.35 * max([1.15, *(row.ratio.q3 for row in headlines)]))
    axes.set_xlabel("ours / best mode of the peer: lower is better; dashed, the target; grey, the peer", color=INK)
    axes.set_title(f"{OURS} beside its peers, two threads", loc="left", fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=140)
    return True


def best_peer(rows: Sequence[Row], headline: Row) -> Row:
    """The peer that the headline's ratio is about."""
    peers = [r for r in rows if (r.workload, r.title) == (headline.workload, headline.title) and r.side != OURS]
    return min(peers, key=lambda row: row.value.median)
