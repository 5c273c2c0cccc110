"""A process of the self-test: `python -m mpsgraph.selftest.worker PART DEVICE QUICK FIRST GROUPS`, not for people.

It performs a part's checks from number FIRST on, but those of the GROUPS (with commas between them), and writes a line
of JSON to standard output before and after each, so that whoever started it knows which check it died in, or hangs in.
Nothing else comes there: what libraries print goes to standard error.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import math
import os
import sys
import time
import warnings
from dataclasses import asdict
from typing import Any

from . import shared
from .checks import Check, Options, Result, perform


def checks_of(part: str, options: Options) -> list[Check]:
    """The checks of a part, the same in every process."""
    made: list[Check] = importlib.import_module(f"mpsgraph.selftest.parts.{part}").checks(options)
    return made


def plain(value: Any) -> Any:
    """What JSON can hold: numbers that are none become text."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def main(part: str, device: str, quick: str, first: str, groups: str) -> None:
    """Performs the checks."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.enable()
    warnings.simplefilter("ignore")

    def say(**values: Any) -> None:
        print(json.dumps(plain(values)), file=answers, flush=True)

    shared.module("harness.device")  # with the tests' environment variables it brings the device of the tests
    checks = checks_of(part, Options(device or None, quick == "1"))
    say(total=len(checks))
    for number, check in enumerate(checks[int(first) :], int(first)):
        say(begin=number, name=check.name, limit=check.limit, died=check.died, group=check.group)
        started = time.perf_counter()
        left_out = check.group and check.group in groups.split(",")
        why = f"not run: other checks of {check.group} ended their processes"
        result = Result(check.died, why) if left_out else perform(check)
        say(end=number, name=check.name, seconds=time.perf_counter() - started, **asdict(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
