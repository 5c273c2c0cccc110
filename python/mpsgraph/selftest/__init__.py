"""Self-test, which runs the package's checks on a user's machine and writes a report.

`mpsgraph selftest` runs the parts below on one device. Each part runs in worker processes (worker.py), so a check that
crashes or hangs does not affect the others. docs/selftest.md describes the report.
"""

from __future__ import annotations

import json as _json
import math
import sys
import time
from dataclasses import replace
from pathlib import Path

from . import picture
from .checks import Options
from .report import Report
from .supervisor import run_part

PARTS = {
    "operations": "values of every operation in every dtype",
    "gradients": "float32 gradients compared with float64 on the CPU",
    "repeats": "the same results in every run, for programs that others have reported as wrong",
    "nodes": "the legacy MPSNNGraph API: a network of nodes, filters, and their gradients",
    "runtime": "memory, queues, events, handlers, errors, caches",
    "digits": "training the digit classifier",
    "speed": "training steps compared with PyTorch and MLX",
    "probes": "questions that only a Mac can answer",
    "oracle": "Apple's own gradients compared with ours",
    "validation": "one case per operation under Metal's validation layer",
}

# Seconds in which checks of each part may begin. The most informative checks of each part come first. The whole run
# ends after LONGEST_RUN, even within a check, so that the report is written within ten minutes. The option --all
# removes all limits.
LONGEST_RUN = 585.0
SECONDS = {
    "operations": 115.0,
    "gradients": 75.0,
    "repeats": 20.0,
    "nodes": 60.0,
    "runtime": 60.0,
    "digits": 50.0,
    "speed": 50.0,
    "probes": 60.0,
    "oracle": 50.0,
    "validation": 30.0,
}


def main(
    device: str | None,
    json: Path | None,
    quick: bool,
    only: list[str] | None,
    everything: bool = False,
    match: str = "",
) -> int:
    """Run the parts and print the report.

    Args:
        device: Name of the device; None means the default device.
        json: Path of the report file, or None to write no file.
        quick: Whether to run only one case per operation.
        only: Parts to run; None means all.
        everything: Whether to run all checks without time limits.
        match: Text that the names of the checks to run contain.

    Returns:
        0 if nothing failed, 1 if something failed, 130 if the test was interrupted.
    """
    options = Options(device, quick, match=match, only=tuple(only or ()), everything=everything)
    report = Report(options)
    interrupted = False
    deadline = math.inf if everything else time.perf_counter() + LONGEST_RUN
    try:
        run_part("versions", options, report, deadline=deadline)
        wanted = [part for part in PARTS if not only or part in only]
        if not report.failed:  # Without the device there is nothing to test.
            print(_announced(wanted, quick, everything), file=sys.stderr)
            for part in wanted:
                limited = options if quick or everything else replace(options, seconds=SECONDS[part])
                run_part(part, limited, report, PARTS[part], deadline)
    except KeyboardInterrupt:
        interrupted = True
        print("interrupted: the report contains what has run so far", file=sys.stderr)
    report.attach_crash_reports()
    report.print(interrupted)
    drawn = None
    if json is not None:
        report.write(json, interrupted)
        drawn = _drawn(json)
    print(report.advice(json, drawn))
    return 130 if interrupted else 1 if report.failed else 0


def _announced(wanted: list[str], quick: bool, everything: bool) -> str:
    """Return a line with the number of parts to run and the expected time."""
    minutes = sum(SECONDS[part] for part in wanted) / 60
    time = "a minute or two" if quick else "no limit" if everything else f"about {max(1, round(minutes))} minutes"
    return f"Parts to run: {len(wanted)}; expected time: {time}. Press Ctrl-C to stop with a report of what has run."


def draw(report: Path) -> int:
    """Draw the picture of a report next to the report's file; return 0, or 1 on failure."""
    try:
        _json.loads(report.read_text())["summary"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{report} is not a self-test report: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    drawn = _drawn(report)
    if drawn:
        print(drawn)
    return 0 if drawn else 1


def _drawn(report: Path) -> Path | None:
    """Draw the picture of a report and return its path.

    If matplotlib is missing, print how to install it and return None.
    """
    path = report.with_suffix(".png")
    try:
        picture.draw(_json.loads(report.read_text()), path)
    except ImportError:
        print(
            "\nNo picture was drawn, because matplotlib is not installed. To draw it without running the test again:\n"
            f"  pip install matplotlib\n  mpsgraph selftest --draw {report}"
        )
        return None
    return path
