"""Values that a training step's backward pass computes again instead of reading them from memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from jax.lax import optimization_barrier

from ..._core import Operation, Tensor, definitions

Value: TypeAlias = Any


class Trace(Protocol):
    """The part of a Trace that recomputing needs."""

    def value(self, tensor: Tensor) -> Value:
        """Return the current value of a tensor."""

    def lowered(self, operation: Operation, operands: Sequence[Value]) -> Value:
        """Return the results of an operation's lowering for the given operands."""


_ELEMENTWISE = {entry["name"] for entry in definitions() if entry["elementwise"]}
REDUCTIONS = {entry["name"] for entry in definitions() if entry["name"].startswith("reduction_")}
_EXPENSIVE = ("tanh", "erf", "exponent", "logarithm", "sigmoid", "power", "sin", "cos")


class Recomputation:
    """Element-wise values that the backward pass computes again from smaller ones instead of reading them from memory.

    GELU in mixed precision is an example: its tanh in float32 is twice as large as its operand in bfloat16. XLA itself
    computes cheap operations again, but not these. All values that have the same sources are then computed from them,
    so that they are read once.

    Reductions are the opposite case: XLA computes the mean and the variance of a normalized row again in each operation
    that uses them, which reads the whole row several times. The backward pass reads them from memory instead.
    """

    def __init__(self, trace: Trace, operations: Sequence[Operation], loss: Tensor) -> None:
        self._trace = trace
        self._forward: set[int] = set()
        for operation in operations:
            self._forward.add(operation.id)
            if operation.id == loss.operation.id:
                break
        self._sources: dict[Tensor, tuple[frozenset[Tensor], bool, int]] = {}
        for operation in operations:
            if operation.id in self._forward:
                for tensor in operation.outputs:
                    self._sources[tensor] = self._found(tensor)
        self._values: dict[Tensor, Value] = {}

    def is_backward(self, operation: Operation) -> bool:
        """Return whether an operation comes after the loss."""
        return operation.id not in self._forward

    def applies(self, tensor: Tensor, user: Operation) -> bool:
        """Return whether an operation in the backward pass should read a value that `value` returns."""
        if user.id in self._forward or tensor.operation.id not in self._forward:
            return False
        found, expensive, _ = self._sources[tensor]
        given = [source for source in found if source.operation.kind != "constant"]
        if not given:
            return False
        if all(source.operation.kind in REDUCTIONS or source in self._values for source in given):
            return True
        return expensive and sum(_bytes(source) for source in found) < _bytes(tensor)

    def _is_computed(self, tensor: Tensor) -> bool:
        operation = tensor.operation
        return operation.id in self._forward and operation.kind in _ELEMENTWISE and len(operation.outputs) == 1

    def _found(self, tensor: Tensor) -> tuple[frozenset[Tensor], bool, int]:
        """Return the tensors that an element-wise value is computed from, whether an expensive operation is used, and
        the number of operations.
        """
        itself = frozenset((tensor,)), False, 0
        if not self._is_computed(tensor):
            return itself
        parts = [self._sources.get(operand, (frozenset((operand,)), False, 0)) for operand in tensor.operation.inputs]
        found = frozenset[Tensor]().union(*(sources for sources, _, _ in parts))
        expensive = tensor.operation.kind in _EXPENSIVE or any(also for _, also, _ in parts)
        count = 1 + sum(length for _, _, length in parts)
        return itself if len(found) > 8 or count > 64 else (found, expensive, count)

    def value(self, tensor: Tensor) -> Value:
        """Return the value of a tensor, computed again behind a barrier that hides its sources from XLA."""
        if tensor not in self._values:
            operation = tensor.operation
            if self._sources.get(tensor, (None, False, 0))[2]:
                operands = [self.value(operand) for operand in operation.inputs]
                self._values[tensor] = self._trace.lowered(operation, operands)
            else:
                value = self._trace.value(tensor)
                self._values[tensor] = value if isinstance(value, np.ndarray) else optimization_barrier(value)
        return self._values[tensor]


def _bytes(tensor: Tensor) -> int:
    return math.prod(tensor.shape or ()) * tensor.dtype.itemsize
