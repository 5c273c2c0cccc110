"""Translations of iOS18 states, which persist between runs, to variables and assignments.

A state starts as zeros. Every output of the model depends on all writes to states, so computing any output performs all
these writes.
"""

from __future__ import annotations

from .._importer import State
from .._operation import Call, Results, mil


def _state(call: Call) -> State:
    held = call.operand("input")
    if not isinstance(held, State):
        call.refuse("the operand must be a state")
    return held


@mil("read_state")
def read_state(call: Call) -> Results:
    return call.g.read(_state(call).variable)


@mil("write_state")
def write_state(call: Call) -> Results:
    call.importer.write(_state(call), call.tensor("data"))
    return []
