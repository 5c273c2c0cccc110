"""Looking for the first operation that makes a NaN or an infinity.

Each operation of a step that gives floats is counted: does it give what is not finite though all that it got was
finite? Where one does, the run ends before its effects (docs/decisions/0025), so a second run, of the counts alone,
sees what the first one saw.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._core import Device, Operation, Tensor
from ..graph import Graph

MARK = "made_not_finite"


class FiniteCheck:
    """The counts of one step, and the operation that guards it."""

    def __init__(self, g: Graph, targets: list[Tensor], operations: list[Operation]) -> None:
        self.graph = g
        self.operations: list[Operation] = []
        bad: dict[Tensor, Tensor] = {}
        made: list[Tensor] = []
        for operation in _needed(g, targets, operations):
            own = [t for t in operation.outputs if t.dtype.is_float and t.shape is not None]
            if not own or operation.kind == "variable":
                continue
            counts = [g.reshape(g.reduction_sum(g.cast(g.not_(g.is_finite(t)), "float32")), ()) for t in own]
            bad |= dict(zip(own, counts, strict=True))
            if operation.kind == "constant":
                continue
            total = counts[0]
            for count in counts[1:]:
                total = total + count
            for t in operation.inputs:
                if t in bad:
                    total = total * g.cast(g.equal(bad[t], 0.0), "float32")
            self.operations.append(operation)
            made.append(g.reshape(total, (1,)))
        self.made = g.concat(made, 0) if len(made) > 1 else made[0]
        wrong = g.cast(g.greater_than(g.reduction_maximum(self.made), 0.0), "int32", name=MARK)
        looked = g.gather(g.constant([1.0]), g.reshape(wrong, (1,)), out_of_range="error")
        self.guard: Operation = looked.operation

    def explanation(self, feeds: Mapping[Tensor, Any], device: Device | str | None) -> str:
        """Which operation made it first, of what kind and where; variables stay as they are."""
        g = self.graph
        before = {v: g.variable_value(v, device=device) for v in g.variables}
        counts = g.run(feeds, self.made, device=device).numpy()
        for v, value in before.items():
            g.set_variable(v, value, device=device)
        first = next((op for op, count in zip(self.operations, counts, strict=True) if count), None)
        if first is None:
            return "a step made a NaN or an infinity that a second run did not make"
        what = "is fed with" if first.kind == "placeholder" else "makes"
        return f"[{first.kind}] '{first.name}' {what} a NaN or an infinity, the first of this step; {first.location}"


def _needed(g: Graph, targets: list[Tensor], operations: list[Operation]) -> list[Operation]:
    """What the targets and operations need, in the order of its making."""
    seen: dict[int, Operation] = {}
    waiting = [t.operation for t in targets] + list(operations)
    while waiting:
        operation = waiting.pop()
        if operation.id in seen:
            continue
        seen[operation.id] = operation
        waiting += [t.operation for t in operation.inputs] + list(operation.control_dependencies)
    known = {operation.id for operation in g.operations}
    return [seen[i] for i in sorted(seen) if i in known]
