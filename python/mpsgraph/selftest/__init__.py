"""The self-test: what a person with a Mac runs, so that a report says how the package does there.

`mpsgraph selftest` runs the parts below on a device, each in processes of its own (worker.py), so that one that dies
or hangs in a framework costs one check and not the report. docs/selftest.md says what stands in the report.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .checks import Options
from .report import Report
from .supervisor import run_part

PARTS = {
    "operations": "values of every operation in every element type",
    "gradients": "gradients in float32 against float64 on the CPU",
    "runtime": "memory, queues, events, handlers, errors, caches",
    "digits": "training the digit classifier",
    "speed": "training steps beside PyTorch's and MLX's",
    "probes": "questions that only a Mac can answer",
    "oracle": "Apple's own gradients beside ours",
}


def main(device: str | None, json: Path | None, quick: bool, only: list[str] | None) -> int:
    """Runs the parts and prints the report. Result: 0 when nothing failed, 1 otherwise, 130 when interrupted."""
    options = Options(device, quick)
    report = Report(options)
    interrupted = False
    try:
        run_part("versions", options, report)
        wanted = [part for part in PARTS if not only or part in only]
        for part in wanted if not report.failed else []:  # without a device there is nothing to test
            run_part(part, options, report, title=PARTS[part])
    except KeyboardInterrupt:
        interrupted = True
        print("interrupted: the report holds what ran until now", file=sys.stderr)
    report.print()
    if json is not None:
        report.write(json, interrupted)
    print(report.advice(json))
    return 130 if interrupted else 1 if report.failed else 0
