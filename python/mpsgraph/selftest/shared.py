"""Access to the cases of the package's own tests, which are installed next to this file.

They are top-level modules (`cases`, `harness`), found through sys.path in the processes of the self-test only.
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
    """Import a module of the tests, such as "cases" or "harness.running"."""
    if "harness" not in sys.modules and str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return importlib.import_module(name)


def known_reason(case: Any, dtype: str, device: str, gradient: bool = False) -> str:
    """Return the documented reason why the device does not support a case or its gradient, or "" if it should."""
    if device != "metal":
        return ""
    listed = module("harness.unsupported")
    names = (f"{case.id}-{dtype}", case.id, case.operation)
    found: str = next((listed.REASONS[name] for name in names if name in listed.REASONS), "")
    return found or (listed.GRADIENTS.get(case.id, "") if gradient else "")


def of_node(case: Any, device: str, gradient: bool) -> tuple[str, str]:
    """Return two reasons that are listed for a test case of the legacy nodes, each "" if there is none.

    The first says why the device rejects the case, and the second what Apple leaves undocumented about the case.
    """
    if device != "metal":
        return "", ""
    listed = module("harness.unsupported")
    test = "test_filter_gradient_matches_finite_differences" if gradient else "test_filter_value_matches_numpy"
    name = f"{test}[{case}]"  # Name in tests/nngraph/test_nodes.py.
    return _first(name, listed.NODES), _first(name, listed.OPEN)


def _first(name: str, patterns: dict[str, str]) -> str:
    return next((text for pattern, text in patterns.items() if fnmatchcase(name, pattern)), "")


def listed_failure(part: str, name: str) -> str:
    """Return the reason from the list of checks that are known to fail on Macs.

    Return "" for checks that are not listed, and on other systems.
    """
    if sys.platform != "darwin":
        return ""
    found: str = module("harness.mac_failures").FAILURES.get(f"{part}: {name}", "")
    return found


@functools.cache
def families() -> dict[str, str]:
    """Return a dict from each operation that has cases to its family."""
    return {case.operation: family for family, cases in module("cases").BY_FAMILY.items() for case in cases}
