"""Runs a part in a worker process, and continues in a new process after a crash or hang."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from . import crashes
from .checks import CRASHED, FAILED, HUNG, STATUSES, Options
from .outcome import Outcome
from .progress import Progress
from .report import Report

MOST_DEATHS = 40  # Limit per part on the number of crashes and hangs that count as failures.
MOST_OF_A_GROUP = 2
# Environment variables for the processes of a part. Metal reads these when a process opens its first device.
ENVIRONMENTS = {"validation": {"MTL_DEBUG_LAYER": "1", "MTL_DEBUG_LAYER_ERROR_MODE": "assert"}}
START = 300.0  # Seconds allowed for imports, lists of cases, and an orderly exit.
LAST_WORDS = 10.0  # Seconds in which a hung process may write its Python frames.
LONGEST_CHECK = 120.0  # Upper bound in seconds of the time after which a check counts as hung; tests lower it.


def run_part(part: str, options: Options, report: Report, title: str = "") -> None:
    """Run all checks of a part and add their outcomes to the report."""
    next_check: int | None = 0
    # Number of processes that ended, by the group and by the status of the check that was running.
    deaths: Counter[str] = Counter()
    started = time.perf_counter()
    progress = Progress(part if title else "")
    try:
        while next_check is not None:
            left = options
            if options.seconds is not None:
                left = replace(options, seconds=max(0.0, options.seconds - (time.perf_counter() - started)))
            worker = _Worker(part, left, report, next_check, deaths, progress)
            next_check = worker.run()
            if deaths[FAILED] >= MOST_DEATHS:
                message = f"given up after {deaths[FAILED]} processes that crashed or hung"
                report.add(Outcome(part, "the part", FAILED, message, how=CRASHED))
                break
    finally:
        progress.close()
    report.finish(part, title, time.perf_counter() - started)


class _Worker:
    """One worker process and its messages."""

    def __init__(
        self, part: str, options: Options, report: Report, first: int, deaths: Counter[str], progress: Progress
    ) -> None:
        self._part, self._report, self._next = part, report, first
        self._deaths, self._progress = deaths, progress
        self._begun: dict[str, Any] | None = None
        self._total: int | None = None
        self._left_out = False
        self._errors = tempfile.TemporaryFile()
        self._folder = tempfile.TemporaryDirectory()
        self._frames = Path(self._folder.name) / "frames.txt"
        groups = ",".join(
            group for group, count in deaths.items() if group not in STATUSES and count >= MOST_OF_A_GROUP
        )
        arguments = [part, json.dumps(asdict(options)), str(first), groups, str(self._frames)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mpsgraph.selftest.worker", *arguments],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # PYTHONSAFEPATH keeps Python from importing modules from the current directory.
            env={**os.environ, "PYTHONSAFEPATH": "1", **ENVIRONMENTS.get(part, {})},
        )

    def run(self) -> int | None:
        """Run the process. Return None when all checks are done, otherwise the number of the check to continue with."""
        lines: queue.Queue[bytes | None] = queue.Queue()
        reader = threading.Thread(target=self._read, args=(lines,), daemon=True)
        reader.start()
        try:
            while True:
                limit = min(self._begun["limit"], LONGEST_CHECK) if self._begun else START
                try:
                    line = lines.get(timeout=limit)
                except queue.Empty:
                    self._stop()
                    return self._ended(HUNG, f"hung: no output for {limit:.0f} seconds, so the self-test ended it")
                if line is not None:
                    self._hear(json.loads(line))
                    continue
                status = self._process.wait()
                if status == 0 and (self._left_out or self._next == self._total):
                    return None
                return self._ended(CRASHED, _death(status))
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
            self._total = self._progress.total = answer["total"]
        elif "left_out" in answer:
            self._left_out = True
            self._report.leave_out(self._part, answer["left_out"])
        elif "begin" in answer:
            self._begun = answer
            self._progress.begin(answer["name"])
        else:
            self._begun = None
            self._next = answer["end"] + 1
            self._report.add(Outcome.of(self._part, answer))
            self._progress.end(answer["status"] == FAILED)

    def _ended(self, how: str, words: str) -> int | None:
        """Record the result of the check during which the process ended, with what the process left behind."""
        self._errors.seek(0)
        output = crashes.excerpt(self._errors.read().decode(errors="replace"))
        frames = crashes.frames(self._frames)
        message = "\n".join([f"the process {words}", *output, *frames])
        numbers = {"process": self._process.pid, "output": output, "python frames": frames}
        if begun := self._begun:
            self._report.add(
                Outcome(self._part, begun["name"], begun["died"], message, numbers, how=how, family=begun["family"])
            )
            self._progress.end(begun["died"] == FAILED)
            self._deaths.update({begun["group"], begun["died"]})
            return int(begun["begin"]) + 1
        if self._total is None:
            self._report.add(Outcome(self._part, "the start", FAILED, message, numbers, how=how))
            return None
        self._report.add(Outcome(self._part, "the end of the process", FAILED, message, numbers, how=how))
        self._deaths[FAILED] += 1
        return None if self._left_out or self._next >= self._total else self._next


def _death(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    with contextlib.suppress(ValueError):
        return f"was terminated by {signal.Signals(-status).name}"
    return f"was terminated by signal {-status}"
