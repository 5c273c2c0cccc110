"""The registry of lowerings, and the traversal of a program with values traced by JAX.

`@lowers("relu")` registers the function that lowers an operation kind to jax.lax. The function receives the operation
as a `Step` and the values of its operands, and returns the value of its result, or a tuple if there are several
results. Constants remain NumPy arrays, so that shapes and positions can be read from them. The traversal itself handles
only reads and assigns, whose order matters; nothing else in this file is specific to an operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..._core import Block, Operation, Tensor
from ...errors import UnsupportedError
from ...interchange.export import kind_of
from ...interchange.registry import Registry
from ._gathering import Gathering
from ._recomputation import Recomputation

Value: TypeAlias = Any
"""The value of a tensor while JAX traces the program: a JAX array, a NumPy array for a constant, or a History."""
Lowering: TypeAlias = "Callable[..., Value]"
lowers: Registry[Lowering] = Registry("operation")
WALKED = ("argument", "assign", "constant", "placeholder", "read", "variable")
"""Kinds of operations that the traversal of a program handles itself, so that they need no lowering."""


def mapped_operations() -> list[str]:
    """Return the operation kinds that have a lowering to jax.lax. Other kinds are expanded into these first.

    Returns:
        A sorted list of names.

    Example:
        >>> "convolution2d" in mg.jax.mapped_operations()
        True
    """
    return sorted({*lowers.known(), *WALKED})


def missing_operations(operations: Iterable[Operation]) -> list[Operation]:
    """Return the first operation of each kind that has no lowering, including operations in nested blocks.

    Custom operations are distinguished by name.
    """
    found: dict[str, Operation] = {}
    for operation in all_operations(operations):
        if operation.kind not in lowers and operation.kind not in WALKED:
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

    def wide(self, operand: int, value: Value) -> Value:
        """Return the wide value of an operand, or the given one if there is none; see `Trace.wide`."""
        return self.trace.wide.get(self.inputs[operand], value)

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
        tensor_cores: bool = False,
        shardings: Mapping[Tensor, tuple[Any, Any]] | None = None,
    ) -> None:
        self.places = {variable: i for i, variable in enumerate(variables)}
        self.state = list(state)
        self.precision, self.loop_limit, self.attention = precision, loop_limit, attention
        self.tensor_cores = tensor_cores
        """Whether the program will run on an NVIDIA GPU."""
        self.wide: dict[Tensor, Value] = {}
        """Values whose last axis continues beyond that of the tensor, with zeros. They come from matmuls that round up
        their sizes. Operations that can use them need neither the tensor's own value, a slice, nor another padding."""
        self.values: dict[Tensor, Value] = {}
        self._recomputation: Recomputation | None = None
        self._shardings = shardings or {}
        self._gathering: Gathering | None = None
        self._depth = 0  # Number of blocks that the traversal is in.
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
            again = self._recomputation = Recomputation(self, operations, loss)
        if self._shardings:
            is_backward = again.is_backward if loss is not None else lambda _: False
            self._gathering = Gathering(self._shardings, operations, is_backward, self.lowered, self.value)
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
        if self._gathering is not None:
            operands = self._gathering.operands(operation, operands, self._depth == 0)
        results = self.lowered(operation, operands)
        if len(operation.outputs) == 1 and not isinstance(results, tuple):
            results = (results,)
        for tensor, value in zip(operation.outputs, results or (), strict=True):
            self.values[tensor] = value
        self._widen(operation, operands)

    def narrowed(self, tensor: Tensor, wide: Value) -> Value:
        """Return the value of a tensor, given a value whose last axis may be longer, which is kept."""
        columns = (tensor.shape or (0,))[-1]
        if wide.shape[-1] == columns:
            return wide
        self.wide[tensor] = wide
        return wide[..., :columns]

    def _widen(self, operation: Operation, operands: Sequence[Value]) -> None:
        """Let operations that keep zeros and the last axis pass wide values on."""
        if not self.wide or operation.kind not in ("cast", "reshape", "select"):
            return
        result, place = operation.outputs[0], 1 if operation.kind == "select" else 0
        wide = self.wide.get(operation.inputs[place])
        shape = result.shape or ()
        if wide is None or not shape or (operation.inputs[place].shape or ())[-1:] != shape[-1:]:
            return
        if operation.kind == "reshape":
            self.wide[result] = wide.reshape(*shape[:-1], wide.shape[-1])
        elif operation.kind == "cast":
            self.wide[result] = self.lowered(operation, [wide])
        else:
            predicate, _, other = operands
            is_zero = isinstance(other, np.ndarray) and other.ndim == 0 and not other
            if is_zero and (np.ndim(predicate) == 0 or predicate.shape[-1] == 1):
                self.wide[result] = self.lowered(operation, [predicate, wide, other])

    def lowered(self, operation: Operation, operands: Sequence[Value]) -> Value:
        """Return the results of an operation's lowering for the given operands."""
        function = lowers.get(operation.kind)
        if function is None:
            raise UnsupportedError(f"{operation.kind} has no lowering to jax.lax")
        return function(Step(operation, self), *operands)

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
        self._depth += 1
        self.run(operation for operation in block.operations if operation.kind != "argument")
        self._depth -= 1
        return [self.value(tensor) for tensor in block.results]


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
