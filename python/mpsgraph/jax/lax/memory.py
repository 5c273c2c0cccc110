"""Lowering of undefined. The traversal itself handles the other memory operations."""

from __future__ import annotations

import numpy as np

from ._table import Step, Value, lowers


@lowers("undefined")
def undefined(step: Step) -> Value:
    """Return zeros for a result that a branch does not define."""
    return np.zeros(step.shape, step.dtype)
