"""Draw a report: passed, failed, and unsupported checks by family, and the speed compared with PyTorch and MLX.

The picture needs only the report file, so it can be drawn later and on another machine. matplotlib is imported when
needed.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from .._optional import require
from .checks import DIFFERS, FAILED, KNOWN, NOTED, PASSED, UNSUPPORTED
from .summary import faster

COLOURS = {  # The colors also differ in lightness, so that they can be told apart without color vision.
    PASSED: "#8fc79a",
    UNSUPPORTED: "#d9d9d9",
    DIFFERS: "#e9c46a",
    NOTED: "#b8cbe0",
    KNOWN: "#d98c4a",
    FAILED: "#b3261e",
}
TITLES = {
    PASSED: "passed",
    UNSUPPORTED: "unsupported",
    DIFFERS: "Apple's gradient differs",
    NOTED: "answered",
    KNOWN: "known failure",
    FAILED: "failed",
}
BY_FAMILY = {"operations": "values and gradients of operations", "nodes": "nodes of the legacy MPSNNGraph API"}
OURS, GREY, INK = "#35618f", "#777777", "#222222"


def draw(report: dict[str, Any], path: Path) -> None:
    """Draw the picture of a report.

    Args:
        report: Contents of a report file, as returned by json.load.
        path: Path of the PNG file to write.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    figure_class = require("matplotlib.figure", "train", "the picture").Figure
    groups = counted(report)
    rows = max(sum(len(rows) + 1.5 for _, rows in column) for column in split(groups)) if groups else 4
    lines = [textwrap.fill(f"{heading}: {text}", 150) for heading, text in report["summary"].items()]
    head = 0.75 + 0.172 * sum(line.count("\n") + 1 for line in lines)
    times = speeds(report)
    below = 0.7 + 0.42 * max(3, sum(len(sides) + 1 for _, sides in times))
    height = head + 0.24 * rows + 0.7 + below
    figure = figure_class(figsize=(13, height))
    _write_head(figure, report, lines, height)
    top = 1 - head / height
    bottom = below / height
    columns = split(groups)
    for index, column in enumerate(columns):
        axes = figure.add_axes((0.165 + 0.5 * index, bottom + 0.45 / height, 0.28, top - bottom - 0.85 / height))
        _draw_families(axes, column, rows)
    _write_legend(figure, groups, (below + 0.12) / height)
    _draw_speed(figure.add_axes((0.26, 0.42 / height, 0.6, (below - 0.85) / height)), times)
    figure.savefig(path, dpi=110)


def counted(report: dict[str, Any]) -> list[tuple[str, list[tuple[str, dict[str, int]]]]]:
    """Return groups of rows, each row with its number of checks by status.

    The groups are families of operations, families of nodes, and the other parts of the self-test.
    """
    parts = report["parts"]
    groups = []
    for part, title in BY_FAMILY.items():
        merged: dict[str, dict[str, int]] = {}
        for name in (part, "gradients") if part == "operations" else (part,):
            for family, counts in parts.get(name, {}).get("families", {}).items():
                into = merged.setdefault(family, {})
                for status, number in counts.items():
                    into[status] = into.get(status, 0) + number
        if merged:
            groups.append((title, sorted(merged.items())))
    others = [(name, part["counts"]) for name, part in parts.items() if name not in (*BY_FAMILY, "gradients")]
    others = [(name, counts) for name, counts in others if counts and name != "speed"]
    return groups + ([("other parts", others)] if others else [])


def split(groups: list[Any]) -> list[list[Any]]:
    """Divide groups into two columns: the first group on the left, all others on the right."""
    return [groups[:1], groups[1:]] if len(groups) > 1 else [groups] if groups else []


def speeds(report: dict[str, Any]) -> list[tuple[str, list[tuple[str, float, float | None]]]]:
    """Return, for each network, the libraries, their median times in ms, and the ratio of our time to the library's
    time.
    """
    found = []
    for outcome in report["outcomes"]:
        if outcome["part"] == "speed" and outcome["status"] == NOTED:
            sides = [
                (name, side["median ms"], side.get("ratio of mpsgraph to this"))
                for name, side in outcome["numbers"].items()
                if isinstance(side, dict)
            ]
            if sides:  # A measurement that was cut by the time limit has none.
                found.append((outcome["name"], sides))
    return found


