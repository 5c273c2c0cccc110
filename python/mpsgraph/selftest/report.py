"""The report of the self-test: a table for people, and a file with everything to attach to an issue."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .checks import DIFFERS, FAILED, MISSING, NOTED, PASSED, UNSUPPORTED, Options

COLUMNS = (PASSED, FAILED, UNSUPPORTED, DIFFERS, NOTED)
SHOWN = 12  # failures on the terminal; the file has all
ISSUES = 'the project\'s issues, template "Report from a Mac"'


@dataclass(frozen=True)
class Outcome:
    """What one check came to."""

    part: str
    name: str
    status: str
    message: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @classmethod
    def of(cls, part: str, answer: dict[str, Any]) -> Outcome:
        """From a worker's answer."""
        return cls(part, **{key: answer[key] for key in ("name", "status", "message", "numbers", "seconds")})


class Report:
    """Outcomes by part."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._outcomes: list[Outcome] = []
        self._seconds: dict[str, float] = {}

    def add(self, outcome: Outcome) -> None:
        """Keeps an outcome."""
        self._outcomes.append(outcome)

    def finish(self, part: str, title: str, seconds: float) -> None:
        """A part has ended: a line for whoever watches."""
        self._seconds[part] = seconds
        if title:
            counts = ", ".join(f"{n} {status}" for status, n in self._counts(part).items())
            print(f"{part:10} {title}: {counts or 'nothing to do'} ({seconds:.1f} s)", file=sys.stderr, flush=True)

    @property
    def failed(self) -> bool:
        """Has anything?"""
        return any(outcome.status == FAILED for outcome in self._outcomes)

    def _of(self, part: str) -> list[Outcome]:
        return [outcome for outcome in self._outcomes if outcome.part == part]

    def _counts(self, part: str) -> Counter[str]:
        return Counter(outcome.status for outcome in self._of(part))

    def print(self) -> None:
        """The table, what failed, and what was noted."""
        versions = self._versions()
        print("\n" + "\n".join(f"{name:9} {value}" for name, value in versions.items()))
        print(f"\n{'part':10}" + "".join(f"{status:>12}" for status in COLUMNS) + f"{'seconds':>10}")
        for part, seconds in self._seconds.items():
            counts = self._counts(part)
            if part != "versions":
                print(f"{part:10}" + "".join(f"{counts[s] or '-':>12}" for s in COLUMNS) + f"{seconds:>10.1f}")
        for outcome in self._outcomes:
            if outcome.part != "versions" and outcome.status in (NOTED, MISSING):
                print(f"\n{outcome.part}: {outcome.name}\n  " + outcome.message.replace("\n", "\n  "))
        for status, title in ((FAILED, "failed"), (DIFFERS, "Apple differs")):
            found = [o for o in self._outcomes if o.status == status]
            for outcome in found[:SHOWN]:
                print(f"\n{title}: {outcome.part}: {outcome.name}\n  " + outcome.message.replace("\n", "\n  "))
            if len(found) > SHOWN:
                print(f"\n... and {len(found) - SHOWN} more {title}; the file of --json has them all")

    def _versions(self) -> dict[str, Any]:
        return {k: v for outcome in self._of("versions") for k, v in outcome.numbers.items()}

    def write(self, path: Path, interrupted: bool) -> None:
        """Everything but the single passes, which are counted."""
        parts = {
            part: {
                "counts": dict(self._counts(part)),
                "seconds": round(seconds, 2),
                "slowest": [
                    {"name": o.name, "seconds": round(o.seconds, 3)}
                    for o in sorted(self._of(part), key=lambda o: -o.seconds)[:10]
                ],
            }
            for part, seconds in self._seconds.items()
            if part != "versions"
        }
        content = {
            "report": "mpsgraph selftest",
            "versions": self._versions(),
            "quick": self._options.quick,
            "interrupted": interrupted,
            "failed": self.failed,
            "parts": parts,
            "outcomes": [asdict(o) for o in self._outcomes if o.status != PASSED],
            "measured": [
                asdict(o) for o in self._outcomes if o.status == PASSED and o.numbers and o.part != "versions"
            ],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def advice(self, path: Path | None) -> str:
        """The last line."""
        verdict = "something failed" if self.failed else "nothing failed"
        if path is None:
            return f"\n{verdict}; run again with --json report.json and attach that file to an issue ({ISSUES})"
        return f"\n{verdict}; please attach {path} to an issue ({ISSUES}), whether something failed or not"
