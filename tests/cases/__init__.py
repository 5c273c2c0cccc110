"""The test cases of all operation families.

A module named after a family holds its list CASES; modules named family_part hold more cases of the same family.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from harness.case import Case
from mpsgraph import _core

MODULES = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem != "__init__")
FAMILIES = sorted({d["family"] for d in _core.definitions()} & set(MODULES))


def family_of(module: str) -> str:
    """Return the longest family name that equals the module name or is a prefix of it."""
    return max((f for f in FAMILIES if module == f or module.startswith(f + "_")), key=len)


BY_FAMILY: dict[str, list[Case]] = {
    family: [
        case
        for module in MODULES
        if family_of(module) == family
        for case in importlib.import_module(f"cases.{module}").CASES
    ]
    for family in FAMILIES
}
ALL: list[Case] = [case for cases in BY_FAMILY.values() for case in cases]
