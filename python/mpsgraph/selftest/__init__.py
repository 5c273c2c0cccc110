"""The self-test: what a person with a Mac runs, so that a report says how the package does there.

`mpsgraph selftest` runs the parts below on a device, each in processes of its own (worker.py), so that one that dies
or hangs in a framework costs one check and not the report. docs/selftest.md says what stands in the report.
"""

from __future__ import annotations

import json as _json
import sys
from dataclasses import replace
from pathlib import Path

from . import picture
from .checks import Options
from .report import Report
from .supervisor import run_part

PARTS = {
    "operations": "values of every operation in every element type",
    "gradients": "gradients in float32 against float64 on the CPU",
    "nodes": "the older path: a network of nodes, filters and their gradients",
    "runtime": "memory, queues, events, handlers, errors, caches",
    "digits": "training the digit classifier",
    "speed": "training steps beside PyTorch's and MLX's",
    "probes": "questions that only a Mac can answer",
    "oracle": "Apple's own gradients beside ours",
}

# Ten minutes in all. What shows most comes first in each part; who has time takes --all.
SECONDS = {
    "operations": 150.0,
    "gradients": 110.0,
    "nodes": 70.0,
    "runtime": 60.0,
    "digits": 60.0,
    "speed": 60.0,
    "probes": 60.0,
    "oracle": 60.0,
}


def main(device: str | None, json: Path | None, quick: bool, only: list[str] | None, everything: bool = False) -> int:
    """Runs the parts and prints the report. Result: 0 when nothing failed, 1 otherwise, 130 when interrupted."""
    options = Options(device, quick)
    report = Report(options)
    interrupted = False
    try:
        run_part("versions", options, report)
        wanted = [part for part in PARTS if not only or part in only]
        if not report.failed:  # without a device there is nothing to test
            print(_announced(wanted, quick, everything), file=sys.stderr)
            for part in wanted:
                limited = options if quick or everything else replace(options, seconds=SECONDS[part])
                run_part(part, limited, report, title=PARTS[part])
    except KeyboardInterrupt:
        interrupted = True
        print("interrupted: the report holds what ran until now", file=sys.stderr)
    report.print(interrupted)
    drawn = None
    if json is not None:
        report.write(json, interrupted)
        drawn = _drawn(json)
    print(report.advice(json, drawn))
    return 130 if interrupted else 1 if report.failed else 0


def _announced(wanted: list[str], quick: bool, everything: bool) -> str:
    """What to expect."""
    minutes = sum(SECONDS[part] for part in wanted) / 60
    time = (
        "a minute or two"
        if quick
        else "as long as it takes"
        if everything
        else f"about {max(1, round(minutes))} minutes"
    )
    return f"Parts: {len(wanted)}, {time}. Ctrl-C ends it with a report of what ran."


def draw(report: Path) -> int:
    """Draws the picture of a report's file beside it. Result: 0, or 1 when that cannot be."""
    try:
        _json.loads(report.read_text())["summary"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{report} is no report of the self-test: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    drawn = _drawn(report)
    if drawn:
        print(drawn)
    return 0 if drawn else 1


def _drawn(report: Path) -> Path | None:
    """The picture beside a report's file; None where matplotlib is missing, which is told with what to do."""
    path = report.with_suffix(".png")
    try:
        picture.draw(_json.loads(report.read_text()), path)
    except ImportError:
        print(
            "\nNo picture, as matplotlib is not installed. To draw it without running again:\n"
            f"  pip install matplotlib\n  mpsgraph selftest --draw {report}"
        )
        return None
    return path
