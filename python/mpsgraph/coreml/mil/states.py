"""States of iOS18: tensors that stay from run to run. Here they are variables, and writing one is an assignment.

A state begins as zeros. Every output of the model waits for all writes, so that a run of any of them makes them.
"""

from __future__ import annotations

from .._table import Call, Results, State, mil


def _state(call: Call) -> State:
    held = call.operand("input")
    if not isinstance(held, State):
        call.refuse("of something that is no state")
    return held


@mil("read_state")
def read_state(call: Call) -> Results:
    return call.g.read(_state(call).variable)


@mil("write_state")
def write_state(call: Call) -> Results:
    call.importer.write(_state(call), call.tensor("data"))
    return []
