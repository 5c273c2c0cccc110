"""The cases whose derivatives are compared with central differences, with the exact dtypes used for that."""

from __future__ import annotations

import cases
import pytest

from .case import Case
from .derivatives import has_slope
from .running import build


def has_result_with_slope(case: Case) -> bool:
    return any(has_slope(r) for r in build(case, case.exact_dtypes[0]).results)


CHECKED = [c for c in cases.ALL if c.gradient and c.float_inputs() and c.exact_dtypes and has_result_with_slope(c)]
NOT_EMPTY = [c for c in CHECKED if all(c.inputs[i].size for i in c.float_inputs())]


def in_exact_types(checked: list[Case]) -> pytest.MarkDecorator:
    """Parametrize (case, dtype) with each case in float64, complex128, or both."""
    each = [(c, d) for c in checked for d in c.exact_dtypes]
    return pytest.mark.parametrize(("case", "dtype"), each, ids=[f"{c.id}-{d}" for c, d in each])
