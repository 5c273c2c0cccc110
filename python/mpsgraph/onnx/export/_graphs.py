"""Traversal of the operations that the outputs depend on, in creation order, to write each of them as ONNX.

Operations that ONNX cannot express are collected, so that one error can report all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, helper

from ..._core import Block, Operation, Tensor
from ...interchange.export import NotExpressible, array_of
from ._writer import NO_WORD, Writer, type_number, writes

_Problem = tuple[Operation, str]


def write_operations(
    w: Writer,
    operations: Sequence[Operation],
    value_of: Callable[[Tensor], np.ndarray],
    problems: list[_Problem],
    prefix: str = "",
) -> None:
    """Write ONNX nodes for operations, and add those that ONNX cannot express to `problems`.

    The names of variables are prefixed with `prefix`.
    """
    w.value_of, w.problems = value_of, problems
    _enter_users(w, operations)
    for operation in operations:
        if all(w.has(tensor) for tensor in operation.outputs) and operation.outputs:
            continue
        try:
            names = _written(w, operation, value_of, prefix)
        except NotExpressible as why:
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
        raise NotExpressible("the placeholder is not an input of the export: add it to inputs")
    if kind == "variable":
        tensor = operation.outputs[0]
        if any(user.kind == "assign" and user.inputs[1].operation.kind == "random" for user in w.users.get(tensor, [])):
            # ONNX runtimes manage the state of their random number generator themselves, so the state is not exported.
            return [""]
        return [w.variable(tensor, prefix + tensor.name, value_of(tensor))]
    if kind == "constant":
        tensor, array = operation.outputs[0], array_of(operation)
        type_number(tensor.dtype)
        if not array.shape or array.dtype.kind in "iub" and str(tensor.dtype) != "bfloat16":
            return [w.initializer(operation.name, array, tensor.dtype)]
        return [w.constant_node(array, tensor.dtype, operation.name)]
    if kind == "read":
        return [w.name(operation.inputs[0])]
    writer = writes.get(kind)
    if writer is None:
        raise NotExpressible(NO_WORD.get(kind, "ONNX has no such operator"))
    for tensor in operation.outputs:
        type_number(tensor.dtype)
    names = writer(w, operation)
    return [names] if isinstance(names, str) else names


def inlined(w: Writer, block: Block, arguments: Sequence[str]) -> list[str]:
    """Write the operations of a graph's block at the current position and return the names of the block's results.

    `arguments` are the names in the ONNX graph to use for the arguments of the block.
    """
    inner = Writer(w.opset, w)
    inner.nodes = w.nodes
    for argument, name in zip(block.arguments, arguments, strict=True):
        inner.give(argument, name)
    # `value_of` was set by write_operations, which called the writer of the operation that contains this block.
    assert w.value_of is not None
    write_operations(inner, block.operations, w.value_of, w.problems)
    return [inner.name(tensor) for tensor in block.results]


def branch(w: Writer, block: Block, name: str) -> GraphProto:
    """Write a block without arguments as a subgraph that can refer to names in the enclosing graph."""
    inner = Writer(w.opset, w)
    outputs = [
        value_info(inner.identity(result), tensor)
        for result, tensor in zip(inlined(inner, block, []), block.results, strict=True)
    ]
    return helper.make_graph(inner.nodes, f"{name}_{w.fresh('branch')}", [], outputs)


def remove_unused(graph: GraphProto, kept: Container[str]) -> None:
    """Remove nodes and initializers that no output depends on, except initializers in `kept`."""
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
    """Return the names that a node and its subgraphs read."""
    found = set(node.input)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            found |= {info.name for info in attribute.g.output}
            for inner in attribute.g.node:
                found |= _names_used(inner)
    return found


def value_info(name: str, tensor: Tensor, symbols: Sequence[str | None] | None = None) -> Any:
    """Return the type and shape of an input or output, with names for dynamic dimensions."""
    if tensor.shape is None:
        return helper.make_tensor_value_info(name, type_number(tensor.dtype), None)
    named = symbols or [f"{name}_{axis}" for axis in range(len(tensor.shape))]
    shape = [symbol if size < 0 else size for size, symbol in zip(tensor.shape, named, strict=True)]
    return helper.make_tensor_value_info(name, type_number(tensor.dtype), shape)
