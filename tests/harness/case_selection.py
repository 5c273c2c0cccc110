"""Selections of cases, with other input shapes or restricted to the dtypes of the device."""

from __future__ import annotations

import cases
import numpy as np

from . import device
from .case import Case, typed

ELEMENTWISE = [case for case in cases.ALL if case.elementwise]
SEVERAL = [case for case in ELEMENTWISE if len(case.inputs) > 1]


def with_shapes(case: Case, shapes: list[tuple[int, ...]]) -> Case:
    """Return the case with its values arranged in other shapes."""
    inputs = [np.resize(x.ravel(), shape) if np.prod(shape) else np.zeros(shape, x.dtype)
              for x, shape in zip(case.inputs, shapes, strict=True)]  # fmt: skip
    return Case(**{**vars(case), "inputs": inputs})


def dtypes_of(case: Case) -> tuple[str, ...]:
    """Return the dtypes of a case that the device supports, or float32 if no input is typed."""
    return tuple(d for d in case.dtypes if device.has(d)) if any(typed(x) for x in case.inputs) else ("float32",)
