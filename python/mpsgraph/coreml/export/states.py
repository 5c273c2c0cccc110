"""Variables that a run assigns, as Core ML's states: what stays from run to run, from iOS18 on."""

from __future__ import annotations

import numpy as np

from ..._core import Operation, Tensor
from ...interchange.export import Unsaid, required_shape
from ._writer import Var, Writer, writes


def state_shape(w: Writer, variable: Tensor) -> tuple[int, ...]:
    """The sizes of a state. Unsaid for what Core ML cannot keep, and for values that it would forget."""
    if w.target < 18:
        raise Unsaid("is assigned, and stays from run to run; programs have states from target='iOS18' on")
    if str(variable.dtype) != "float16":
        raise Unsaid(f"is assigned, and Core ML keeps float16 alone from run to run, this is {variable.dtype}")
    shape = required_shape(variable)
    if not shape:
        raise Unsaid("is assigned, and a state has at least one axis")
    if np.any(w.value_of(variable)):
        raise Unsaid("holds other numbers than zeros, with which Core ML's states begin: set it to zeros, or feed them")
    return shape


@writes("assign")
def assign(w: Writer, op: Operation) -> list[Var]:
    """What is read behind it sees the new value."""
    variable, value = op.inputs
    if variable not in w.states:
        raise Unsaid("sets a variable that is none of the program's states")
    w.give(variable, w.mb.coreml_update_state(state=w.states[variable], value=w[value]))
    return []
