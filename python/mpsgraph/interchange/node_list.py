"""Import and export of simple formats, which list named nodes with named operands.

A format needs a reader, which returns the file's contents as a NodeList, a table of translations, and a table of
writers for export:

    layer: Registry = Registry("layer")
    layer.rows({"Sine": "sin"})(lambda node, method: getattr(node.g, method)(node.tensor(0)))
    model = imported(read(path), layer, "mine")

    writes: Registry = Registry("writer of the kind")
    writes.rows({"sin": "Sine"})(lambda w, name, operation: w.add(name, *w.all(operation)))
    contents = exported(model, writes, "mine")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core import DType, Operation, Tensor
from ..errors import GraphError
from ..model import Model
from .data_dependent import DataDependent, Trainable
from .deferred_build import built_or_deferred
from .export import (
    Writer,
    array_of,
    needed,
    refuse_not_expressible,
    values_of,
)
from .importer import Importer, require_known
from .node_view import SizedNode
from .registry import Registry


@dataclass
class ListedNode:
    """A node of a file: the name of its operation, the names of its operands and results, and its attributes."""

    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass
class NodeList:
    """The contents of a file: typed inputs, stored tensors, nodes in topological order, and names of the outputs."""

    inputs: dict[str, tuple[DType, tuple[int, ...] | None]]
    nodes: list[ListedNode]
    outputs: list[str]
    tensors: dict[str, np.ndarray] = field(default_factory=dict)


class NodeInList(SizedNode):
    """A listed node, as passed to its translation function."""

    prefix = None

    def __init__(self, importer: ListImporter, node: ListedNode) -> None:
        super().__init__(importer.graph, node.name)
        self._importer, self._node = importer, node

    def tensor(self, i: int) -> Tensor:
        """Return operand i, or raise GraphError if it is missing."""
        if i >= len(self._node.inputs):
            raise GraphError(f"required operand {i} is missing")
        return self._importer.lookup(self._node.inputs[i])

    def tensors(self) -> list[Tensor]:
        """Return all operands."""
        return [self.tensor(i) for i in range(len(self._node.inputs))]

    def attribute(self, name: str, default: Any = ...) -> Any:
        """Return an attribute or its default, or raise GraphError if it is missing and has no default."""
        self.without_effect(name)
        value = self._node.attributes.get(name, default)
        if value is ...:
            raise GraphError(f"required attribute {name} is missing")
        return value

    def data_dependent_shape(self, x: Tensor) -> DataDependent:
        return self._importer.data_dependent_shape(x)

    def require_all_read(self) -> None:
        """Refuse a node if its translation has not read all attributes."""
        unread = self.unread(self._node.attributes)
        if unread:
            self.refuse(f"attributes {', '.join(sorted(unread))} are not supported")


class ListImporter(Importer):
    """Imports a node list with a table of translations."""

    def __init__(self, contents: NodeList, table: Registry[Any], format: str, *how: Any) -> None:
        super().__init__(*how)
        self.format = format  # type: ignore[misc]
        self._contents, self._table, self._tensors = contents, table, dict[str, Tensor]()

    def run(self) -> None:
        """Add the operations of the nodes to the graph."""
        for name, (dtype, shape) in self._contents.inputs.items():
            self._tensors[name] = self.input(name, dtype, shape)
        self.translate_all(self._contents.nodes, described, self._translate)
        self.outputs.update((name, self.lookup(name)) for name in self._contents.outputs)

    def lookup(self, name: str) -> Tensor:
        """Return the tensor with a name. Stored floating-point tensors become variables if they are trainable."""
        if name not in self._tensors:
            if name not in self._contents.tensors:
                raise GraphError(f"'{name}' is neither an input nor the result of a preceding node")
            array = self._contents.tensors[name]
            if array.dtype.kind == "f" and array.ndim and self._trains(name):
                self._tensors[name] = self.parameters[name] = self.graph.variable(array, name=name)
            else:
                self._tensors[name] = self.graph.constant(array, name=name)
        return self._tensors[name]

    def _translate(self, node: ListedNode) -> None:
        view = NodeInList(self, node)
        made = self._table.get(node.name)(view)  # type: ignore[misc]
        view.require_all_read()
        results = [made] if isinstance(made, Tensor) else list(made)
        if len(results) != len(node.outputs):
            raise GraphError(f"the node must have {len(results)} results, got {len(node.outputs)}")
        self._tensors.update(zip(node.outputs, results, strict=True))


def described(node: ListedNode) -> str:
    """Return a node's operation and its first result, for error messages."""
    return f"{node.name} '{node.outputs[0] if node.outputs else ''}'"


def imported(
    contents: NodeList,
    table: Registry[Any],
    format: str,
    *,
    trainable: Trainable = True,
    values: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Model:
    """Return the model that a node list describes. All unsupported nodes are reported in one error."""
    require_known(format, "node", [described(node) for node in contents.nodes if node.name not in table])
    return built_or_deferred(
        lambda values, shapes: ListImporter(contents, table, format, trainable, values, shapes).built(),
        list(contents.inputs), contents.outputs, values, shapes, lambda data_dependent: None,
    )  # fmt: skip


class ListWriter(Writer[str]):
    """Collects the nodes of an exported graph."""

    def __init__(self) -> None:
        super().__init__()
        self.contents = NodeList({}, [], [])

    def add(self, name: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one result, and return the result's name."""
        result = self.fresh(name)
        self.contents.nodes.append(ListedNode(name, list(inputs), [result], attributes))
        return result

    def stored(self, name: str, value: np.ndarray) -> str:
        """Store a tensor, and return its name."""
        name = self.fresh(name)
        self.contents.tensors[name] = value
        return name


def exported(model: Model, table: Registry[Any], format: str) -> NodeList:
    """Return a model as a node list. All operations that the format cannot express are reported in one error.

    An output has the name of the node that computes it, so the list's outputs are in the order of the model's.
    """
    w = ListWriter()
    for name, tensor in model.inputs.items():
        w.give(tensor, w.fresh(name))
        w.contents.inputs[name] = tensor.dtype, tensor.shape
    operations = needed(model.outputs.values())
    value_of = values_of(model.graph, operations)

    def write(operation: Operation) -> Any:
        if operation.kind == "variable":
            return w.stored(operation.outputs[0].name, value_of(operation.outputs[0]))
        if operation.kind == "constant":
            return w.stored(operation.name, array_of(operation))
        if operation.kind == "read":
            return w[operation.inputs[0]]
        return table.get(operation.kind)(w, operation)  # type: ignore[misc]

    def refusal(operation: Operation) -> str | None:
        known = operation.kind in table or operation.kind in ("variable", "constant", "read")
        return None if known else f"{format} has no such operation"

    refuse_not_expressible(w.write_all(operations, write, refusal), f"{format}.export", format)
    w.contents.outputs = [w[tensor] for tensor in model.outputs.values()]
    return w.contents
