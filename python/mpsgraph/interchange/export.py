"""Utilities shared by the exporters.

They find the operations that the outputs depend on, read constant operands and attributes, report all operations that
cannot be exported in one error, convert graphs and modules to models, and write files atomically.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

import numpy as np

from .._core import Operation, Tensor
from .._display import shown
from .._dtypes import as_dtype
from ..errors import GraphError, UnsupportedError
from ..graph import Graph
from ..model import Model, model_of
from ..nn.module import Module, mode_of, unbuilt_copy
from ..nn.parts import is_built
from ..nngraph import NNGraph
from ..nngraph.graph import core_of

Value = TypeVar("Value")


class NotExpressible(Exception):
    """Raised for an operation that a format cannot express. Exporters collect these exceptions into one
    UnsupportedError.
    """


class Writer(Generic[Value]):
    """Base of the graphs that exporters write: what stands for each tensor in the target format, and unused names."""

    def __init__(self) -> None:
        self._values: dict[Tensor, Value] = {}
        self._used: set[str] = set()

    def give(self, tensor: Tensor, value: Value) -> None:
        """Record what stands for a tensor in the target format."""
        self._values[tensor] = value

    def has(self, tensor: Tensor) -> bool:
        """Return whether a tensor has been written."""
        return tensor in self._values

    def __getitem__(self, tensor: Tensor) -> Value:
        return self._values[tensor]

    def all(self, operation: Operation) -> list[Value]:
        """Return what stands for the operands of an operation."""
        return [self._values[tensor] for tensor in operation.inputs]

    def fresh(self, hint: str) -> str:
        """Return an unused name: the hint, with a number appended if necessary."""
        name, number = hint, 0
        while name in self._used:
            number += 1
            name = f"{hint}_{number}"
        self._used.add(name)
        return name

    def write_all(
        self,
        operations: Iterable[Operation],
        write: Callable[[Operation], Value | Sequence[Value]],
        refusal: Callable[[Operation], str | None],
    ) -> list[tuple[Operation, str]]:
        """Write operations in order, and return those that the format cannot express, with the reasons.

        `refusal` returns why an operation can never be written, or None. Operations whose operands were not written are
        reported only if they have such a reason.
        """
        problems: list[tuple[Operation, str]] = []
        for operation in operations:
            if operation.outputs and all(self.has(tensor) for tensor in operation.outputs):
                continue
            why = refusal(operation)
            if why is not None:
                problems.append((operation, why))
            if why is not None or not all(self.has(tensor) for tensor in operation.inputs):
                continue
            try:
                made = write(operation)
            except NotExpressible as error:
                problems.append((operation, str(error)))
                continue
            values = list(made) if isinstance(made, (list, tuple)) else [made]
            for tensor, value in zip(operation.outputs, values, strict=True):
                self.give(tensor, value)  # type: ignore[arg-type]
        return problems


def needed(outputs: Iterable[Tensor], updates: Iterable[Operation] = ()) -> list[Operation]:
    """Return the operations that the outputs and updates depend on, in the order of their creation.

    Dependencies through nested blocks and control dependencies are included. `updates` are operations to keep
    even though no output depends on them.
    """
    seen: dict[int, Operation] = {}
    todo = [*(tensor.operation for tensor in outputs), *updates]
    while todo:
        operation = todo.pop()
        if operation.id in seen:
            continue
        seen[operation.id] = operation
        todo += [tensor.operation for tensor in operation.inputs]
        todo += operation.control_dependencies
        for block in operation.blocks:
            todo += block.operations
            todo += [tensor.operation for tensor in block.results]
    inside = {o.id for operation in seen.values() for block in operation.blocks for o in block.operations}
    return [seen[number] for number in sorted(seen) if number not in inside]


def values_of(graph: Graph, operations: Iterable[Operation]) -> Callable[[Tensor], np.ndarray]:
    """Return a function that returns the value of a variable of a graph.

    The first call reads all variables among the operations at once, which is one program on Metal instead of one for
    each variable.
    """
    variables = [operation.outputs[0] for operation in operations if operation.kind == "variable"]
    values: dict[Tensor, np.ndarray] = {}

    def value_of(variable: Tensor) -> np.ndarray:
        if not values:
            values.update(zip(variables, graph.variable_values(variables), strict=True))
        # Variables that are used only in nested blocks are not among the operations.
        return values[variable] if variable in values else graph.variable_value(variable)

    return value_of


def assigned_variables(operations: Sequence[Operation]) -> list[Tensor]:
    """Return the variables that the operations assign, except in nested blocks and except states of random-number
    generators.
    """
    assigns = [op for op in operations if op.kind == "assign" and op.inputs[1].operation.kind != "random"]
    return list(dict.fromkeys(op.inputs[0] for op in assigns))


def array_of(operation: Operation) -> np.ndarray:
    """Return the elements of a constant. Elements of type bfloat16 are returned as uint16 bit patterns."""
    return np.asarray(operation.attributes["value"].numpy())


def required_shape(tensor: Tensor) -> tuple[int, ...]:
    """Return the shape of a tensor, with -1 for dynamic dimensions.

    Raises NotExpressible if the rank is unknown.
    """
    if tensor.shape is None:
        raise NotExpressible(f"the rank of '{tensor.name}' is unknown, but the exported file needs it")
    return tuple(tensor.shape)


def known_array(tensor: Tensor) -> np.ndarray | None:
    """Return the elements of a tensor that is a constant, or None for any other tensor."""
    return array_of(tensor.operation) if tensor.operation.kind == "constant" else None


def attribute(operation: Operation, key: str, place: int = 1) -> Any:
    """Return an argument that is either an attribute of the operation or its operand at index `place`.

    Raises NotExpressible if it is an operand whose value is not constant.
    """
    if len(operation.inputs) <= place:
        return operation.attributes[key]
    known = known_array(operation.inputs[place])
    if known is None:
        raise NotExpressible(f"argument '{key}' must be a constant in the exported file, but is computed at run time")
    return known.reshape(-1).tolist() if known.ndim else known.item()


def axis_of(operation: Operation, key: str = "axis", place: int = 1) -> int:
    """Return the operation's axis attribute, normalized to be non-negative."""
    axis = attribute(operation, key, place)
    axis = int(axis[0] if isinstance(axis, list) else axis)
    rank = len(required_shape(operation.inputs[0]))
    return axis + rank if axis < 0 else axis


