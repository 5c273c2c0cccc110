"""What a part of the self-test is made of: checks with a name, a result each, and how errors become results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import UnsupportedError

PASSED, FAILED, KNOWN, UNSUPPORTED, DIFFERS, NOTED, MISSING = (
    "passed",
    "failed",
    "known",  # it fails as it did on a Mac before: tests/harness/mac_failures.py
    "unsupported",  # the device cannot do it, which is known
    "differs",  # from Apple's own gradients: nobody's failure yet
    "noted",  # an answer or a time: nothing that could fail
    "not installed",
)
STATUSES = (PASSED, FAILED, KNOWN, UNSUPPORTED, DIFFERS, NOTED, MISSING)
MOST_TEXT = 4000

# How a check failed.
WRONG, REFUSED, RAISED, CRASHED, HUNG = "wrong numbers", "refused", "raised", "ended the process", "hung"
HOWS = (WRONG, CRASHED, HUNG, REFUSED, RAISED)


@dataclass(frozen=True)
class Options:
    """What was asked for."""

    device: str | None = None
    quick: bool = False
    seconds: float | None = None  # that a part may take: then it leaves its last checks out


@dataclass
class Result:
    """What a check found."""

    status: str = PASSED
    message: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)
    how: str = ""  # of a failure, one of HOWS


@dataclass(frozen=True)
class Check:
    """One step of a part. It passes when it returns None, and says otherwise by its result or by raising."""

    name: str
    run: Callable[[], Result | None]
    limit: float = 120.0  # seconds, far more than it takes
    reason: str = ""  # why the device is known not to be able to
    died: str = FAILED  # what it is when the process dies in it
    group: str = ""  # when processes have died in several checks of a group, its others are left out
    family: str = ""  # of operations or nodes, for the report's table and picture


class Mismatch(AssertionError):
    """Numbers that should agree and do not, with the numbers."""

    def __init__(self, message: str, numbers: dict[str, Any]) -> None:
        super().__init__(message)
        self.numbers = numbers


def perform(check: Check) -> Result:
    """The result of a check; no error leaves it."""
    try:
        return check.run() or Result()
    except UnsupportedError as error:
        # Beside what is listed: what this system is too old for. The error says which one is new enough.
        known = check.reason or "macOS" in str(error)
        message = f"{check.reason}: {error}" if check.reason else str(error)
        return Result(UNSUPPORTED if known else FAILED, message[:MOST_TEXT], how=REFUSED)
    except Exception as error:
        numbers = error.numbers if isinstance(error, Mismatch) else {}
        text = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        how = WRONG if isinstance(error, Mismatch) else RAISED
        return Result(FAILED, text.strip()[:MOST_TEXT] or "an assertion without a message", numbers, how)


def difference(found: np.ndarray, wanted: np.ndarray) -> dict[str, Any]:
    """How far two arrays are apart, and where most."""
    if found.shape != wanted.shape:
        return {"shape": list(found.shape), "expected shape": list(wanted.shape)}
    if not found.size:
        return {}
    with np.errstate(all="ignore"):
        kind = np.complex128 if "c" in (found.dtype.kind, wanted.dtype.kind) else np.float64
        a, b = found.astype(kind), wanted.astype(kind)
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        apart = np.where(np.isnan(apart), np.inf, apart)
        worst = np.unravel_index(int(apart.argmax()), apart.shape)
        return {
            "wrong": int((apart > 0).sum()),
            "of": int(apart.size),
            "largest difference": float(apart[worst]),
            "largest expected": float(np.nanmax(np.abs(b))) if not np.isnan(b).all() else math.nan,
            "at": [int(i) for i in worst],
            "found": str(found[worst]),
            "expected": str(wanted[worst]),
        }
