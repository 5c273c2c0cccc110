"""Runs a part in a worker process, and in another one from the next check on when that dies or hangs."""

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
from collections.abc import Iterator
from typing import Any

from .checks import FAILED, STATUSES, Options
from .report import Outcome, Report

MOST_DEATHS = 40  # of one part, where they are failures
MOST_OF_A_GROUP = 2
START = 300.0  # seconds that imports, lists of cases and an orderly end may take
LAST_LINES = 12  # of what a process wrote before it died


def run_part(part: str, options: Options, report: Report, title: str = "") -> None:
    """Performs all checks of a part and adds their outcomes to the report."""
    next_check: int | None = 0
    deaths: Counter[str] = Counter()  # by group, and of failures
    started = time.perf_counter()
    with _progress(part if title else "") as progress:
        while next_check is not None:
            worker = _Worker(part, options, report, next_check, deaths, progress)
            next_check = worker.run()
            if deaths[FAILED] >= MOST_DEATHS:
                message = f"given up after {deaths[FAILED]} processes that died or hung"
                report.add(Outcome(part, "the part", FAILED, message))
                break
    report.finish(part, title, time.perf_counter() - started)


class _Worker:
    """One process, and what it has said."""

    def __init__(
        self, part: str, options: Options, report: Report, first: int, deaths: Counter[str], progress: Any
    ) -> None:
        self._part, self._report, self._next = part, report, first
        self._deaths, self._progress = deaths, progress
        self._begun: dict[str, Any] | None = None
        self._total: int | None = None
        self._errors = tempfile.TemporaryFile()
        groups = ",".join(
            group for group, count in deaths.items() if group not in STATUSES and count >= MOST_OF_A_GROUP
        )
        arguments = [part, options.device or "", "1" if options.quick else "0", str(first), groups]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mpsgraph.selftest.worker", *arguments],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONSAFEPATH": "1"},  # no module of the folder that the command was given in
        )

    def run(self) -> int | None:
        """Result: None when there is nothing more to do, else the check that another process goes on with."""
        lines: queue.Queue[bytes | None] = queue.Queue()
        reader = threading.Thread(target=self._read, args=(lines,), daemon=True)
        reader.start()
        try:
            while True:
                limit = self._begun["limit"] if self._begun else START
                try:
                    line = lines.get(timeout=limit)
                except queue.Empty:
                    return self._ended(f"hung: nothing came for {limit:.0f} seconds")
                if line is not None:
                    self._hear(json.loads(line))
                    continue
                status = self._process.wait()
                return None if status == 0 and self._next == self._total else self._ended(_death(status))
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            reader.join()
            self._errors.close()

    def _read(self, lines: queue.Queue[bytes | None]) -> None:
        """The lines as they come, then None."""
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                lines.put(line)
        lines.put(None)

    def _hear(self, answer: dict[str, Any]) -> None:
        if "total" in answer:
            self._total = self._progress.total = answer["total"]
        elif "begin" in answer:
            self._begun = answer
        else:
            self._begun = None
            self._next = answer["end"] + 1
            self._report.add(Outcome.of(self._part, answer))
            self._progress.update(1)

    def _ended(self, how: str) -> int | None:
        """Says in which check the process ended, with the last that it wrote."""
        self._errors.seek(0)
        written = self._errors.read().decode(errors="replace").strip().splitlines()[-LAST_LINES:]
        message = "\n".join([f"the process {how}", *written])
        if self._begun:
            self._report.add(Outcome(self._part, self._begun["name"], self._begun["died"], message))
            self._deaths.update({self._begun["group"], self._begun["died"]})
            return int(self._begun["begin"]) + 1
        if self._total is None:
            self._report.add(Outcome(self._part, "the start", FAILED, message))
            return None
        self._report.add(Outcome(self._part, "the end of the process", FAILED, message))
        self._deaths[FAILED] += 1
        return None if self._next >= self._total else self._next


def _death(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-status).name}"
    return f"was ended by signal {-status}"


class _Silent:
    """Progress where there is none to show."""

    total = 0

    def update(self, count: int) -> None:
        """Counts nothing."""


@contextlib.contextmanager
def _progress(title: str) -> Iterator[Any]:
    """A bar by tqdm where standard error is a terminal and tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        tqdm = None
    if tqdm is None or not title or not sys.stderr.isatty():
        yield _Silent()
        return
    with tqdm(total=0, desc=f"{title:10}", leave=False) as bar:
        yield bar
