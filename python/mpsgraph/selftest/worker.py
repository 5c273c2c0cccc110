"""A process of the self-test: `python -m mpsgraph.selftest.worker PART OPTIONS FIRST GROUPS`, not for people.

It performs a part's checks from number FIRST on, but those of the GROUPS (with commas between them), and writes a line
of JSON to standard output before and after each, so that whoever started it knows which check it died in, or hangs in.
Nothing else comes there: what libraries print goes to standard error. OPTIONS is JSON; when the seconds in it are over,
the rest is left out, and the last line says so.
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
from dataclasses import asdict, replace
from typing import Any

from . import shared
from .checks import CRASHED, FAILED, KNOWN, PASSED, Check, Options, Result, perform


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


def judged(part: str, check: Check, result: Result) -> Result:
    """A failure that is listed is known; what is listed and passes says so."""
    listed = shared.listed_failure(part, check.name)
    if listed and result.status == FAILED:
        return replace(result, status=KNOWN, message=f"known: {listed}\n{result.message}")
    if listed and result.status == PASSED:
        return replace(result, message=f"passes, but is listed: {listed}", numbers={**result.numbers, "listed": listed})
    return result


def main(part: str, given: str, first: str, groups: str) -> None:
    """Performs the checks."""
    options = Options(**json.loads(given))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.enable()
    warnings.simplefilter("ignore")

    def say(**values: Any) -> None:
        print(json.dumps(plain(values)), file=answers, flush=True)

    shared.module("harness.device")  # with the tests' environment variables it brings the device of the tests
    checks = checks_of(part, options)
    say(total=len(checks))
    end = math.inf if options.seconds is None else time.perf_counter() + options.seconds
    for number, check in enumerate(checks[int(first) :], int(first)):
        if time.perf_counter() > end:
            say(left_out=len(checks) - number)
            break
        died = KNOWN if check.died == FAILED and shared.listed_failure(part, check.name) else check.died
        say(begin=number, name=check.name, limit=check.limit, died=died, group=check.group, family=check.family)
        started = time.perf_counter()
        if check.group and check.group in groups.split(","):
            result = Result(died, f"not run: other checks of {check.group} ended their processes", how=CRASHED)
        else:
            result = judged(part, check, perform(check))
        seconds = time.perf_counter() - started
        say(end=number, name=check.name, family=check.family, seconds=seconds, **asdict(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
