"""Collecting the parts of fully sharded variables before operations use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from jax.lax import optimization_barrier, with_sharding_constraint

from ..._core import Operation, Tensor, definitions
from ._recomputation import REDUCTIONS

Value: TypeAlias = Any
Use: TypeAlias = "tuple[Tensor, bool]"
"""A variable, or a value computed from its parts, and whether the backward pass uses it."""

_BY_PARTS = {entry["name"] for entry in definitions() if entry["elementwise"]} | {"cast", "read"}
_AHEAD = 4
"""Number of variables that are collected ahead of the operation that is running."""


class Gathering:
    """Collects the parts of variables before operations that need more than one part.

    Element-wise operations, such as casts and the optimizer's, compute on the parts. The forward and the backward pass
    each collect the parts, so that no device keeps a whole variable between them. XLA would collect all variables at
    the start; barriers therefore make each one wait for an operation that uses one of the variables before it.

    Args:
        shardings: How variables are stored, and how operations use them: pairs of shardings, keyed by variable.
        operations: The program.
        is_backward: Function that returns whether an operation belongs to the backward pass.
        lowered: Function that returns the result of an operation for the given operands.
        value_of: Function that returns the current value of a tensor.
    """

    def __init__(
        self,
        shardings: Mapping[Tensor, tuple[Any, Any]],
        operations: Sequence[Operation],
        is_backward: Callable[[Operation], bool],
        lowered: Callable[[Operation, Sequence[Value]], Value],
        value_of: Callable[[Tensor], Value],
    ) -> None:
        self._shardings = dict(shardings)
        self._is_backward, self._lowered, self._value_of = is_backward, lowered, value_of
        self._order: dict[Use, int] = {}  # The uses in the order of their first operation.
        self._collected: dict[Use, Value] = {}
        self._due: list[Use] = []  # Uses whose parts the next operation on other values lets XLA collect.
        assigned: set[Tensor] = set()
        self._changing: set[Tensor] = set()  # Values that must not be read before their own operation runs.
        for operation in operations:
            if operation.kind == "assign":
                assigned.add(operation.inputs[0])
            for tensor in self._needed_by(operation):
                self._order.setdefault((tensor, is_backward(operation)), len(self._order))
            for tensor in operation.inputs:
                if tensor in self._shardings and _is_by_parts(operation, tensor):
                    self._shardings.update(dict.fromkeys(operation.outputs, self._shardings[tensor]))
                if tensor in self._changing or (operation.kind == "read" and tensor in assigned):
                    self._changing.update(operation.outputs)
        self._uses = list(self._order)

    def _needed_by(self, operation: Operation) -> list[Tensor]:
        """Return the operands of which an operation needs more than one part."""
        if operation.kind in REDUCTIONS or operation.kind == "assign":
            return []
        return [t for t in operation.inputs if t in self._shardings and not _is_by_parts(operation, t)]

    def operands(self, operation: Operation, values: list[Value], is_outer: bool) -> list[Value]:
        """Return the values of an operation's operands, in which variables are collected if the operation needs it.

        Args:
            operation: The operation.
            values: The values of its operands.
            is_outer: Whether the operation is in no block, so that later operations can use the same values.
        """
        needed = self._needed_by(operation)
        for tensor in dict.fromkeys(needed):
            places = [i for i, operand in enumerate(operation.inputs) if operand is tensor]
            whole = self._whole(tensor, values[places[0]], self._is_backward(operation), is_outer)
            for i in places:
                values[i] = whole
        if self._due and is_outer:
            self._let_collect(operation, values)
        return values

    def _whole(self, tensor: Tensor, value: Value, is_backward: bool, is_outer: bool) -> Value:
        use = tensor, is_backward
        if not is_outer:
            return with_sharding_constraint(value, self._shardings[tensor][1])
        if use not in self._collected:
            self._collect([use], list(optimization_barrier((value,))) if is_backward else [value])
        if use in self._order:
            position = self._order.pop(use) + _AHEAD
            if position < len(self._uses) and self._uses[position][0] not in self._changing:
                self._due.append(self._uses[position])
        return self._collected[use]

    def _collect(self, uses: Sequence[Use], parts: Sequence[Value]) -> None:
        for use, part in zip(uses, parts, strict=True):
            stored, whole = self._shardings[use[0]]
            # The first constraint keeps XLA from collecting the parts before the barrier.
            self._collected[use] = with_sharding_constraint(with_sharding_constraint(part, stored), whole)

    def _let_collect(self, operation: Operation, values: list[Value]) -> None:
        """Let XLA collect the due variables once an operand of this operation that is not a variable is known."""
        sizes = {
            i: values[i].size
            for i, tensor in enumerate(operation.inputs)
            if tensor not in self._shardings and not isinstance(values[i], np.ndarray) and tensor.dtype.is_float
        }
        most = max(sizes, key=lambda i: sizes[i], default=None)
        if most is None or values[most].ndim < 2:
            return
        due = [use for use in self._due if use not in self._collected]
        values[most], *parts = optimization_barrier((values[most], *(self._early(tensor) for tensor, _ in due)))
        self._collect(due, parts)
        self._due.clear()

    def _early(self, tensor: Tensor) -> Value:
        """Return the parts of a tensor, computed from a variable if the program has not computed the tensor yet."""
        try:
            return self._value_of(tensor)
        except KeyError:
            operation = tensor.operation
            operands = [self._early(operand) for operand in operation.inputs]
            return operands[0] if operation.kind == "read" else self._lowered(operation, operands)


def _is_by_parts(operation: Operation, operand: Tensor) -> bool:
    return operation.kind in _BY_PARTS and all(out.shape == operand.shape for out in operation.outputs)
