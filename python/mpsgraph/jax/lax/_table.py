"""The registry of lowerings, and the traversal of a program with values traced by JAX.

`@lowers("relu")` registers the function that lowers an operation kind to jax.lax. The function receives the operation
as a `Step` and the values of its operands, and returns the value of its result, or a tuple if there are several
results. Constants remain NumPy arrays, so that shapes and positions can be read from them. The traversal itself handles
only reads and assigns, whose order matters; nothing else in this file is specific to an operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from jax.lax import optimization_barrier

from ..._core import Block, Operation, Tensor, definitions
from ...errors import UnsupportedError
from ...interchange.export import kind_of

Value: TypeAlias = Any
"""The value of a tensor while JAX traces the program: a JAX array, a NumPy array for a constant, or a History."""
Lowering: TypeAlias = "Callable[..., Value]"
_TABLE: dict[str, Lowering] = {}
WALKED = ("argument", "assign", "constant", "placeholder", "read", "variable")
"""Kinds of operations that the traversal of a program handles itself, so that they need no lowering."""


def lowers(*kinds: str) -> Callable[[Lowering], Lowering]:
    """Return a decorator that registers the lowering of one or several operation kinds."""

    def enter(function: Lowering) -> Lowering:
        for kind in kinds:
            _TABLE[kind] = function
        return function

    return enter


def mapped_operations() -> list[str]:
    """Return the operation kinds that have a lowering to jax.lax. Other kinds are expanded into these first.

    Returns:
        A sorted list of names.

    Example:
        >>> "convolution2d" in mg.jax.mapped_operations()
        True
    """
    return sorted({*_TABLE, *WALKED})


def missing_operations(operations: Iterable[Operation]) -> list[Operation]:
    """Return the first operation of each kind that has no lowering, including operations in nested blocks.

    Custom operations are distinguished by name.
    """
    found: dict[str, Operation] = {}
    for operation in all_operations(operations):
        if operation.kind not in _TABLE and operation.kind not in WALKED:
            found.setdefault(kind_of(operation), operation)
    return list(found.values())


def all_operations(operations: Iterable[Operation]) -> Iterator[Operation]:
    """Yield operations and the operations in their blocks, recursively."""
    for operation in operations:
        yield operation
        for block in operation.blocks:
            yield from all_operations(block.operations)


class Step:
    """An operation, as passed to its lowering: attributes, operands, result types, and the trace it belongs to."""

    def __init__(self, operation: Operation, trace: Trace) -> None:
        self.operation, self.trace = operation, trace
        self.kind = operation.kind
        self.attributes: dict[str, Any] = operation.attributes
        self.inputs, self.outputs = operation.inputs, operation.outputs

    def __getitem__(self, attribute: str) -> Any:
        return self.attributes[attribute]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return tuple(self.outputs[0].shape or ())

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the first result, as a NumPy or ml_dtypes type."""
        return np.dtype(self.outputs[0].dtype.numpy)

    def axis(self, attribute: str = "axis", operand: int = 0) -> int:
        """Return an axis attribute as a non-negative axis of an operand."""
        axis = int(self.attributes[attribute])
        return axis + len(self.inputs[operand].shape or ()) if axis < 0 else axis

    def axes(self, attribute: str = "axes", operand: int = 0) -> tuple[int, ...]:
        """Return an attribute that lists axes as non-negative axes of an operand."""
        rank = len(self.inputs[operand].shape or ())
        return tuple(int(axis) % rank if rank else int(axis) for axis in self.attributes[attribute])


