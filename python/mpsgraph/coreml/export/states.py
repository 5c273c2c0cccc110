"""Export of assigned variables as Core ML states, which persist between runs from iOS18 on."""

from __future__ import annotations

import numpy as np

from ..._core import Operation, Tensor
from ...interchange.export import NotExpressible, required_shape
from ._writer import Var, Writer, writes


def state_shape(w: Writer, variable: Tensor) -> tuple[int, ...]:
    """Return the shape of the Core ML state that stores a variable.

    Raises NotExpressible if Core ML cannot store the variable or cannot represent its initial value.
    """
    if w.target < 18:
        raise NotExpressible('the variable is assigned and so becomes a state, which needs target="iOS18"')
    if str(variable.dtype) != "float16":
        raise NotExpressible(
            f"the variable is assigned and so becomes a state, which must be float16, got {variable.dtype}"
        )
    shape = required_shape(variable)
    if not shape:
        raise NotExpressible("the variable is assigned and so becomes a state, which must have at least one axis")
    if np.any(w.value_of(variable)):
        raise NotExpressible(
            "the variable is assigned and so becomes a state, which starts as zeros, but it holds other values: set it "
            "to zeros, or make it an input"
        )
    return shape


@writes("assign")
def assign(w: Writer, op: Operation) -> list[Var]:
    """Export an assignment to a variable as MIL's coreml_update_state. Later reads of the variable return the new
    value.
    """
    variable, value = op.inputs
    if variable not in w.states:
        raise NotExpressible(
            "the operation assigns a variable in a branch or loop, but Core ML states must be assigned outside them"
        )
    w.give(variable, w.mb.coreml_update_state(state=w.states[variable], value=w[value]))
    return []
