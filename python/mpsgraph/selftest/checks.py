"""The checks that the self-test runs, their results, and the conversion of exceptions to results."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import UnsupportedError

PASSED, FAILED, KNOWN, UNSUPPORTED, DIFFERS, NOTED, MISSING = (
    "passed",
    "failed",
    "known",  # The check fails as on an earlier Mac; the failure is listed in tests/harness/mac_failures.py.
    "unsupported",  # The device is known not to support what the check tests.
    "differs",  # The result differs from Apple's own gradient, which is not a failure.
    "noted",  # The check reports an answer or a time and cannot fail.
    "not installed",
)
STATUSES = (PASSED, FAILED, KNOWN, UNSUPPORTED, DIFFERS, NOTED, MISSING)
MOST_TEXT = 4000
MOST_VALUES = 6  # Inputs with at most so many elements are described by their values.
MOST_ATTRIBUTE = 80  # Characters.

# Ways in which a check can fail.
WRONG, REFUSED, RAISED, CRASHED, HUNG = "wrong numbers", "refused", "raised", "ended the process", "hung"
HOWS = (WRONG, CRASHED, HUNG, REFUSED, RAISED)


@dataclass(frozen=True)
class Options:
    """Options for running the self-test."""

    device: str | None = None
    quick: bool = False
    seconds: float | None = None  # Time limit of a part, after which its remaining checks are skipped.
    match: str = ""  # Only checks whose name contains this text are run.
    only: tuple[str, ...] = ()  # Only these parts are run; all if empty.
    everything: bool = False  # Run all checks without time limits.


@dataclass
class Result:
    """Result of a check."""

    status: str = PASSED
    message: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)
    how: str = ""  # For a failure, one of HOWS.
    second_run: str = ""  # What happened when the failed check ran again.


@dataclass(frozen=True)
class Check:
    """One check of the self-test.

    The check passes if `run` returns None. To report another outcome, `run` returns a Result or raises an exception.
    """

    name: str
    run: Callable[[], Result | None]
    limit: float = 120.0  # Seconds until the check counts as hung.
    reason: str = ""  # Reason why the device is known not to support what the check tests.
    died: str = FAILED  # Status if the process dies during the check.
    # Name of a group of checks. After crashes in several checks of a group, the other checks of the group are skipped.
    group: str = ""
    family: str = ""  # Family of operations or nodes that the check belongs to in the report's table and picture.
    about: Callable[[], str] | None = None  # Describes the inputs, or what the check does, for the report of a failure.


class Mismatch(AssertionError):
    """Raised when a comparison fails; carries the numbers that differ."""

    def __init__(self, message: str, numbers: dict[str, Any]) -> None:
        super().__init__("\n".join([message.rstrip(), *_remarks(numbers)]))
        self.numbers = numbers


def perform(check: Check) -> Result:
    """Run a check and return its result. An exception becomes a failed or unsupported result."""
    try:
        return check.run() or Result()
    except UnsupportedError as error:
        # In addition to the listed cases, this covers features that need a newer macOS; the error names the version.
        known = check.reason or "macOS" in str(error)
        message = f"{check.reason}: {error}" if check.reason else str(error)
        return Result(UNSUPPORTED if known else FAILED, message[:MOST_TEXT], how=REFUSED)
    except Exception as error:
        numbers = error.numbers if isinstance(error, Mismatch) else {}
        text = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        text = text.strip()[:MOST_TEXT] or "an assertion without a message"
        if isinstance(error, Mismatch):
            return Result(FAILED, text, numbers, WRONG)
        return Result(FAILED, f"{text}\n{_origin(error)}", numbers, RAISED)


def second_run(first: Result, second: Result) -> str:
    """Compare the result of a failed check with the result of a second run of the check."""
    if second.status != FAILED:
        return second.status
    if (first.message, str(first.numbers), first.how) == (second.message, str(second.numbers), second.how):
        return "the same result"
    return f"failed with another result: {second.message.splitlines()[0]}"


def described(arrays: Sequence[tuple[str, np.ndarray]], attributes: Mapping[str, Any] | None = None) -> str:
    """Describe the inputs of a check in one line: dtype, shape, values or their range, and attributes of the operation.

    Args:
        arrays: Pairs of a dtype and the values.
        attributes: Dict from names to attributes.
    """
    texts = []
    for dtype, array in arrays:
        text = f"{dtype} {list(array.shape)}"
        if 0 < array.size <= MOST_VALUES:
            text += f" {array.tolist()}" if array.ndim else f" {array.item()}"
        elif array.size and array.dtype.kind in "fiu" and np.isfinite(array).all():
            text += f" from {array.min():.4g} to {array.max():.4g}"
        texts.append(text)
    given = ", ".join(f"{name}={_brief(value)}" for name, value in (attributes or {}).items())
    return f"inputs {'; '.join([*texts, given] if given else texts)}"


def _brief(value: Any) -> str:
    text = f"array of shape {value.shape}" if isinstance(value, np.ndarray) and value.size > MOST_VALUES else str(value)
    return text if len(text) <= MOST_ATTRIBUTE else text[: MOST_ATTRIBUTE - 3] + "..."


def _origin(error: Exception) -> str:
    """Return the line of the self-test, or of the test cases, that raised an error or called what raised the error."""
    frames = traceback.extract_tb(error.__traceback__)
    folder = Path(__file__).parent
    own = [f for f in frames if Path(f.filename).is_relative_to(folder) and Path(f.filename) != folder / "checks.py"]
    last = (own or frames)[-1]
    return f"Raised at {Path(last.filename).name}:{last.lineno}, in {last.name}: {last.line}"


def _remarks(numbers: dict[str, Any]) -> list[str]:
    """Return what often names a fault at once: the worst element, a common factor, and infinities."""
    remarks = []
    if "at" in numbers:
        remarks.append(f"Worst element {numbers['at']}: found {numbers['found']}, expected {numbers['expected']}")
    if "factor" in numbers:
        remarks.append(f"All elements are the expected ones times {numbers['factor']:.6g}")
    if numbers.get("not finite"):
        remarks.append(f"{numbers['not finite']} of {numbers['of']} elements are infinite or NaN instead of finite")
    return remarks


def _common_factor(found: np.ndarray, wanted: np.ndarray) -> dict[str, float]:
    """Return the factor by which all elements differ from the expected ones, if there is one other than 1."""
    known = np.isfinite(wanted) & (wanted != 0)
    ratios = found[known] / wanted[known]
    if not ratios.size or not np.isfinite(ratios).all() or not (found == wanted)[~known].all():
        return {}
    factor = float(np.median(ratios.real)) + 0.0  # not -0
    common = np.abs(ratios - factor).max() <= 1e-3 * max(abs(factor), 1.0) and abs(factor - 1) > 1e-2
    return {"factor": factor} if common else {}


def difference(found: np.ndarray, wanted: np.ndarray) -> dict[str, Any]:
    """Return the size and the position of the largest difference between two arrays."""
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
            "not finite": int((~np.isfinite(a) & np.isfinite(b)).sum()),
            **_common_factor(a, b),
        }
