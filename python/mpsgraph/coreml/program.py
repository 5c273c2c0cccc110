"""The importer for ML Programs, which translates operations in order and adds operations to one graph.

All operations are looked up before the graph is built, so that one error can list all unsupported operations. Results
are cast to the dtype that the program declares. A result whose shape differs from the declared shape is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .._core import DType, Operation, Tensor
from ..errors import GraphError, ShapeError, UnsupportedError
from ..interchange.custom_operators import Operators, called
from ..interchange.data_dependent import Trainable
from ._importer import CoreMLImporter, State, TensorList, Value
from ._operation import Call, Function, mil
from ._values import Fixed, Values, dims_of, dtype_of, shown_type
from ._wire import Message


class Program(CoreMLImporter):
    """Imports a function of an ML Program once, optionally with fixed values or shapes for some inputs."""

    def __init__(
        self,
        function: Message,
        values: Values,
        trainable: Trainable = True,
        given: Mapping[str, np.ndarray] | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        operators: Operators | None = None,
    ) -> None:
        super().__init__(values, trainable, given, shapes, operators)
        self._function = function
        self._scopes: list[dict[str, Value]] = [{}]
        self._writes: list[Operation] = []

    def run(self) -> None:
        """Add the operations of the function to the graph."""
        block = body_of(self._function)
        for named in self._function.inputs:
            self._scopes[-1][named.name] = self._input(named)
        results = self._run_block(block)
        for name, value in zip(block.outputs, results, strict=True):
            self.outputs[name] = self.tensor(value)
        if self._writes:
            self._wait_for_writes()

    def _wait_for_writes(self) -> None:
        """Make every output depend on the assignments to states, so that each run performs them.

        The class labels of the old outputs are recorded for the new ones.
        """
        before = list(self.outputs.values())
        behind = self.graph.control_dependency(self._writes, lambda: before)
        self.outputs = dict(zip(self.outputs, behind, strict=True))
        labels = [self._classes_of.get(value) for value in before]
        self._classes_of.update((y, known) for y, known in zip(behind, labels, strict=True) if known)

    def write(self, state: State, value: Tensor) -> None:
        """Assign a new value to a state in every run that computes an output.

        Raises UnsupportedError inside a branch or loop, because such a block does not always run.
        """
        if len(self._scopes) > 1:
            raise UnsupportedError(
                "a state must be written outside branches and loops, but this operation is inside one"
            )
        self._writes.append(self.graph.assign(state.variable, value))

    def _state(self, named: Message) -> State:
        kind, name = named.type.stateType.wrappedType, named.name
        dims = dims_of(kind.tensorType) if kind.which("type") == "tensorType" else None
        if dims is None or min(dims, default=0) < 0:
            raise UnsupportedError(f"[coreml] state '{name}' must be a tensor of static shape, got {shown_type(kind)}")
        dtype = dtype_of(kind.tensorType.dataType, f"state '{name}'")
        variable = self.graph.variable(np.zeros(dims, dtype.numpy), dtype, name, trainable=False)
        self.parameters[name] = variable
        return State(variable)

    def _input(self, named: Message) -> Value:
        name, kind = named.name, named.type
        if is_state(named):
            return self._state(named)
        if kind.which("type") != "tensorType":
            raise UnsupportedError(f"[coreml] input '{name}' must be a tensor, got {shown_type(kind)}")
        dtype = dtype_of(kind.tensorType.dataType, f"input '{name}'")
        return self.input(name, dtype, dims_of(kind.tensorType))

    # --- operations --------------------------------------------------------------------------------------------------

    def nested(self, block: Message, given: Sequence[Value]) -> list[Value]:
        """Add the operations of a nested block at the current position and return its results."""
        if len(block.inputs) != len(given):
            raise GraphError(f"the block takes {len(block.inputs)} inputs, got {len(given)}")
        self._scopes.append({named.name: value for named, value in zip(block.inputs, given, strict=True)})
        try:
            return self._run_block(block)
        finally:
            self._scopes.pop()

    def _run_block(self, block: Message) -> list[Value]:
        self.translate_all(block.operations, described, self._run)
        return [self._lookup(name) for name in block.outputs]

    def _lookup(self, name: str) -> Value:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        raise GraphError(f"'{name}' is neither an input nor the result of a preceding operation")

    def _run(self, operation: Message) -> None:
        if operation.type == "const":
            name = operation.outputs[0].name
            self._scopes[-1][name] = self._stored.read(operation.entries("attributes")["val"], name)
            return
        given = self._operators.get(operation.type)
        function = mil.get(operation.type) if given is None else _translation(operation.type, given)
        if function is None:
            raise UnsupportedError(f"operation {operation.type} is not supported by mpsgraph")
        operands = {key: list(self._bound(key, a)) for key, a in operation.entries("inputs").items()}
        for key, proto in operation.entries("attributes").items():
            if key != "name":
                operands[key] = [self._stored.read(proto, key)]
        results = [_stated(named) for named in operation.outputs]
        call = Call(self, operation.type, operands, results, list(operation.blocks))
        made = function(call)
        call.require_all_asked()
        found = [made] if isinstance(made, (Tensor, Fixed, TensorList, State)) else list(made)
        if len(found) != len(results):
            raise GraphError(f"the operation must have {len(found)} results, got {len(results)}")
        for named, value, (dtype, dims) in zip(operation.outputs, found, results, strict=True):
            if isinstance(value, Fixed):
                value.name = named.name
            elif isinstance(value, Tensor):
                value = self._as_stated(value, dtype, dims)
            self._scopes[-1][named.name] = value

    def _bound(self, key: str, argument: Message) -> Iterable[Value]:
        for binding in argument.arguments:
            if binding.which("binding") == "value":
                yield self._stored.read(binding.value, key)
            else:
                yield self._lookup(binding.name)

    def _as_stated(self, x: Tensor, dtype: DType | None, dims: tuple[int, ...] | None) -> Tensor:
        """Cast a result to the declared dtype, and raise ShapeError if it does not have the declared shape."""
        if x.shape is not None and dims is not None:
            fits = len(dims) == len(x.shape) and all(
                a == b or min(a, b) < 0 for a, b in zip(dims, x.shape, strict=True)
            )
            if not fits:
                raise ShapeError(f"the result must have the shape {dims} that the program declares, got {x.shape}")
        if dtype is None or x.dtype == dtype:
            return x
        cast = self.graph.cast(x, dtype)
        if x in self._classes_of:
            self._classes_of[cast] = self._classes_of[x]
        return cast


def _translation(name: str, function: Callable[..., Any]) -> Function:
    """Return a translation function that calls a user's function with an operation's parameters."""

    def translate(call: Call) -> Sequence[Value]:
        parameters = {key: _plain(call, key) for key in call.operands}
        found = called(call.importer, name, function, (), parameters, [True] * len(call.results))
        return [value for value in found if value is not None]

    return translate


def _plain(call: Call, key: str) -> Any:
    """Return a parameter as tensors, or as a number, a string, a list, or an array if it is a constant.

    Floating-point constants with several elements are tensors, because they can be weights.
    """
    call.has(key)
    found = []
    for value in call.operands[key]:
        if not isinstance(value, Fixed):
            found.append(call.importer.tensor(value))
            continue
        elements = value.value
        if isinstance(elements, np.ndarray) and elements.size > 1 and value.dtype.is_float:
            found.append(call.importer.weight(value, True))
        elif isinstance(elements, np.ndarray) and elements.ndim == 0 and value.kind != "BFLOAT16":
            found.append(elements.item())
        else:
            found.append(call.importer.tensor(value) if value.kind == "BFLOAT16" else elements)
    return found[0] if len(found) == 1 else found


def is_state(named: Message) -> bool:
    """Return whether an input of a function is a state."""
    return bool(named.type.which("type") == "stateType")


def _stated(named: Message) -> tuple[DType | None, tuple[int, ...] | None]:
    """Return the declared dtype and shape of a result.

    Both are None for strings and values other than tensors. The dtype is also None if mpsgraph lacks this dtype.
    """
    kind = named.type
    if kind.which("type") != "tensorType" or kind.tensorType.dataType in ("STRING", "UNUSED_TYPE"):
        return None, None
    if kind.tensorType.dataType not in _READ:
        return None, dims_of(kind.tensorType)
    return dtype_of(kind.tensorType.dataType, f"'{named.name}'"), dims_of(kind.tensorType)


_READ = ("BOOL", "FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16",
         "UINT32", "UINT64")  # fmt: skip


def described(operation: Message) -> str:
    """Return an operation's type and first result, for error messages."""
    return f"{operation.type} '{operation.outputs[0].name if operation.outputs else ''}'"


def body_of(function: Message) -> Message:
    """Return the block of a function that is specialized for the opset that the function declares."""
    blocks = function.entries("block_specializations")
    if not blocks:
        raise GraphError("[coreml] the function has no body")
    return blocks.get(function.opset) or next(iter(blocks.values()))  # type: ignore[no-any-return]


def missing_operations(block: Message, operators: Operators) -> list[str]:
    """Return the unsupported operations of a block and its nested blocks, each with the name of its first result.

    `operators` translates further operations.
    """
    found: list[str] = []
    todo = [block]
    while todo:
        for operation in todo.pop().operations:
            todo.extend(operation.blocks)
            if operation.type not in ("const", *operators) and operation.type not in mil:
                found.append(described(operation))
    return found
