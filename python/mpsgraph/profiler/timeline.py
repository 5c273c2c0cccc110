"""Plot of a profile over time, with one track per thread. Nested intervals are drawn below those that contain them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .._optional import require
from .records import Record

COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860", "#da8bc3", "#ccb974")
OTHER = "#8c8c8c"
BESIDE = {
    "compile": "#64b5cd", "pass": "#a5d8e6", "run": "#d9d9d9", "wait": "#efefef", "communication": "#f2b134",
}  # fmt: skip
DEPTHS = 4  # Number of nesting levels to draw; deeper levels are only in the trace.


def plot_timeline(records: list[Record], axes: Any, begin: float, end: float) -> Any:
    if axes is None:
        axes = require("matplotlib.pyplot", "train", "plotting").subplots(figsize=(12, 4.5), layout="constrained")[1]
    shown = [r for r in records if r.shape == "interval" and r.end >= begin and r.begin <= end]
    colours = _colours(shown)
    levels = _levels(shown)
    lanes: dict[str, float] = {}
    height = 0.0
    for thread in dict.fromkeys(r.thread for r in shown):
        lanes[thread] = height
        height += max(levels[id(r)] for r in shown if r.thread == thread) + 1.6
    for group, colour in _groups(shown, colours):
        for level in {levels[id(r)] for r in group}:
            for thread, lane in lanes.items():
                bars = [
                    (r.begin * 1e3, r.duration * 1e3) for r in group if r.thread == thread and levels[id(r)] == level
                ]
                if bars:
                    axes.broken_barh(bars, (lane + level, 0.9), color=colour, linewidth=0)
    for label, colour in colours.items():
        axes.broken_barh([], (0, 0), color=colour, label=label)
    axes.set(xlabel="time, ms", xlim=(begin * 1e3, end * 1e3), ylim=(height, -0.4))
    axes.set_yticks([lane + 0.45 for lane in lanes.values()], list(lanes))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=5, frameon=False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(left=False)
    return axes


def _label(record: Record) -> str:
    return record.kernel.kind if record.kernel else record.category


def _colours(records: list[Record]) -> dict[str, str]:
    """Return a color for each kernel kind, in descending order of total time, and for other categories of records."""
    times: Counter[str] = Counter()
    for record in records:
        if record.kernel:
            times[record.kernel.kind] += round(record.own * 1e9)
    kinds = dict(zip((kind for kind, _ in times.most_common()), COLOURS, strict=False))
    others = {"other kernels": OTHER} if len(times) > len(kinds) else {}
    present = {r.category for r in records}
    return kinds | others | {name: colour for name, colour in BESIDE.items() if name in present}


def _groups(records: list[Record], colours: dict[str, str]) -> list[tuple[list[Record], str]]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        label = _label(record)
        colour = colours.get(label) or (OTHER if record.kernel else "#e3e3e3")
        groups.setdefault(colour, []).append(record)
    return [(group, colour) for colour, group in groups.items()]


def _levels(records: list[Record]) -> dict[int, int]:
    """Return the nesting depth of each record within its thread. Records must be sorted by start time."""
    levels: dict[int, int] = {}
    within: dict[str, list[Record]] = {}
    for record in records:
        stack = within.setdefault(record.thread, [])
        while stack and stack[-1].end <= record.begin:
            stack.pop()
        levels[id(record)] = min(len(stack), DEPTHS - 1)
        stack.append(record)
    return levels
