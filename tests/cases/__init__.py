"""Every family's cases: a module of the family's name holds its list CASES, and others named family_part hold more."""

from __future__ import annotations

import importlib
from pathlib import Path

from harness.case import Case

MODULES = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem != "__init__")
FAMILIES = [m for m in MODULES if not any(m.startswith(other + "_") for other in MODULES)]
BY_FAMILY: dict[str, list[Case]] = {
    family: [
        case
        for module in MODULES
        if module == family or module.startswith(family + "_")
        for case in importlib.import_module(f"cases.{module}").CASES
    ]
    for family in FAMILIES
}
ALL: list[Case] = [case for cases in BY_FAMILY.values() for case in cases]
