"""Outcome of a check, as stored in the report."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from .checks import FAILED, KNOWN


@dataclass(frozen=True)
class Outcome:
    """Outcome of a check, with the name of the self-test part that contains the check."""

    part: str
    name: str
    status: str
    message: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    how: str = ""  # For a failure, one of checks.HOWS.
    family: str = ""  # Family of operations or nodes.
    compile_seconds: float = 0.0  # Part of `seconds`.
    about: str = ""  # For a failure, the inputs of the check, or what it does.
    second_run: str = ""  # For a failure, what happened when the check ran again.

    @classmethod
    def of(cls, part: str, answer: dict[str, Any], about: str = "") -> Outcome:
        """Create an outcome from a message that a worker process sent."""
        fields = ("name", "status", "message", "numbers", "seconds", "compile_seconds", "how", "family", "second_run")
        outcome = cls(part, **{key: answer[key] for key in fields})
        return replace(outcome, about=about) if outcome.status in (FAILED, KNOWN) else outcome

    def text(self) -> str:
        """Return the message, what the check does, and what happened in the second run, on separate lines."""
        texts = [self.message]
        if self.about:
            texts.append(f"check: {self.about}")
        if self.second_run:
            texts.append(f"second run: {self.second_run}")
        return "\n".join(texts)
