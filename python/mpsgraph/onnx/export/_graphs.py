"""A walk over what the outputs depend on, in creation order, with every operation that cannot be said gathered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, helper

from ..._core import Block, Operation, Tensor
from ...interchange.leaving import Unsaid, array_of
from ._writer import Writer, type_number, writer_of

_Problem = tuple[Operation, str]


def write_operations(
    w: Writer, operations: Sequence[Operation], value_of: Callable[[Tensor], np.ndarray], problems: list[_Problem]
) -> None:
    """Nodes for the operations. What cannot be said is added to the problems, and stands for nothing afterwards."""
    w.value_of, w.problems = value_of, problems
    for operation in operations:
        if all(w.is_named(tensor) for tensor in operation.outputs) and operation.outputs:
            continue
        try:
            names = _written(w, operation, value_of)
        except Unsaid as why:
            problems.append((operation, str(why)))
            names = [w.fresh("unsaid") for _ in operation.outputs]
        for tensor, name in zip(operation.outputs, names, strict=True):
            w.give(tensor, name)


def _written(w: Writer, operation: Operation, value_of: Callable[[Tensor], np.ndarray]) -> list[str]:
    kind = operation.kind
    if kind == "placeholder":
        raise Unsaid("is no input of the export: name it among the inputs")
    if kind == "variable":
        tensor = operation.outputs[0]
        return [w.initializer(tensor.name, value_of(tensor), tensor.dtype)]
    if kind == "constant":
        tensor, array = operation.outputs[0], array_of(operation)
        type_number(tensor.dtype)
        if not array.shape or array.dtype.kind in "iub" and str(tensor.dtype) != "bfloat16":
            return [w.initializer(operation.name, array, tensor.dtype)]
        return [w.constant_node(array, tensor.dtype, operation.name)]
    if kind == "read":
        return [w.name(operation.inputs[0])]
    writer = writer_of(kind)
    if writer is None:
        raise Unsaid("ONNX has no operator for it")
    for tensor in operation.outputs:
        type_number(tensor.dtype)
    names = writer(w, operation)
    return [names] if isinstance(names, str) else names


def branch(w: Writer, block: Block, name: str) -> GraphProto:
    """A block without arguments as a graph that sees the names outside."""
    inner = Writer(w.opset, w)
    assert w.value_of is not None  # given by write_operations, which has called the writer of the branch
    write_operations(inner, block.operations, w.value_of, w.problems)
    outputs = []
    for tensor in block.results:
        result = inner.add("Identity", inner.name(tensor))
        outputs.append(value_info(result, tensor))
    return helper.make_graph(inner.nodes, f"{name}_{w.fresh('branch')}", [], outputs)


def value_info(name: str, tensor: Tensor, symbols: Sequence[str | None] | None = None) -> Any:
    """Type and shape of an input or a result; unknown sizes have names."""
    if tensor.shape is None:
        return helper.make_tensor_value_info(name, type_number(tensor.dtype), None)
    named = symbols or [f"{name}_{axis}" for axis in range(len(tensor.shape))]
    shape = [symbol if size < 0 else size for size, symbol in zip(tensor.shape, named, strict=True)]
    return helper.make_tensor_value_info(name, type_number(tensor.dtype), shape)
