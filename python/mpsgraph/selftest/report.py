"""Report of the self-test: text and a table for the terminal, and a complete file to attach to an issue."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import crashes
from .checks import DIFFERS, FAILED, KNOWN, MISSING, NOTED, PASSED, UNSUPPORTED, Options
from .outcome import Outcome
from .summary import passed_names, summary

COLUMNS = (PASSED, FAILED, KNOWN, UNSUPPORTED, DIFFERS, NOTED)
SHOWN = 12  # Maximum number of failures printed on the terminal; the file contains all failures.
WIDTH = 100
ISSUES = 'a new issue of the project, template "Report from a Mac"'


class Report:
    """Outcomes of all parts."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._started = time.time()
        self._outcomes: list[Outcome] = []
        self._seconds: dict[str, float] = {}
        self._left_out: dict[str, int | None] = {}

    def add(self, outcome: Outcome) -> None:
        """Add an outcome."""
        self._outcomes.append(outcome)

    def leave_out(self, part: str, number: int | None) -> None:
        """Record how many checks a part skipped because its time limit had passed; None if it did not begin."""
        self._left_out[part] = number

    def finish(self, part: str, title: str, seconds: float) -> None:
        """Record that a part has ended, and print a line about it."""
        self._seconds[part] = seconds
        if title:
            counts = ", ".join(f"{n} {status}" for status, n in self._counts(part).items())
            if part in self._left_out:
                number = self._left_out[part]
                counts = ", ".join(filter(None, [counts, f"{'all' if number is None else number} skipped"]))
            print(f"{part:10} {title}: {counts or 'nothing to do'} ({seconds:.1f} s)", file=sys.stderr, flush=True)

    @property
    def failed(self) -> bool:
        """Whether any check failed."""
        return any(outcome.status == FAILED for outcome in self._outcomes)

    def _of(self, part: str) -> list[Outcome]:
        return [outcome for outcome in self._outcomes if outcome.part == part]

    def _counts(self, part: str) -> Counter[str]:
        return Counter(outcome.status for outcome in self._of(part))

    def _families(self, part: str) -> dict[str, dict[str, int]]:
        found: dict[str, Counter[str]] = {}
        for outcome in self._of(part):
            if outcome.family:
                found.setdefault(outcome.family, Counter()).update([outcome.status])
        return {family: dict(found[family]) for family in sorted(found)}

    def summary(self, interrupted: bool = False) -> dict[str, str]:
        """Return the summary as a dict from headings to lines."""
        return summary(self._outcomes, self._versions(), self._left_out, self._options, interrupted)

    def attach_crash_reports(self, wait: float = 5.0) -> None:
        """Add macOS's crash reports to the outcomes of the processes that died.

        macOS writes the last report a few seconds after the process has died, so this waits for a report if a process
        died within that time.
        """
        died = [o for o in self._outcomes if "process" in o.numbers]
        if not died or sys.platform != "darwin":
            return
        time.sleep(wait)
        for outcome in died:
            outcome.numbers["crash report"] = crashes.crash_report(outcome.numbers["process"], self._started)

    def print(self, interrupted: bool = False) -> None:
        """Print the summary, a table of results by part, and details of failed and unusual checks."""
        print()
        for heading, text in self.summary(interrupted).items():
            print(textwrap.fill(text, WIDTH, initial_indent=f"{heading:10} ", subsequent_indent=" " * 11))
        versions = self._versions()
        print("\n" + "\n".join(f"{name:10} {value}" for name, value in versions.items()))
        print(f"\n{'part':10}" + "".join(f"{status:>12}" for status in COLUMNS) + f"{'seconds':>10}")
        for part, seconds in self._seconds.items():
            counts = self._counts(part)
            if part != "versions":
                print(f"{part:10}" + "".join(f"{counts[s] or '-':>12}" for s in COLUMNS) + f"{seconds:>10.1f}")
        for part in self._seconds:
            if names := passed_names(self._of(part)):
                text = f"passed in {part}: {', '.join(names)}"
                print("\n" + textwrap.fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False))
        for outcome in self._outcomes:
            # Answers of probes are only in the file.
            if outcome.part not in ("versions", "probes") and outcome.status in (NOTED, MISSING):
                print(f"\n{outcome.part}: {outcome.name}\n  " + outcome.message.replace("\n", "\n  "))
        for status, title in ((FAILED, "failed"), (KNOWN, "known"), (DIFFERS, "Apple differs")):
            found = [o for o in self._outcomes if o.status == status]
            for outcome in found[:SHOWN]:
                print(f"\n{title}: {outcome.part}: {outcome.name}\n  " + outcome.text().replace("\n", "\n  "))
            if len(found) > SHOWN:
                print(f"\n... and {len(found) - SHOWN} more {title}; the --json file lists all of them")

    def _versions(self) -> dict[str, Any]:
        return {k: v for o in self._of("versions") if o.status != FAILED for k, v in o.numbers.items()}

    def content(self, interrupted: bool) -> dict[str, Any]:
        """Return the contents of the file: all outcomes, but of most passed checks only the names."""
        parts = {
            part: {
                "counts": dict(self._counts(part)),
                "families": self._families(part),
                "passed": [o.name for o in self._of(part) if o.status == PASSED],
                "left out": self._left_out.get(part, 0),
                "seconds": round(seconds, 2),
                "compile seconds": round(sum(o.compile_seconds for o in self._of(part)), 2),
                "slowest to compile": [
                    {"name": o.name, "seconds": round(o.compile_seconds, 3)}
                    for o in sorted(self._of(part), key=lambda o: -o.compile_seconds)[:10]
                    if o.compile_seconds
                ],
                "slowest": [
                    {"name": o.name, "seconds": round(o.seconds, 3)}
                    for o in sorted(self._of(part), key=lambda o: -o.seconds)[:10]
                ],
            }
            for part, seconds in self._seconds.items()
            if part != "versions"
        }
        return {
            "report": "mpsgraph selftest",
            "summary": self.summary(interrupted),
            "versions": self._versions(),
            "quick": self._options.quick,
            "all": self._options.everything,
            "only": list(self._options.only),
            "match": self._options.match,
            "interrupted": interrupted,
            "failed": self.failed,
            "parts": parts,
            "outcomes": [asdict(o) for o in self._outcomes if o.status != PASSED],
            "measured": [
                asdict(o) for o in self._outcomes if o.status == PASSED and o.numbers and o.part != "versions"
            ],
        }

    def write(self, path: Path, interrupted: bool) -> None:
        """Write the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.content(interrupted), indent=1, ensure_ascii=False) + "\n")

    def advice(self, path: Path | None, picture: Path | None = None) -> str:
        """Return the last line of the output, which asks the user to send the report."""
        verdict = "something failed" if self.failed else "nothing failed"
        if path is None:
            return f"\n{verdict}; run again with --json report.json and attach that file to {ISSUES}"
        files = f"{path} and {picture}" if picture else str(path)
        return f"\n{verdict}; please attach {files} to {ISSUES}, whether or not anything failed"
