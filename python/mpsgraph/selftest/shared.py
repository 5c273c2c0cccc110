"""The cases of the package's own tests, which are shipped beside this file, so that there is one list of them.

They are modules of top-level names (`cases`, `harness`), found through sys.path of the self-test's processes only.
"""

from __future__ import annotations

import functools
import importlib
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "tests"


def module(name: str) -> Any:
    """A module of the tests, such as "cases" or "harness.running"."""
    if "harness" not in sys.modules and str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return importlib.import_module(name)


def known_reason(case: Any, dtype: str, device: str, gradient: bool = False) -> str:
    """Why the device is known not to be able to do a case, or to differentiate it; nothing when it is not."""
    if device != "metal":
        return ""
    listed = module("harness.unsupported")
    names = (f"{case.id}-{dtype}", case.id, case.operation)
    found: str = next((listed.REASONS[name] for name in names if name in listed.REASONS), "")
    return found or (listed.GRADIENTS.get(case.id, "") if gradient else "")


def of_node(case: Any, device: str, gradient: bool) -> tuple[str, str]:
    """Why the device is known to refuse a case of nodes, and what Apple leaves open in it; nothing where neither is."""
    if device != "metal":
        return "", ""
    listed = module("harness.unsupported")
    name = f"test_{'gradient' if gradient else 'value'}[{case}]"  # as tests/nngraph/test_nodes.py calls it
    return _first(name, listed.NODES), _first(name, listed.OPEN)


def _first(name: str, patterns: dict[str, str]) -> str:
    return next((text for pattern, text in patterns.items() if fnmatchcase(name, pattern)), "")


def listed_failure(part: str, name: str) -> str:
    """What is known of a check that fails on Macs; nothing elsewhere, and where nothing is known."""
    if sys.platform != "darwin":
        return ""
    found: str = module("harness.mac_failures").FAILURES.get(f"{part}: {name}", "")
    return found


@functools.cache
def families() -> dict[str, str]:
    """The family of each operation that has cases."""
    return {case.operation: family for family, cases in module("cases").BY_FAMILY.items() for case in cases}