def kind_of(operation: Operation) -> str:
    """Return the kind of an operation, including the registered name of a custom operation."""
    return f"custom {operation.attributes['operation']}" if operation.kind == "custom" else operation.kind


def refuse_not_expressible(problems: Sequence[tuple[Operation, str]], what: str, language: str) -> None:
    """Raise one UnsupportedError that lists every operation that cannot be exported, or return if there are none."""
    if not problems:
        return
    lines = []
    for operation, why in problems:
        where = f", built at {operation.location}" if operation.location else ""
        lines.append(f"  {kind_of(operation)} '{operation.name}'{where}: {why}")
    raise UnsupportedError(
        f"[{what}] {len(problems)} operation{'s' * (len(problems) > 1)} cannot be expressed in {language}:\n"
        + "\n".join(lines)
        + "\nExport outputs that do not depend on these operations, or save the model as a package with mpsgraph.save"
    )


def whole_file(path: str, contents: bytes, what: str) -> None:
    """Write a file atomically. If writing fails, a previous file remains untouched.

    `what` is the name of the exporter for error messages, such as "onnx.export". Raises GraphError if the file cannot
    be written.
    """
    beside = f"{path}.{os.getpid()}.part"
    try:
        with open(beside, "wb") as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except (OSError, ValueError) as error:  # A path with a null character raises ValueError.
        raise GraphError(f"[{what}] {path!r} cannot be written: {error}; choose a writable path") from error
    finally:
        with suppress(OSError, ValueError):
            os.remove(beside)


