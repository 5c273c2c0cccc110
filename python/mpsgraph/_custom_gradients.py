"""Gradients through results whose derivative is a Python function of the user.

Such a result is a `straight_through` operation, at which the core's gradient ends, and a record with the backward
function. `gradients` walks from record to record, from the last to the first, and asks the core for the gradients of
the parts between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import _core
from ._core import Operation, Tensor
from ._display import shown
from .errors import DTypeError, GraphError, ShapeError

PREFIX = "custom_gradient"
"""Start of the names of the operations at which the core's gradient ends."""


class Record:
    """A call of a function with a custom gradient."""

    def __init__(self, operands: list[Tensor], results: list[Tensor], backward: Callable[..., Any]) -> None:
        self.operands, self.results, self.backward = operands, results, backward
        self.incoming: list[Tensor | None] = []


def reached(of: Tensor, records: Sequence[Record]) -> set[Operation]:
    """Return the operations on which a tensor depends, without those behind the results of records."""
    ends = {r.operation for record in records for r in record.results}
    found: set[Operation] = set()
    stack = [of.operation]
    while stack:
        operation = stack.pop()
        if operation in found:
            continue
        found.add(operation)
        if operation in ends:
            continue
        stack.extend(x.operation for x in operation.inputs)
        for block in operation.blocks:
            stack.extend(block.operations)
    return found


def check_parsed(graph: Any, of: Tensor, records: Sequence[Record]) -> None:
    """Raise GraphError if a tensor of a parsed graph depends on a result whose backward function is lost."""
    known = {r.operation for record in records for r in record.results}
    for operation in reached(of, records):
        if operation.kind == "straight_through" and operation.name.startswith(PREFIX) and operation not in known:
            raise GraphError(
                f"'{operation.name}' has a custom gradient, which is a Python function and was not stored with the "
                "graph: build the graph again to differentiate it"
            )


def gradients(
    records: list[Record], of: Tensor, wanted: Sequence[Tensor], start: Tensor | None, unconnected: str
) -> list[Tensor]:
    """Return the gradients of a tensor with respect to others, as `_core.gradients` does, through all records."""
    for record in records:
        record.incoming = [None] * len(record.results)
    sums: dict[Tensor, Tensor] = {}
    asked = set(wanted)
    places = {r: (record, i) for record in records for i, r in enumerate(record.results)}

    def accumulate(of: Tensor, start: Tensor | None) -> None:
        there = reached(of, records)
        targets = [t for t in dict.fromkeys([*wanted, *places]) if t.operation in there]
        for target, found in zip(targets, _core.gradients(of, targets, start, "zeros"), strict=True):
            if target in asked:
                sums[target] = found if target not in sums else sums[target] + found
            if target in places:
                record, i = places[target]
                before = record.incoming[i]
                record.incoming[i] = found if before is None else before + found

    accumulate(of, start)
    for record in sorted(records, key=lambda r: r.results[0].operation.id, reverse=True):
        if all(x is None for x in record.incoming):
            continue
        incoming = [r * 0.0 if x is None else x for r, x in zip(record.results, record.incoming, strict=True)]
        given = record.backward(incoming[0] if len(incoming) == 1 else tuple(incoming), *record.operands)
        for operand, gradient in zip(record.operands, checked(record, given), strict=True):
            if gradient is not None and (operand.dtype.is_float or operand.dtype.is_complex):
                accumulate(operand, gradient)
    missing = [t for t in wanted if t not in sums]
    if missing and unconnected == "error":
        raise GraphError(f"[gradients] '{of.name}' does not depend on '{missing[0].name}'")
    zeros = dict(zip(missing, _core.gradients(of, missing, start, "zeros"), strict=True)) if missing else {}
    return [sums[t] if t in sums else zeros[t] for t in wanted]


def checked(record: Record, given: Any) -> list[Tensor | None]:
    """Return the result of a backward function as a list of a tensor or None for each operand."""
    found = list(given) if isinstance(given, (tuple, list)) else [given]
    if len(found) != len(record.operands):
        raise GraphError(
            f"custom_gradient: backward must return a gradient for each of the {len(record.operands)} operands, got "
            f"{len(found)}"
        )
    for operand, gradient in zip(record.operands, found, strict=True):
        if gradient is None:
            continue
        if not isinstance(gradient, Tensor):
            raise GraphError(f"custom_gradient: backward must return tensors or None, got {shown(gradient)}")
        if gradient.dtype != operand.dtype:
            raise DTypeError(
                f"custom_gradient: the gradient with respect to '{operand.name}' must be {operand.dtype}, got "
                f"{gradient.dtype}"
            )
        if gradient.shape is not None and operand.shape is not None and len(gradient.shape) != len(operand.shape):
            raise ShapeError(
                f"custom_gradient: the gradient with respect to '{operand.name}' must have shape {operand.shape}, got "
                f"{gradient.shape}"
            )
    return found
