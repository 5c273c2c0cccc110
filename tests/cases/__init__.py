"""Every family's cases: a module of the family's name holds its list CASES."""

from __future__ import annotations

import importlib
from pathlib import Path

from harness.case import Case

FAMILIES = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem != "__init__")
BY_FAMILY: dict[str, list[Case]] = {name: importlib.import_module(f"cases.{name}").CASES for name in FAMILIES}
ALL: list[Case] = [case for cases in BY_FAMILY.values() for case in cases]
