"""The cases of the package's own tests, which are shipped beside this file, so that there is one list of them.

They are modules of top-level names (`cases`, `harness`), found through sys.path of the self-test's processes only.
"""

from __future__ import annotations

import importlib
import sys
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
