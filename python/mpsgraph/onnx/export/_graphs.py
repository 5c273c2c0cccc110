"""A walk over what the outputs depend on, in creation order, with every operation that cannot be said gathered."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, helper

from ..._core import Block, Operation, Tensor
from ...interchange.export import Unsaid, array_of
from ._writer import NO_WORD, Writer, type_number, writer_of

_Problem = tuple[Operation, str]


def write_operations(
    w: Writer,
    operations: Sequence[Operation],
    value_of: Callable[[Tensor], np.ndarray],
    problems: list[_Problem],
    prefix: str = "",
) -> None:
    """Nodes for the operations. What cannot be said is added to the problems, and stands for nothing afterwards.

    prefix: of the names of variables.
    """
    w.value_of, w.problems = value_of, problems
    _enter_users(w, operations)
    for operation in operations:
        if all(w.is_named(tensor) for tensor in operation.outputs) and operation.outputs:
            continue
        try:
            names = _written(w, operation, value_of, prefix)
        except Unsaid as why:
            problems.append((operation, str(why)))
            names = [w.fresh("unsaid") for _ in operation.outputs]
        for tensor, name in zip(operation.outputs, names, strict=True):
            w.give(tensor, name)


def _enter_users(w: Writer, operations: Sequence[Operation]) -> None:
    for operation in operations:
        for tensor in dict.fromkeys(operation.inputs):
            w.users.setdefault(tensor, []).append(operation)
        for block in operation.blocks:
            for tensor in block.results:
                w.users.setdefault(tensor, []).append(operation)


def _written(w: Writer, operation: Operation, value_of: Callable[[Tensor], np.ndarray], prefix: str) -> list[str]:
    kind = operation.kind
    if kind == "placeholder":
        raise Unsaid("is no input of the export: name it among the inputs")
    if kind == "variable":
        tensor = operation.outputs[0]
        if any(user.kind == "assign" and user.inputs[1].operation.kind == "random" for user in w.users.get(tensor, [])):
            return [""]  # a runtime keeps the state of its random numbers itself
        return [w.variable(tensor, prefix + tensor.name, value_of(tensor))]
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
        raise Unsaid(NO_WORD.get(kind, "ONNX has no operator for it"))
    for tensor in operation.outputs:
        type_number(tensor.dtype)
    names = writer(w, operation)
    return [names] if isinstance(names, str) else names


def inlined(w: Writer, block: Block, arguments: Sequence[str]) -> list[str]:
    """A block's operations where the writer stands, with names for its arguments: the names of its results."""
    inner = Writer(w.opset, w)
    inner.nodes = w.nodes
    for argument, name in zip(block.arguments, arguments, strict=True):
        inner.give(argument, name)
    assert w.value_of is not None  # given by write_operations, which has called the writer of the block
    write_operations(inner, block.operations, w.value_of, w.problems)
    return [inner.name(tensor) for tensor in block.results]


def branch(w: Writer, block: Block, name: str) -> GraphProto:
    """A block without arguments as a graph that sees the names outside."""
    inner = Writer(w.opset, w)
    outputs = [
        value_info(inner.identity(result), tensor)
        for result, tensor in zip(inlined(inner, block, []), block.results, strict=True)
    ]
    return helper.make_graph(inner.nodes, f"{name}_{w.fresh('branch')}", [], outputs)


def remove_unused(graph: GraphProto, kept: Container[str]) -> None:
    """Takes out nodes and initialisers that no output needs; those of some names stay."""
    wanted = {info.name for info in graph.output}
    nodes = []
    for node in reversed(graph.node):
        if wanted.isdisjoint(node.output):
            continue
        nodes.append(node)
        wanted |= _names_used(node)
    del graph.node[:]
    graph.node.extend(reversed(nodes))
    initializers = [t for t in graph.initializer if t.name in wanted or t.name in kept]
    del graph.initializer[:]
    graph.initializer.extend(initializers)


def _names_used(node: NodeProto) -> set[str]:
    """What a node takes, its branches included."""
    found = set(node.input)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            found |= {info.name for info in attribute.g.output}
            for inner in attribute.g.node:
                found |= _names_used(inner)
    return found


def value_info(name: str, tensor: Tensor, symbols: Sequence[str | None] | None = None) -> Any:
    """Type and shape of an input or a result; unknown sizes have names."""
    if tensor.shape is None:
        return helper.make_tensor_value_info(name, type_number(tensor.dtype), None)
    named = symbols or [f"{name}_{axis}" for axis in range(len(tensor.shape))]
    shape = [symbol if size < 0 else size for size, symbol in zip(tensor.shape, named, strict=True)]
    return helper.make_tensor_value_info(name, type_number(tensor.dtype), shape)