class Trace:
    """One traversal of a program under JAX tracing.

    Stores the state, which consists of the current values of variables and, last, a flag that is set by out-of-range
    indices.
    """

    def __init__(
        self,
        variables: Sequence[Tensor],
        state: Sequence[Value],
        precision: Any,
        loop_limit: int,
        attention: str | None = None,
    ) -> None:
        self.places = {variable: i for i, variable in enumerate(variables)}
        self.state = list(state)
        self.precision, self.loop_limit, self.attention = precision, loop_limit, attention
        self.values: dict[Tensor, Value] = {}
        self._recomputation: Recomputation | None = None
        self._users: dict[Tensor, list[Operation]] = {}
        self.pullbacks: dict[Tensor, Callable[[Value], tuple[Value, ...]]] = {}
        """Functions from the gradient of an operation's result to those of its operands, keyed by the result."""

    def value(self, tensor: Tensor) -> Value:
        """Return the current value of a tensor. The value of a variable is the value assigned last."""
        place = self.places.get(tensor)
        return self.values[tensor] if place is None else self.state[place]

    def run_program(self, operations: Sequence[Operation], loss: Tensor | None) -> None:
        """Run all operations of a program. Those after the operation that computes a loss are its backward pass."""
        for operation in all_operations(operations):
            for tensor in operation.inputs:
                self._users.setdefault(tensor, []).append(operation)
        if loss is not None:
            self._recomputation = Recomputation(self, operations, loss)
        self.run(operations)

    def is_multiplied(self, tensor: Tensor) -> bool:
        """Return whether a matmul has the tensor as an operand, possibly reshaped, transposed, or cast."""
        return any(
            user.kind == "matrix_multiplication"
            or (user.kind in ("reshape", "transpose", "cast") and self.is_multiplied(user.outputs[0]))
            for user in self._users.get(tensor, ())
        )

    def run(self, operations: Iterable[Operation]) -> None:
        """Run operations in order under JAX tracing, and store the values of their results."""
        for operation in operations:
            kind = operation.kind
            if kind == "placeholder" or kind == "variable":
                continue
            if kind == "constant":
                self.values[operation.outputs[0]] = constant_of(operation)
            elif kind == "read":
                self.values[operation.outputs[0]] = self.value(operation.inputs[0])
            elif kind == "assign":
                variable, value = operation.inputs
                self.state[self.places[variable]] = self.value(value)
            else:
                self._lower(operation)

    def _lower(self, operation: Operation) -> None:
        again = self._recomputation
        operands = [
            self.value(t) if again is None or not again.applies(t, operation) else again.value(t)
            for t in operation.inputs
        ]
        results = _TABLE[operation.kind](Step(operation, self), *operands)
        if len(operation.outputs) == 1 and not isinstance(results, tuple):
            results = (results,)
        for tensor, value in zip(operation.outputs, results or (), strict=True):
            self.values[tensor] = value

    # --- blocks ----------------------------------------------------------------------------------------------------

    def touched(self, blocks: Iterable[Block]) -> list[int]:
        """Return the indices of the state values (variables and the flag) that operations in the blocks may change."""
        found = set()
        for block in blocks:
            for operation in all_operations(block.operations):
                if operation.kind == "assign":
                    found.add(self.places[operation.inputs[0]])
                elif operation.kind == "check_indices":
                    found.add(len(self.places))
        return sorted(found)

    def run_block(self, block: Block, arguments: Sequence[Value]) -> list[Value]:
        """Run a block for the given arguments and return its results. Assignments in the block change the trace's
        state.
        """
        for tensor, value in zip(block.arguments, arguments, strict=True):
            self.values[tensor] = value
        self.run(operation for operation in block.operations if operation.kind != "argument")
        return [self.value(tensor) for tensor in block.results]


_ELEMENTWISE = {entry["name"] for entry in definitions() if entry["elementwise"]}
_EXPENSIVE = ("tanh", "erf", "exponent", "logarithm", "sigmoid", "power", "sin", "cos")


class Recomputation:
    """Element-wise values that the backward pass computes again from smaller ones instead of reading them from memory.

    GELU in mixed precision is an example: its tanh in float32 is twice as large as its operand in bfloat16. XLA itself
    computes cheap operations again, but not these.
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

    def applies(self, tensor: Tensor, user: Operation) -> bool:
        """Return whether an operation in the backward pass should read a recomputed value of a tensor."""
        if user.id in self._forward or not self._is_computed(tensor):
            return False
        found, expensive, _ = self._sources[tensor]
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
                self._values[tensor] = _TABLE[operation.kind](Step(operation, self._trace), *operands)
            else:
                value = self._trace.value(tensor)
                self._values[tensor] = value if isinstance(value, np.ndarray) else optimization_barrier(value)
        return self._values[tensor]


def _bytes(tensor: Tensor) -> int:
    return math.prod(tensor.shape or ()) * tensor.dtype.itemsize


def constant_of(operation: Operation) -> np.ndarray[Any, Any]:
    """Return the elements of a constant. A constant filled with one scalar is returned as a broadcast view."""
    data = operation.attributes["value"]
    array = np.asarray(data.numpy())
    dtype = np.dtype(operation.outputs[0].dtype.numpy)
    return array if array.dtype == dtype else array.view(dtype)


def static(value: Value, step: Step, what: str) -> list[int]:
    """Return the elements of a constant operand, or raise UnsupportedError if it is computed at run time."""
    if not isinstance(value, np.ndarray):
        raise UnsupportedError(
            f"[{step.kind}] '{step.operation.name}': {what} is computed at run time, but XLA needs a constant"
        )
    return [int(number) for number in value.reshape(-1)]