def as_model(
    model: Graph | Model | Module | NNGraph,
    inputs: Mapping[str, Any] | None,
    outputs: Mapping[str, Tensor] | None,
    what: str,
    of_module: Callable[[Module], Model] | None = None,
) -> Model:
    """Convert the object that a user exports (a graph, model, module, or NNGraph) to a Model.

    `what` is the name of the exporter for error messages, such as "onnx.export". `of_module` converts a module; by
    default its result in inference mode is computed for the given inputs.
    """
    if isinstance(model, NNGraph):
        if outputs is not None:
            raise GraphError(
                f"[{what}] outputs must be None for an NNGraph, whose result images are the outputs: omit the argument"
            )
        return nodes_as_model(model, inputs, what)
    if isinstance(model, Module):
        if outputs is not None:
            raise GraphError(
                f"[{what}] outputs must be None for a Module, whose results are the outputs: omit the argument"
            )
        return of_module(model) if of_module else _module_as_model(model, inputs, what)
    if isinstance(model, Model):
        return Model(
            model.graph,
            model.inputs if inputs is None else inputs,
            model.outputs if outputs is None else outputs,
            model.parameters,
        )
    if outputs is None:
        raise GraphError(f'[{what}] exporting a Graph needs outputs={{"name": tensor}}, or pass a Model instead')
    given = {p.name: p for p in model.placeholders} if inputs is None else inputs
    if inputs is None:
        used = {tensor for operation in needed(outputs.values()) for tensor in operation.outputs}
        given = {name: tensor for name, tensor in given.items() if tensor in used}
    return Model(model, given, outputs)


def nodes_as_model(nodes: NNGraph, inputs: Mapping[str, Any] | None, what: str) -> Model:
    """Return an NNGraph, a graph of the legacy MPSNNGraph API, as a Model for inputs of the given shapes.

    The NNGraph must be an inference graph. Its parameters become constants.
    """
    if not inputs:
        raise GraphError(f'[{what}] exporting an NNGraph needs inputs={{"images": (-1, height, width, channels)}}')
    graph = Graph()
    told = {name: _placeholder(graph, name, like, what) for name, like in inputs.items()}
    model = model_of(core_of(nodes).model([(tensor.dtype, tensor.shape) for tensor in told.values()]), 0)
    return Model(model.graph, dict(zip(told, model.inputs.values(), strict=True)), model.outputs)


def _module_as_model(module: Module, inputs: Mapping[str, Any] | None, what: str) -> Model:
    """Rebuild a module in inference mode in a new graph, with the same parameters and the given inputs."""
    if not inputs:
        raise GraphError(f'[{what}] exporting a Module needs inputs={{"x": shape}}; use -1 for dynamic dimensions')
    graph, copy = Graph(), unbuilt_copy(module)
    placeholders = {name: _placeholder(graph, name, like, what) for name, like in inputs.items()}
    if is_built(module):
        copy.load_state_dict(module.state_dict())
    with mode_of(copy, False):
        result = copy(*placeholders.values())
    if isinstance(result, Tensor):
        return Model(graph, placeholders, {"output": result})
    if isinstance(result, Mapping):
        return Model(graph, placeholders, dict(result))
    return Model(graph, placeholders, {f"output_{i}": tensor for i, tensor in enumerate(result)})


def _placeholder(graph: Graph, name: str, like: Any, what: str) -> Tensor:
    if isinstance(like, Tensor):
        return graph.placeholder(like.shape, like.dtype, name)
    if not isinstance(like, Sequence) or isinstance(like, str):
        raise GraphError(
            f"[{what}] input '{name}' must be a shape, a (shape, dtype) pair, or a tensor, got {shown(like)}"
        )
    if len(like) == 2 and isinstance(like[0], Sequence):
        return graph.placeholder(tuple(like[0]), as_dtype(like[1]), name)
    return graph.placeholder(tuple(like), "float32", name)
