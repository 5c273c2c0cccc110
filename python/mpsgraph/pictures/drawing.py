"""Drawings of graphs with matplotlib: boxes in rows, connected by curves from operands down to results."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .._optional import require
from .layout import Layout
from .nodes import COLOURS, Node

# In inches: width of a letter, height of a text line, padding around text, gap between rows.
LETTER, LINE, PAD, BETWEEN = 0.085, 0.17, 0.12, 0.42
LARGEST = 60.0


def draw(nodes: Sequence[Node], path: str | os.PathLike[str] | None, axes: Any) -> Any:
    """Draw nodes into axes, or into a new figure if axes is None. Save the figure if path is not None.

    Returns:
        The axes.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    pyplot = require("matplotlib.pyplot", "train", "drawing")
    patches = require("matplotlib.patches", "train", "drawing")
    paths = require("matplotlib.path", "train", "drawing")
    widths = [max(map(len, node.lines)) * LETTER + 2 * PAD for node in nodes]
    heights = [len(node.lines) * LINE + 2 * PAD for node in nodes]
    edges = [(operand, i) for i, node in enumerate(nodes) for operand, _ in node.operands]
    dashed = {(before, i) for i, node in enumerate(nodes) for before in node.before} - set(edges)
    layout = Layout(widths, [*edges, *dashed])
    y, bottom = _heights(layout, heights)
    left = min((x - w / 2 for x, w in zip(layout.x, layout.widths, strict=True)), default=0.0)
    right = max((x + w / 2 for x, w in zip(layout.x, layout.widths, strict=True)), default=1.0)
    if axes is None:
        size = max(right - left, 1) + 0.4, max(-bottom, 1) + 0.4
        shrunk = min(1.0, LARGEST / max(size))
        figure = pyplot.figure(figsize=(size[0] * shrunk, size[1] * shrunk), dpi=100)
        axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(left - 0.2, right + 0.2), ylim=(bottom - 0.2, 0.2), aspect="equal")
    axes.axis("off")
    for edge, points in layout.paths.items():
        start, end = edge
        corners = [(layout.x[start], y[start] - heights[start] / 2)]
        corners += [(layout.x[p], y[p]) for p in points[1:-1]]
        corners.append((layout.x[end], y[end] + heights[end] / 2))
        axes.add_patch(
            patches.FancyArrowPatch(
                path=_curve(paths.Path, corners),
                arrowstyle="-|>",
                mutation_scale=8,
                color="#777777",
                linewidth=0.8,
                linestyle="--" if edge in dashed else "-",
                shrinkA=0,
                shrinkB=0,
            )
        )
    for i, node in enumerate(nodes):
        corner = layout.x[i] - widths[i] / 2, y[i] - heights[i] / 2
        style = "round,pad=0,rounding_size=0.06"
        box = patches.FancyBboxPatch(
            corner, widths[i], heights[i], boxstyle=style, facecolor=COLOURS[node.part], edgecolor="#555555"
        )
        axes.add_patch(box)
        for number, line in enumerate(node.lines):
            at = y[i] + heights[i] / 2 - PAD - (number + 0.5) * LINE
            weight = "bold" if number == 0 else "normal"
            axes.text(layout.x[i], at, line, ha="center", va="center", fontsize=8, fontweight=weight)
    if path is not None:
        axes.figure.savefig(path)
    return axes


def _heights(layout: Layout, heights: Sequence[float]) -> tuple[list[float], float]:
    """Return the vertical center of each node, and the bottom of the last row.

    The top of the first row is at 0, and values decrease downward.
    """
    y, top = [0.0] * len(layout.rows), 0.0
    for row in layout.order:
        height = max((heights[node] for node in row if node < len(heights)), default=LINE)
        for node in row:
            y[node] = top - height / 2
        top -= height + BETWEEN
    return y, top + BETWEEN if layout.order else -1.0


def _curve(path_class: Any, corners: Sequence[tuple[float, float]]) -> Any:
    """Return a smooth curve through the given points that is vertical at both ends."""
    points, codes = [corners[0]], [path_class.MOVETO]
    for (x0, y0), (x1, y1) in zip(corners, corners[1:], strict=False):
        middle = (y0 + y1) / 2
        points += [(x0, middle), (x1, middle), (x1, y1)]
        codes += [path_class.CURVE4] * 3
    return path_class(points, codes)
