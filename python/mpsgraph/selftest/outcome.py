"""Outcome of a check, as stored in the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


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

    @classmethod
    def of(cls, part: str, answer: dict[str, Any]) -> Outcome:
        """Create an outcome from a message that a worker process sent."""
        fields = ("name", "status", "message", "numbers", "seconds", "compile_seconds", "how", "family")
        return cls(part, **{key: answer[key] for key in fields})
