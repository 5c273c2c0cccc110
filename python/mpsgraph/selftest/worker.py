"""A worker process of the self-test: `python -m mpsgraph.selftest.worker PART OPTIONS FIRST GROUPS FRAMES`, internal.

It runs a part's checks starting at number FIRST, except those of the comma-separated GROUPS. It writes a line of JSON
to standard output before and after each check, so the supervisor can tell in which check the worker crashed or hung.
A failed check runs a second time, and the result says whether the second run failed in the same way.
Output of libraries goes to standard error, and Python frames of a crash go to the file FRAMES, so that they do not push
the libraries' last messages out of the report. OPTIONS is a JSON object that may limit the part's run time in seconds.
When this time has passed, the remaining checks are skipped, and the last line reports the number of skipped checks.
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

from .. import _core
from . import shared
from .checks import CRASHED, FAILED, KNOWN, PASSED, Check, Options, Result, perform, second_run

MOST_REPEATED = 20  # Number of failed checks that a process runs again,
LONGEST_REPEATED = 10.0  # and the seconds of the longest check that runs again.


def checks_of(part: str, options: Options) -> list[Check]:
    """Return the checks of a part, in an order that is the same in every process."""
    made: list[Check] = importlib.import_module(f"mpsgraph.selftest.parts.{part}").checks(options)
    return [check for check in made if options.match in check.name or part == "versions"]


def plain(value: Any) -> Any:
    """Convert a value to types that JSON supports. NaN and infinity become strings."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def judged(part: str, check: Check, result: Result) -> Result:
    """Mark the failure of a check that is listed as known to fail, and note if a listed check passes."""
    listed = shared.listed_failure(part, check.name)
    if listed and result.status == FAILED:
        return replace(result, status=KNOWN, message=f"known: {listed}\n{result.message}")
    if listed and result.status == PASSED:
        return replace(
            result,
            message=f"passes, but is listed as a known failure: {listed}",
            numbers={**result.numbers, "listed": listed},
        )
    return result


def about_of(check: Check) -> str:
    """Return the description of a check, or "" if there is none."""
    try:
        return check.about() if check.about else ""
    except Exception as error:  # A description must not keep the check from running.
        return f"not described: {type(error).__name__}: {error}"


def main(part: str, given: str, first: str, groups: str, frames: str) -> None:
    """Run the checks of a part."""
    options = Options(**json.loads(given))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.enable(open(frames, "w"))  # This file stays open until the process ends.
    warnings.simplefilter("ignore")

    def say(**values: Any) -> None:
        print(json.dumps(plain(values)), file=answers, flush=True)

    shared.module("harness.device")  # Loads the tests' device, if their environment variables select one.
    checks = checks_of(part, options)
    say(total=len(checks))
    end = math.inf if options.seconds is None else time.perf_counter() + options.seconds
    repeated = 0
    for number, check in enumerate(checks[int(first) :], int(first)):
        if time.perf_counter() > end:
            say(left_out=len(checks) - number)
            break
        died = KNOWN if check.died == FAILED and shared.listed_failure(part, check.name) else check.died
        named = {"name": check.name, "family": check.family}
        say(begin=number, limit=check.limit, died=died, group=check.group, about=about_of(check), **named)
        started, compiling = time.perf_counter(), _core.compile_seconds()
        if check.group and check.group in groups.split(","):
            result = Result(died, f"not run: other checks of {check.group} crashed their processes", how=CRASHED)
        else:
            result = judged(part, check, perform(check))
        took = {"seconds": time.perf_counter() - started, "compile_seconds": _core.compile_seconds() - compiling}
        if result.how != CRASHED and result.status == FAILED:
            if took["seconds"] > LONGEST_REPEATED:
                result.second_run = f"none, because the first run took {took['seconds']:.0f} s"
            elif repeated == MOST_REPEATED:
                result.second_run = f"none, because {MOST_REPEATED} other checks have run again"
            else:
                repeated += 1
                # The supervisor uses this message if the second run crashes or hangs.
                say(failed=number, **named, **took, **asdict(result))
                result.second_run = second_run(result, perform(check))
        say(end=number, **named, **took, **asdict(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
