"""The table of operations by kind, and the walk over a program's operations with values that JAX traces.

`@lowers("relu")` enters the function that says a kind in jax.lax; it is called with the operation as a `Step` and the
values of its operands, and gives the value of its result, or a tuple of several. Constants stay numpy's arrays, so
that shapes and places can be read from them. Nothing here knows a single operation but reads and assigns, whose order
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..._core import Block, Operation, Tensor
from ...errors import UnsupportedError
from ...interchange.export import kind_of

Value: TypeAlias = Any
"""What a tensor is while it is traced: an array of JAX's, a numpy array for a constant, a History."""
Lowering: TypeAlias = "Callable[..., Value]"
_TABLE: dict[str, Lowering] = {}
WALKED = ("argument", "assign", "constant", "placeholder", "read", "variable")
"""The kinds that the walk knows by itself."""


def lowers(*kinds: str) -> Callable[[Lowering], Lowering]:
    """Enters the function for one kind of operation or several."""

    def enter(function: Lowering) -> Lowering:
        for kind in kinds:
            _TABLE[kind] = function
        return function

    return enter


def mapped_operations() -> list[str]:
    """The kinds of operations that can be said in jax.lax as they are; others must have a decomposition.

    >>> "convolution2d" in mg.jax.mapped_operations()
    True
    """
    return sorted({*_TABLE, *WALKED})


def missing_operations(operations: Iterable[Operation]) -> list[Operation]:
    """The first operation of each kind that is not in the table, also within blocks; of each custom one by its name."""
    found: dict[str, Operation] = {}
    for operation in all_operations(operations):
        if operation.kind not in _TABLE and operation.kind not in WALKED:
            found.setdefault(kind_of(operation), operation)
    return list(found.values())


def all_operations(operations: Iterable[Operation]) -> Iterator[Operation]:
    """These, and those within their blocks."""
    for operation in operations:
        yield operation
        for block in operation.blocks:
            yield from all_operations(block.operations)


class Step:
    """One operation as lowerings see it."""

    def __init__(self, operation: Operation, trace: Trace) -> None:
        self.operation, self.trace = operation, trace
        self.kind = operation.kind
        self.attributes: dict[str, Any] = operation.attributes
        self.inputs, self.outputs = operation.inputs, operation.outputs

    def __getitem__(self, attribute: str) -> Any:
        return self.attributes[attribute]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the first result."""
        return tuple(self.outputs[0].shape or ())

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the first result, as numpy and ml_dtypes have it."""
        return np.dtype(self.outputs[0].dtype.numpy)

    def axis(self, attribute: str = "axis", operand: int = 0) -> int:
        """An axis of an operand, counted from the front."""
        axis = int(self.attributes[attribute])
        return axis + len(self.inputs[operand].shape or ()) if axis < 0 else axis

    def axes(self, attribute: str = "axes", operand: int = 0) -> tuple[int, ...]:
        """Axes of an operand, counted from the front."""
        rank = len(self.inputs[operand].shape or ())
        return tuple(int(axis) % rank if rank else int(axis) for axis in self.attributes[attribute])


class Trace:
    """One walk: the state so far, a value for each variable and a flag behind them that indices lay outside."""

    def __init__(self, variables: Sequence[Tensor], state: Sequence[Value], precision: Any, loop_limit: int) -> None:
        self.places = {variable: i for i, variable in enumerate(variables)}
        self.state = list(state)
        self.precision, self.loop_limit = precision, loop_limit
        self.values: dict[Tensor, Value] = {}

    def value(self, tensor: Tensor) -> Value:
        """A tensor's value now; a variable's is what the assigns before have made of it."""
        place = self.places.get(tensor)
        return self.values[tensor] if place is None else self.state[place]

    def run(self, operations: Iterable[Operation]) -> None:
        """Walks over operations in their order."""
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
        results = _TABLE[operation.kind](Step(operation, self), *[self.value(t) for t in operation.inputs])
        if len(operation.outputs) == 1 and not isinstance(results, tuple):
            results = (results,)
        for tensor, value in zip(operation.outputs, results or (), strict=True):
            self.values[tensor] = value

    # --- blocks ----------------------------------------------------------------------------------------------------

    def touched(self, blocks: Iterable[Block]) -> list[int]:
        """The places of the state that the operations of blocks may change."""
        found = set()
        for block in blocks:
            for operation in all_operations(block.operations):
                if operation.kind == "assign":
                    found.add(self.places[operation.inputs[0]])
                elif operation.kind == "check_indices":
                    found.add(len(self.places))
        return sorted(found)

    def run_block(self, block: Block, arguments: Sequence[Value]) -> list[Value]:
        """The results of a block for its arguments; what it assigns is in the state."""
        for tensor, value in zip(block.arguments, arguments, strict=True):
            self.values[tensor] = value
        self.run(operation for operation in block.operations if operation.kind != "argument")
        return [self.value(tensor) for tensor in block.results]


def constant_of(operation: Operation) -> np.ndarray[Any, Any]:
    """The elements of a constant; one number is spread as a view."""
    data = operation.attributes["value"]
    array = np.asarray(data.numpy())
    dtype = np.dtype(operation.outputs[0].dtype.numpy)
    return array if array.dtype == dtype else array.view(dtype)


def static(value: Value, step: Step, what: str) -> list[int]:
    """The numbers of a constant operand. UnsupportedError for what only a run knows."""
    if not isinstance(value, np.ndarray):
        raise UnsupportedError(
            f"[{step.kind}] '{step.operation.name}': {what} is computed in the run, where XLA wants a constant"
        )
    return [int(number) for number in value.reshape(-1)]
