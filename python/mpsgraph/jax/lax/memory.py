"""Lowering of undefined, which represents results that a branch does not compute.

The traversal of a program itself handles the other memory operations, such as variable reads and assignments.
"""

from __future__ import annotations

import numpy as np

from ._table import Step, Value, lowers


@lowers("undefined")
def undefined(step: Step) -> Value:
    """Return zeros for a result that a branch does not define."""
    return np.zeros(step.shape, step.dtype)
