"""Cases chosen for a test: those of element-wise operations, in other shapes, and the element types they run in."""

from __future__ import annotations

import cases
import numpy as np

from . import device
from .case import Case, typed

ELEMENTWISE = [case for case in cases.ALL if case.elementwise]
SEVERAL = [case for case in ELEMENTWISE if len(case.inputs) > 1]


def with_shapes(case: Case, shapes: list[tuple[int, ...]]) -> Case:
    """The case with its values laid out in other shapes."""
    inputs = [np.resize(x.ravel(), shape) if np.prod(shape) else np.zeros(shape, x.dtype)
              for x, shape in zip(case.inputs, shapes, strict=True)]  # fmt: skip
    return Case(**{**vars(case), "inputs": inputs})


def dtypes_of(case: Case) -> tuple[str, ...]:
    """The element types of a case that the device has; float32 where no operand has a choice."""
    return tuple(d for d in case.dtypes if device.has(d)) if any(typed(x) for x in case.inputs) else ("float32",)
