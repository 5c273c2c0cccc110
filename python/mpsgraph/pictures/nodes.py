"""Contents of a picture: operations become nodes with a title and a color, and tensors become edges between nodes.

Scalar constants are written into the nodes of the operations that use them. The blocks of a control flow operation are
part of its node, which shows the number of operations in the blocks. Edges refer to nodes by index.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .._core import Block, Graph, Operation, Tensor
from .._display import shown
from ..errors import GraphError

COLOURS = {"placeholder": "#cfe3f5", "variable": "#fbe3c6", "constant": "#eeeeee", "target": "#d5efd5", "": "#ffffff"}


@dataclass
class Node:
    """Node of a picture: an operation, its lines of text, and the category that determines its color.

    `operands` has a pair (index of the node that produces the operand, type as text) for each operand.
    """

    lines: list[str]
    part: str
    operands: list[tuple[int, str]] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    """Indices of the nodes that must run before this node because of control dependencies."""


def nodes_of(graph: Graph, targets: Iterable[Tensor | Operation] | None, limit: int) -> list[Node]:
    """Return nodes for the operations that targets need, or for all operations if targets is None, in creation order.

    Raises:
        GraphError: If there are more than `limit` operations, or a target belongs to another graph.
    """
    wanted = None if targets is None else _needed(graph, list(targets))
    operations = [o for o in graph.operations if wanted is None or o.id in wanted]
    aims = set() if targets is None else {(t.operation if isinstance(t, Tensor) else t).id for t in targets}
    written = {o.id: _number(o) for o in operations if _is_number(o)}
    kept = [o for o in operations if o.id not in written]
    if len(kept) > limit:
        raise GraphError(
            f"the picture would have {len(kept)} operations, more than limit={limit}; pass targets that need fewer "
            "operations, or a larger limit"
        )
    place = {o.id: i for i, o in enumerate(kept)}
    made = []
    for operation in kept:
        part = operation.kind if operation.kind in COLOURS else "target" if operation.id in aims else ""
        node = Node(_lines(operation, written), part)
        for tensor in _operands(operation):
            if tensor.operation.id in place:
                node.operands.append((place[tensor.operation.id], type_of(tensor)))
        node.before = [place[o.id] for o in operation.control_dependencies if o.id in place]
        made.append(node)
    return made


def type_of(tensor: Tensor) -> str:
    """Return a type such as "float32[2,-1]"."""
    sizes = "*" if tensor.shape is None else ",".join(map(str, tensor.shape))
    return f"{tensor.dtype}[{sizes}]"


def _operands(operation: Operation) -> list[Tensor]:
    """Return an operation's operands, followed by the tensors that its blocks use from outside, without duplicates."""
    found = list(operation.inputs)
    within: set[int] = set()
    for block in operation.blocks:
        _visit(block, found, within)
    return [t for t in dict.fromkeys(found) if t.operation.id not in within] if operation.blocks else found


def _visit(block: Block, found: list[Tensor], within: set[int]) -> None:
    within |= {t.operation.id for t in block.arguments}
    for operation in block.operations:
        within.add(operation.id)
        found += operation.inputs
        for inner in operation.blocks:
            _visit(inner, found, within)
    found += block.results


def _needed(graph: Graph, targets: list[Any]) -> set[int]:
    waiting = []
    for target in targets:
        operation = target.operation if isinstance(target, Tensor) else target
        if not isinstance(operation, Operation) or operation.graph is not graph:
            raise GraphError(f"targets must be tensors or operations of this graph, got {shown(target)}")
        waiting.append(operation)
    needed: set[int] = set()
    while waiting:
        operation = waiting.pop()
        if operation.id not in needed:
            needed.add(operation.id)
            waiting += [t.operation for t in _operands(operation)] + list(operation.control_dependencies)
    return needed


def _is_number(operation: Operation) -> bool:
    if operation.kind != "constant":
        return False
    shape = operation.outputs[0].shape
    return shape == () and not operation.outputs[0].dtype.is_complex


def _number(operation: Operation) -> str:
    value = operation.attributes["value"]
    return f"{float(value.numpy().reshape(-1)[0]):g}" if hasattr(value, "numpy") else shown(value)


def _lines(operation: Operation, written: dict[int, str]) -> list[str]:
    """Return the text lines of an operation's node.

    The lines are the name, the kind if the name does not contain it, scalar operands, and result types.
    """
    lines = [operation.name]
    if not operation.name.startswith(operation.kind):
        lines.append(operation.kind)
    for i, tensor in enumerate(operation.inputs):
        if tensor.operation.id in written:
            lines.append(f"operand {i}: {written[tensor.operation.id]}")
    for block in operation.blocks:
        lines.append(f"block of {len(block.operations)} operations")
    lines += [type_of(t) for t in operation.outputs[:3]] + (["…"] if len(operation.outputs) > 3 else [])
    return lines
