"""The importer, which translates the nodes of a model in order and adds operations to one graph.

Names are resolved in nested scopes: the main graph, then subgraphs inside it. A function has an isolated scope. A name
refers to a tensor, a sequence of tensors, or an initializer that becomes a variable or a constant on first use. All
operators are looked up before the graph is built, so that one error can list all unsupported operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from ..._core import Tensor
from ...errors import Error, GraphError, ShapeError, UnsupportedError
from ...interchange.data_dependent import DataDependent, Trainable
from ...interchange.importer import InNode
from ..reading.files import Tensors
from ..reading.importer import FileImporter, Initialiser
from ..reading.weights import weights_in_constants
from .functions import Functions
from .node import Node, TensorSequence, lowered

# The argument is the index of the assumption, counted in node order.
Assumptions: TypeAlias = "Callable[[int], bool | None]"

# Field names by attribute type. Looking up the enum members in the onnx package on each access is slow.
_SINGLE = {AttributeProto.FLOAT: "f", AttributeProto.INT: "i", AttributeProto.GRAPH: "g"}
_LISTS = {AttributeProto.FLOATS: "floats", AttributeProto.INTS: "ints", AttributeProto.GRAPHS: "graphs"}
# Sizes with different sums and products, which replace dynamic dimensions when shapes are compared.
_SIZES = (11, 17, 29, 41, 53, 67, 79, 97, 109, 127, 139, 157, 173, 191, 199, 223, 233, 251, 269, 281)
_TENSOR, _STRING, _STRINGS = AttributeProto.TENSOR, AttributeProto.STRING, AttributeProto.STRINGS


Value: TypeAlias = Tensor | Initialiser | TensorSequence
Scope: TypeAlias = dict[str, Value]


class NodeImporter(FileImporter):
    """Imports the nodes of an ONNX model, which are in topological order."""

    def __init__(
        self,
        model: ModelProto,
        tensors: Tensors,
        functions: Functions,
        trainable: Trainable = True,
        values: Mapping[str, np.ndarray] | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        assumptions: Assumptions = lambda number: None,
    ) -> None:
        super().__init__(model, tensors, trainable, values, shapes)
        self._functions = functions
        self._scopes: list[Scope] = []  # The innermost scope is last. A function's scope hides all outer scopes.
        self._first_visible = [0]
        self._references: list[dict[str, Any]] = [{}]  # Attributes of the functions being expanded, innermost last.
        self._opsets: list[Mapping[str, int]] = [functions.opsets]
        self._weights: frozenset[str] = frozenset()
        self._assumptions = assumptions
        self.assumed = 0  # Number of axes assumed to have size 1.
        self.necessary: set[int] = set()  # Assumptions without which a later node of the same list is invalid.
        self._lists: list[tuple[Sequence[NodeProto], int]] = []  # Each nested list of nodes, and the current index.
        self._tries = False

    def run(self) -> None:
        """Add the operations of the model to the graph."""
        graph = self._model.graph
        scope: Scope = {**self.read_contents()}
        self._scopes.append(scope)
        # Files exported by mpsgraph store weights as initializers.
        self._weights = frozenset() if self._ours else weights_in_constants(graph)
        for info in graph.input:
            if info.name not in scope:
                scope[info.name] = self.input_of(info)
        self._lower_nodes(graph.node[:])
        for info in graph.output:
            self.outputs[info.name] = self.tensor(info.name)
        self._assign_states()

    def _assign_states(self) -> None:
        """Make every run that computes an output also assign new values to the state variables."""
        if not self._states:
            return
        g = self.graph
        updates = [g.assign(self.tensor(name), self.outputs.pop(after)) for name, after in self._states.items()]
        results = g.control_dependency(updates, lambda: [g.identity(tensor) for tensor in self.outputs.values()])
        self.outputs = dict(zip(self.outputs, results, strict=True))

    # --- names -----------------------------------------------------------------------------------------------------

    def lookup(self, name: str) -> Value:
        """Return what a name refers to in the current scope: a tensor, a sequence, or an initializer not yet used as
        a tensor.
        """
        for i in range(len(self._scopes) - 1, self._first_visible[-1] - 1, -1):
            if name in self._scopes[i]:
                return self._scopes[i][name]
        raise GraphError(f"'{name}' is neither an input nor the result of a preceding node")

    def tensor(self, name: str, trainable: bool = True) -> Tensor:
        """Return the tensor that a name in the model refers to. An initializer is turned into a variable or a
        constant first.
        """
        value = self._single(name)
        return value if isinstance(value, Tensor) else self.tensor_of(value, trainable)

    def _single(self, name: str) -> Tensor | Initialiser:
        value = self.lookup(name)
        if isinstance(value, TensorSequence):
            raise UnsupportedError(f"'{name}' must be a tensor here, got a sequence of tensors")
        return value

    # --- evaluation while the graph is being built -------------------------------------------------------------------

    def value(self, name: str) -> np.ndarray:
        """Return the elements of the tensor with a name, or raise DataDependent if they depend on inputs."""
        value = self._single(name)
        return value.elements[0] if isinstance(value, Initialiser) else self.value_of(value)

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of the tensor that a name in the model refers to, or None if it is unknown."""
        value = self._single(name)
        return value.shape if isinstance(value, Tensor) else tuple(value.proto.dims[:])

    def element_type(self, name: str) -> int | None:
        """Return the ONNX element type of an initializer or a Constant node's tensor, or None for other tensors."""
        value = self.lookup(name)
        return value.proto.data_type if isinstance(value, Initialiser) else None

    def branches_differ(self, results: Sequence[Tensor]) -> bool:
        """Return whether the two branches of an `if` operation return different shapes for some sizes of the inputs.

        The shapes are compared for small and for large sizes. Every named dimension has a different size.
        """
        then, otherwise = (list(block.results) for block in results[0].operation.blocks)
        # The type of `results` has the known sizes of either branch.
        if all(y.shape is not None and min(y.shape, default=0) >= 0 for y in [*then, *otherwise]):
            return False
        sizes: dict[Tensor, list[int]] = {}
        of_name: dict[str, int] = {}
        for info in self._model.graph.input:
            x = self.inputs.get(info.name)
            if x is None or x.shape is None:
                continue
            dims = info.type.tensor_type.shape.dim[:]
            sizes[x] = list(x.shape)
            for axis, size in enumerate(x.shape):
                if size < 0:
                    name = (dims[axis].dim_param if axis < len(dims) else "") or f"{info.name}.{axis}"
                    sizes[x][axis] = of_name.setdefault(name, _SIZES[len(of_name) % len(_SIZES)])
        dynamic = {x: [axis for axis, size in enumerate(x.shape or ()) if size < 0] for x in sizes}
        for factor in (1, 1000):
            scaled = {x: [n * factor if a in dynamic[x] else n for a, n in enumerate(sizes[x])] for x in sizes}
            shapes = self._known.shapes_for_sizes([*then, *otherwise], scaled)
            pairs = zip(shapes[: len(then)], shapes[len(then) :], strict=True)
            if any(a is not None and b is not None and a != b for a, b in pairs):
                return True
        return False

    def assume_one(self) -> bool | None:
        """Return whether to assume that an axis has size 1, for a node that removes the axis only in that case.

        True assumes size 1, False assumes a different size, and None leaves the decision to run time. If an axis that
        was assumed to have size 1 has a different size in a run, squeezing the axis raises an error that names the
        node.
        """
        number, self.assumed = self.assumed, self.assumed + 1
        choice = self._assumptions(number)
        if choice and not self._tries and self._fails_without(number):
            self.necessary.add(number)
        return choice

    def _fails_without(self, number: int) -> bool:
        """Return whether the nodes from the current one to the end of its list are invalid without an assumption.

        They are translated a second time, in a block that is then discarded. This takes much less time than importing
        the whole model again.
        """
        scope, place, counted, assumptions = self._scopes[-1], self.graph.place, self._counted, self._assumptions
        nodes, current = self._lists[-1]
        block = self.graph.begin_block()
        self._scopes[-1] = dict(scope)
        self._assumptions, self.assumed, self._tries = (lambda n: assumptions(n) and n != number), number, True
        try:
            with self.block():
                self._lower_nodes(nodes[current:])
        except (Error, InNode, DataDependent) as failure:
            return is_nonsense(failure)
        finally:
            self.graph.abandon_block(block)
            self._scopes[-1], self.graph.place, self._counted = scope, place, counted
            self._assumptions, self.assumed, self._tries = assumptions, number + 1, False
        return False

    # --- nodes -----------------------------------------------------------------------------------------------------

    def _lower_nodes(self, nodes: Sequence[NodeProto]) -> None:
        self._lists.append((nodes, 0))
        try:
            self.translate_all(self._each(nodes), _described, self._lower_node)
        finally:
            self._lists.pop()

    def _each(self, nodes: Sequence[NodeProto]) -> Iterator[NodeProto]:
        for i, node in enumerate(nodes):
            self._lists[-1] = nodes, i
            yield node

    def _lower_node(self, proto: NodeProto) -> None:
        op, outputs = proto.op_type, proto.output[:]
        self._name_results(op, outputs, self._lower(proto, op, outputs))

    def _lower(self, proto: NodeProto, op: str, outputs: list[str]) -> Sequence[Value | None]:
        found = self._functions.find(proto.domain, op, proto.overload, self._opsets[-1])
        attributes = self._attributes(proto)
        if found.lower is None:
            assert found.body is not None
            return self._expand(found.body, proto, attributes)
        if op == "Constant" and len(attributes) == 1 and isinstance(attributes.get("value"), Initialiser):
            # Translate Constant without looking it up, because most nodes of a file can be Constants.
            return [attributes["value"]]
        node = Node(self, op, found.version, proto.input[:], outputs, attributes)
        results = lowered(found.lower, node, found.attributes)
        return [results] if isinstance(results, (Tensor, Initialiser, TensorSequence)) else results

    def _name_results(self, op: str, names: list[str], results: Sequence[Value | None]) -> None:
        scope = self._scopes[-1]
        for i, name in enumerate(names):
            if not name:
                continue
            result = results[i] if i < len(results) else None
            if result is None:
                raise UnsupportedError(
                    f"result {i}, '{name}', of {op} is not supported: export the model without this result"
                )
            if name in scope:
                raise GraphError(f"result names must be unique, got '{name}' twice")
            if op == "Constant" and isinstance(result, Initialiser):
                result.name = name
                result.fixed = name not in self._weights or len(self._scopes) > 1
            scope[name] = result

    def _attributes(self, proto: NodeProto) -> dict[str, Any]:
        result = {}
        # Copy the attributes to a list, because iterating past the end of a protobuf container raises protobuf's own
        # error.
        for attribute in proto.attribute[:]:
            referred = attribute.ref_attr_name
            if not referred:
                result[attribute.name] = self._attribute(attribute)
            elif referred in self._references[-1]:
                result[attribute.name] = self._references[-1][referred]
        return result

    def _attribute(self, attribute: AttributeProto) -> Any:
        number = attribute.type
        if number in _LISTS:
            return getattr(attribute, _LISTS[number])[:]
        if number in _SINGLE:
            return getattr(attribute, _SINGLE[number])
        if number == _TENSOR:
            return Initialiser(attribute.t, self._tensors.read, fixed=True)
        if number == _STRING:
            return attribute.s.decode("utf-8", "replace")
        if number == _STRINGS:
            return [s.decode("utf-8", "replace") for s in attribute.strings]
        kind = AttributeProto.AttributeType.Name(number).lower()
        raise UnsupportedError(f"attribute {attribute.name} has unsupported type {kind}")

    # --- functions and subgraphs -------------------------------------------------------------------------------------

    def _expand(self, body: FunctionProto, call: NodeProto, attributes: dict[str, Any]) -> list[Value | None]:
        """Expand a function's nodes in an isolated scope and return its results."""
        for attribute in body.attribute_proto:
            attributes.setdefault(attribute.name, self._attribute(attribute))
        if len(self._opsets) > 64:
            raise GraphError("functions are nested more than 64 levels deep")
        scope: Scope = {
            formal: self.lookup(actual) for formal, actual in zip(body.input, call.input, strict=False) if actual
        }
        with self._scope(scope, isolated=True):
            self._references.append(attributes)
            self._opsets.append(self._functions.opsets_of(body))
            try:
                self._lower_nodes(body.node)
            finally:
                self._references.pop()
                self._opsets.pop()
            return [scope.get(name) for name in body.output]

    def subgraph(self, graph: GraphProto, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Add the nodes of a subgraph to the current block and return its results."""
        if len(inputs) != len(graph.input):
            raise GraphError(f"the subgraph takes {len(graph.input)} inputs, got {len(inputs)}")
        scope: Scope = {info.name: x for info, x in zip(graph.input, inputs, strict=True)}
        with self._scope(scope):
            scope.update(self.initialisers(graph, scope))
            self._lower_nodes(graph.node[:])
            return [self.tensor(info.name) for info in graph.output]

    @contextmanager
    def _scope(self, scope: Scope, isolated: bool = False) -> Any:
        self._first_visible.append(len(self._scopes) if isolated else self._first_visible[-1])
        self._scopes.append(scope)
        try:
            yield
        finally:
            self._scopes.pop()
            self._first_visible.pop()


def is_nonsense(failure: BaseException | None) -> bool:
    """Return whether a failure is a ShapeError, or a DataDependent exception caused by one."""
    while failure is not None:
        if isinstance(failure, ShapeError) or (isinstance(failure, InNode) and isinstance(failure.error, ShapeError)):
            return True
        failure = failure.__context__ if isinstance(failure, DataDependent) else None
    return False


def _described(node: NodeProto) -> str:
    """Describe a node for messages by its operator and its name, or its first result if it has no name."""
    return f"{node.op_type} '{node.name or next((output for output in node.output if output), '')}'"
