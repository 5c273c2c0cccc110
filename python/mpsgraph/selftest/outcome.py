"""What one check came to, as the report holds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """Of a check in a part."""

    part: str
    name: str
    status: str
    message: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    how: str = ""  # of a failure: checks.HOWS
    family: str = ""  # of operations or nodes

    @classmethod
    def of(cls, part: str, answer: dict[str, Any]) -> Outcome:
        """From a worker's answer."""
        fields = ("name", "status", "message", "numbers", "seconds", "how", "family")
        return cls(part, **{key: answer[key] for key in fields})
