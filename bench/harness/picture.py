"""The picture of a run: our ratio to the best peer in each workload, with its quartiles and the target."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from .report import OURS, Row, figure

WIDEST = 2.0  # bars beyond it are cut
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

    drawing = Figure(figsize=(11, 1.6 + 0.75 * len(headlines)), layout="constrained")
    axes = drawing.subplots()
    right = min(WIDEST, max(1.2, *(1.05 * row.ratio.q3 for row in headlines)))
    for place, row in enumerate(headlines):
        ratio = row.ratio
        color = REACHED if ratio.median <= row.target else MISSED
        axes.barh(place, ratio.median, height=0.56, color=color, alpha=0.85)
        axes.hlines(place, ratio.q1, ratio.q3, color=INK, linewidth=2)
        axes.vlines(row.target, place - 0.4, place + 0.4, color=INK, linewidth=2, linestyle=(0, (2, 1)))
        peer = best_peer(rows, row)
        what = f"{figure(row.value.median)} against {figure(peer.value.median)} {row.unit}\n{peer.side} {peer.mode}"
        for offset, text, weight in ((0.02, f"{ratio.median:.2f}", "bold"), (0.1, what, "normal")):
            axes.text(
                1 + offset, place, text, transform=axes.get_yaxis_transform(), va="center", fontsize=9, weight=weight
            )
    axes.axvline(1, color=FAINT, linewidth=1)
    labels = ["\n".join([row.workload, *textwrap.wrap(row.title, 40)]) for row in headlines]
    axes.set_yticks(range(len(headlines)), labels, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, right)
    axes.set_xlabel("ours / the peer's best mode: lower is better. Dashed: the target. Grey: the peer.", color=INK)
    axes.set_title(f"{OURS} beside PyTorch, two threads", loc="left", fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=140)
    return True


def best_peer(rows: Sequence[Row], headline: Row) -> Row:
    """The peer that the headline's ratio is about."""
    peers = [r for r in rows if (r.workload, r.title) == (headline.workload, headline.title) and r.side != OURS]
    return min(peers, key=lambda row: row.value.median)