# --- the drawing ------------------------------------------------------------------------------------------------------
def _write_head(figure: Any, report: dict[str, Any], lines: list[str], height: float) -> None:
    versions = report["versions"]
    title = f"mpsgraph {versions.get('mpsgraph', '')} on {versions.get('chip', 'an unknown machine')}"
    figure.text(0.03, 1 - 0.32 / height, title, fontsize=16, fontweight="bold", color=INK, va="center")
    where = f"{versions.get('system', '')}, device {versions.get('device', 'unknown')}"
    figure.text(0.03, 1 - 0.6 / height, where, fontsize=10, color=GREY, va="center")
    figure.text(0.03, 1 - 0.78 / height, "\n".join(lines), fontsize=9, color=INK, va="top", linespacing=1.35)


def _draw_families(axes: Any, groups: list[Any], rows: float) -> None:
    """Draw one bar per family with the fraction of each status. Label a bar with the number of checks or, in red, of
    failures.
    """
    axes.set(xlim=(0, 1), ylim=(rows, -1))
    axes.axis("off")
    at = 0.0
    for title, families in groups:
        axes.text(0, at - 0.1, title, fontsize=10, fontweight="bold", color=INK, va="center")
        at += 1
        for name, counts in families:
            total = sum(counts.values())
            axes.text(-0.02, at, name.replace("_", " "), fontsize=9, ha="right", va="center", color=INK)
            left = 0.0
            for status in COLOURS:
                share = counts.get(status, 0) / total
                if status in (FAILED, KNOWN) and share:
                    share = max(share, 0.015)  # Widen the segment so that it is visible.
                if share:
                    axes.barh(at, min(share, 1 - left), left=left, height=0.72, color=COLOURS[status])
                left += share
            failed = counts.get(FAILED, 0)
            text, colour = (f"{failed} of {total:,}", COLOURS[FAILED]) if failed else (f"{total:,}", GREY)
            axes.text(1.02, at, text, fontsize=8, va="center", color=colour, fontweight="bold" if failed else "normal")
            at += 1
        at += 0.5


def _write_legend(figure: Any, groups: list[Any], y: float) -> None:
    seen = {status for _, families in groups for _, counts in families for status, number in counts.items() if number}
    x = 0.165
    for status in COLOURS:
        if status in seen:
            figure.text(x, y, "■", fontsize=12, color=COLOURS[status], va="center")
            figure.text(x + 0.014, y, TITLES[status], fontsize=9, color=INK, va="center")
            x += 0.035 + 0.0062 * len(TITLES[status])


def _draw_speed(axes: Any, times: list[tuple[str, list[tuple[str, float, float | None]]]]) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    title = "Time relative to mpsgraph (less is better)"
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axes.tick_params(axis="y", length=0)
    if not times:
        axes.set(xticks=[], yticks=[])
        axes.spines["bottom"].set_visible(False)
        axes.text(0, 0.5, "not measured", transform=axes.transAxes, color=GREY)
        return
    places, names, at = [], [], 0.0
    longest = max(1 / (ratio or 1.0) for _, sides in times for _, _, ratio in sides)
    for network, sides in times:
        axes.text(0, at - 0.1, network, fontsize=9, color=GREY, va="center")
        for name, ms, ratio in sides:
            at += 1
            share = 1.0 if ratio is None else 1 / ratio
            axes.barh(at, share, height=0.7, color=OURS if ratio is None else "#c4c4c4")
            said = f"{ms:.2f} ms" if ratio is None else f"{ms:.2f} ms; mpsgraph is {faster(ratio)} {name}"
            axes.text(share + 0.01 * longest, at, said, fontsize=9, va="center", color=INK)
            places.append(at)
            names.append(name)
        at += 1.2
    axes.set(yticks=places, yticklabels=names, ylim=(at - 0.4, -0.7), xlim=(0, 1.6 * longest))
