"""Runs a part in a worker process, and continues in a new process after a crash or hang.

The new process first runs the check again during which the old one ended, so that the report says whether the crash or
hang happens every time.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from . import crashes
from .checks import CRASHED, FAILED, HUNG, NOTED, STATUSES, Options
from .outcome import Outcome
from .progress import Progress
from .report import Report

MOST_DEATHS = 40  # Limit per part on the number of crashes and hangs that count as failures.
MOST_OF_A_GROUP = 2
MOST_SECOND_RUNS = 5  # Number of checks of a part that run again in a new process after their process died.
SECOND_WAIT = 0.25  # Fraction of the time limit after which a check that has hung counts as hung in its second run.
# Environment variables for the processes of a part. Metal reads these when a process opens its first device.
ENVIRONMENTS = {"validation": {"MTL_DEBUG_LAYER": "1", "MTL_DEBUG_LAYER_ERROR_MODE": "assert"}}
START = 300.0  # Seconds allowed for imports and lists of cases.
LAST_WORDS = 10.0  # Seconds in which a hung process may write its Python frames.
# Upper bound in seconds of the time after which a check, or the exit of a process, counts as hung; tests lower it.
LONGEST_CHECK = 120.0


@dataclass
class _State:
    """What the worker processes of a part share."""

    part: str
    report: Report
    progress: Progress
    # Number of processes that ended, by the group and by the status of the check that was running.
    deaths: Counter[str] = field(default_factory=Counter)
    deadline: float = math.inf  # Value of time.perf_counter() at which the whole run ends.
    second_runs: int = MOST_SECOND_RUNS  # Number of checks that may still run again after their process died.
    first: Outcome | None = None  # The first run of the check with which the next process begins, if it died in it.

    def end(self, outcome: Outcome, death: str = "") -> None:
        """Add the outcome of a check. If it is the second run of a check, add the outcome of the first run instead."""
        first, self.first = self.first, None
        if first and first.name == outcome.name:
            outcome = replace(first, second_run=_second_run(first, outcome, death))
        self.report.add(outcome)
        self.progress.end(outcome.status == FAILED)


def run_part(part: str, options: Options, report: Report, title: str = "", deadline: float = math.inf) -> None:
    """Run all checks of a part and add their outcomes to the report.

    Args:
        part: Name of the part.
        options: Options of the self-test; `seconds` limits the time in which checks of the part may begin.
        report: Report to which the outcomes are added.
        title: Description for the progress display; nothing is displayed if it is empty.
        deadline: Value of `time.perf_counter()` at which the part ends, even within a check.
    """
    next_check: int | None = 0
    started = time.perf_counter()
    state = _State(part, report, Progress(part if title else ""), deadline=deadline)
    try:
        while next_check is not None:
            now = time.perf_counter()
            if now >= deadline:
                total = state.progress.total
                report.leave_out(part, total - next_check - (state.first is not None) if total else None)
                break
            end = min(deadline, started + options.seconds if options.seconds is not None else math.inf)
            left = options if end == math.inf else replace(options, seconds=max(0.0, end - now))
            next_check = _Worker(state, left, next_check).run()
            if state.deaths[FAILED] >= MOST_DEATHS:
                message = f"given up after {state.deaths[FAILED]} processes that crashed or hung"
                report.add(Outcome(part, "the part", FAILED, message, how=CRASHED))
                break
    finally:
        if state.first:
            report.add(replace(state.first, second_run="none, because the part ended"))
        state.progress.close()
    report.finish(part, title, time.perf_counter() - started)


def _second_run(first: Outcome, second: Outcome, death: str) -> str:
    """Describe the second run of a check whose process died in the first run."""
    if not death:
        return second.status if second.status != FAILED else f"failed: {second.message.splitlines()[0]}"
    same = first.how == second.how and (second.how == HUNG or death in first.message)
    return "the same result" if same else f"the process {death}"


class _Worker:
    """One worker process and its messages."""

    def __init__(self, state: _State, options: Options, first: int) -> None:
        self._state, self._next = state, first
        self._begun: dict[str, Any] | None = None
        self._began = time.perf_counter()  # When the process or its current check began.
        self._failed: dict[str, Any] | None = None  # The first run of the check that runs for the second time.
        self._total: int | None = None
        self._left_out = False
        self._errors = tempfile.TemporaryFile()
        self._folder = tempfile.TemporaryDirectory()
        self._frames = Path(self._folder.name) / "frames.txt"
        groups = ",".join(
            group for group, count in state.deaths.items() if group not in STATUSES and count >= MOST_OF_A_GROUP
        )
        arguments = [state.part, json.dumps(asdict(options)), str(first), groups, str(self._frames)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mpsgraph.selftest.worker", *arguments],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # PYTHONSAFEPATH keeps Python from importing modules from the current directory.
            env={**os.environ, "PYTHONSAFEPATH": "1", **ENVIRONMENTS.get(state.part, {})},
        )

    def run(self) -> int | None:
        """Run the process. Return None when all checks are done, otherwise the number of the check to continue with."""
        lines: queue.Queue[bytes | None] = queue.Queue()
        reader = threading.Thread(target=self._read, args=(lines,), daemon=True)
        reader.start()
        closed = False  # Whether the process has closed its standard output, which it does when it ends.
        try:
            while True:
                limit = min(self._begun["limit"], LONGEST_CHECK) if self._begun else LONGEST_CHECK if closed else START
                if self._begun and self._state.first and self._state.first.how == HUNG:
                    limit *= SECOND_WAIT
                left = self._state.deadline - time.perf_counter()
                if left <= 0:
                    self._cut_off()
                    return None
                try:
                    if not closed:
                        line = lines.get(timeout=min(limit, left))
                    else:
                        status = self._process.wait(min(limit, left))
                        if status == 0 and (self._left_out or self._next == self._total):
                            return None
                        return self._ended(CRASHED, _death(status))
                except (queue.Empty, subprocess.TimeoutExpired):
                    if left <= limit:
                        continue
                    native = crashes.sample(self._process.pid)
                    self._stop()
                    words = f"hung: no output for {limit:.0f} seconds, so the self-test ended it"
                    return self._ended(HUNG, words, {"native stacks": native} if native else {})
                closed = line is None
                if line is not None:
                    self._hear(json.loads(line))
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            reader.join()
            self._errors.close()
            self._folder.cleanup()

    def _stop(self) -> None:
        """End a hung process in a way that makes it write its Python frames first."""
        self._process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LAST_WORDS)

    def _read(self, lines: queue.Queue[bytes | None]) -> None:
        """Put each line of the process's standard output into the queue, and None at the end of the output."""
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                lines.put(line)
        lines.put(None)

    def _hear(self, answer: dict[str, Any]) -> None:
        if "total" in answer:
            self._total = self._state.progress.total = answer["total"]
        elif "left_out" in answer:
            self._left_out = True
            self._state.report.leave_out(self._state.part, answer["left_out"] - (self._state.first is not None))
        elif "begin" in answer:
            self._begun, self._failed, self._began = answer, None, time.perf_counter()
            self._state.progress.begin(answer["name"])
        elif "failed" in answer:
            self._failed = answer
        else:
            assert self._begun is not None
            self._next = answer["end"] + 1
            self._state.end(Outcome.of(self._state.part, answer, self._begun["about"]))
            self._begun = None

    def _cut_off(self) -> None:
        """End the process because the time of the whole run is over, and record what it was doing."""
        self._stop()
        state, part, begun = self._state, self._state.part, self._begun
        left_out = None if self._total is None else self._total - self._next
        if left_out is not None and (begun or state.first):
            left_out -= 1
        if self._failed and begun:
            failed = {**self._failed, "second_run": "none, because the part ended"}
            state.end(Outcome.of(part, failed, begun["about"]))
        elif not state.first:
            frames = crashes.frames(self._frames)
            words = f"not finished after {time.perf_counter() - self._began:.0f} s, when the time of the run was over"
            message = "\n".join(filter(None, [words, crashes.stage(frames)]))
            waited = "the start" if self._total is None else "the end of the process"
            name, family, about = (begun["name"], begun["family"], begun["about"]) if begun else (waited, "", "")
            state.end(Outcome(part, name, NOTED, message, {"python frames": frames}, family=family, about=about))
        state.report.leave_out(part, left_out)

    def _ended(self, how: str, words: str, evidence: dict[str, Any] | None = None) -> int | None:
        """Record the result of the check during which the process ended, with what the process left behind."""
        self._errors.seek(0)
        output = crashes.excerpt(self._errors.read().decode(errors="replace"))
        frames = crashes.frames(self._frames)
        doing = crashes.stage(frames)
        message = "\n".join([f"the process {words}", *([doing] if doing else []), *output, *frames])
        numbers = {"process": self._process.pid, "output": output, "python frames": frames, **(evidence or {})}
        state, part = self._state, self._state.part
        if begun := self._begun:
            known = {"how": how, "family": begun["family"], "about": begun["about"]}
            outcome = Outcome(part, begun["name"], begun["died"], message, numbers, **known)
            if self._failed:
                failed = {**self._failed, "second_run": f"the process {words}"}
                failed["numbers"] = {**failed["numbers"], "second run": numbers}
                state.end(Outcome.of(part, failed, begun["about"]))
            elif begun["died"] == FAILED and not state.first and state.second_runs > 0:
                state.second_runs -= 1
                state.first = outcome
                return int(begun["begin"])
            else:
                state.end(outcome, death=words)
            state.deaths.update({begun["group"], begun["died"]})
            return int(begun["begin"]) + 1
        if self._total is None:
            state.report.add(Outcome(part, "the start", FAILED, message, numbers, how=how))
            return None
        state.report.add(Outcome(part, "the end of the process", FAILED, message, numbers, how=how))
        state.deaths[FAILED] += 1
        return None if self._left_out or self._next >= self._total else self._next


def _death(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    with contextlib.suppress(ValueError):
        return f"was terminated by {signal.Signals(-status).name}"
    return f"was terminated by signal {-status}"
