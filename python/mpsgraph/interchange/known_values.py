"""What is known of a tensor while the graph is built: its elements, or the inputs that will decide them.

Each operation is looked at once: what was found of it is kept, so that a model of thousands of nodes that ask about
their operands is read in a time that grows with their number.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from .. import _core
from .._core import Operation, Tensor
from ..errors import UnsupportedError
from ..graph import Graph
from .data_dependent import DataDependent, ValueOfLoop

Names = frozenset[str]
_NOTHING: Names = frozenset()


class Known:
    """Answers about the tensors of one graph. Args: graph; inputs by name, which may grow before the first question."""

    def __init__(self, graph: Graph, inputs: Mapping[str, Tensor]) -> None:
        self._graph, self._inputs = graph, inputs
        self._elements: dict[Tensor, np.ndarray] = {}
        self._deciding: dict[int, tuple[Names, Names]] = {}  # by operation: inputs by value, inputs by shape
        self._origins = _core.Origins(graph)
        self._sources: dict[int, list[tuple[int, Operation]]] = {}

    def enter(self, tensor: Tensor, elements: np.ndarray) -> None:
        """The elements of a tensor that was made from them."""
        self._elements[tensor] = elements

    def value_of(self, tensor: Tensor) -> np.ndarray:
        """A tensor's elements: followed back through integer arithmetic, or computed by running what leads to it.

        Errors: DataDependent when they depend on inputs; UnsupportedError when they depend on a loop's values.
        """
        if tensor in self._elements:
            return self._elements[tensor]
        if tensor.operation.kind == "constant":
            array: np.ndarray = tensor.operation.attributes["value"].numpy()
        else:
            integers = _core.known_values(tensor)
            if integers is not None and None not in integers:
                array = np.array(integers, np.int64).astype(tensor.dtype.numpy).reshape(tensor.shape or ())
            else:
                values, shapes = self._decided_by(tensor)
                if values or shapes:
                    raise DataDependent(values, shapes)
                array = self._computed(tensor)
        self._elements[tensor] = array
        return array

    def data_dependent_shape(self, tensor: Tensor) -> DataDependent:
        """The exception for a tensor whose shape a node's function has to know."""
        inputs = self._inputs_of_unknown_shape(tensor.operation)
        if inputs:
            return DataDependent(shapes=inputs)
        values = self._inputs_before(tensor.operation)  # all shapes are known that are fed, so values decide
        if not values:
            raise UnsupportedError(f"the shape of '{tensor.name}' {tensor.shape} is not known while the graph is built")
        whole = frozenset(name for name in values if not self._inputs[name].dtype.is_float)
        return DataDependent(values=whole or values)

    def _computed(self, tensor: Tensor) -> np.ndarray:
        """The elements of what depends on no input. What leads there is copied: it may stand in a branch that is still
        being built, from which nothing can be run."""
        scratch, copies = Graph(), dict[Tensor, Tensor]()
        for operation in _ordered(tensor.operation):
            if operation.blocks:
                return np.array(self._graph.run({}, tensor).numpy())
            attributes = dict(operation.attributes)
            if operation.kind == "variable":
                value = self._graph.variable_value(operation.outputs[0])
                made = [scratch.constant(value, dtype=operation.outputs[0].dtype)]
            else:
                made = list(scratch.create(operation.kind, [copies[x] for x in operation.inputs], attributes).outputs)
            copies.update(zip(operation.outputs, made, strict=True))
        return np.array(scratch.run({}, copies[tensor]).numpy())

    def value_for_size(self, tensor: Tensor, source: Tensor, axis: int, size: int) -> np.ndarray | None:
        """What a tensor would be if an axis of `source` had this size; None where that alone does not decide it."""
        if source.shape is None:
            return None
        scratch = Graph()
        shape = [size if a == axis else d for a, d in enumerate(source.shape)]
        copies = {source: scratch.placeholder(shape, source.dtype)}
        for operation in _ordered(tensor.operation, {source.operation.id}):
            if operation.blocks or operation.kind in ("placeholder", "variable", "argument"):
                return None
            if any(x not in copies for x in operation.inputs):  # another result of what gives the source
                return None
            inputs = [copies[x] for x in operation.inputs]
            copy = scratch.create(operation.kind, inputs, dict(operation.attributes))
            copies.update(zip(operation.outputs, copy.outputs, strict=True))
        known = _core.known_values(copies[tensor]) if tensor in copies else None
        return None if known is None or None in known else np.array(known, tensor.dtype.numpy)

    def _decided_by(self, tensor: Tensor) -> tuple[Names, Names]:
        """The inputs whose values, and those whose shapes, decide a tensor's elements."""
        names = {input.operation.id: name for name, input in self._inputs.items()}
        stack = [tensor.operation]
        while stack:
            operation = stack[-1]
            if operation.id in self._deciding:
                stack.pop()
                continue
            if operation.kind == "argument":
                raise ValueOfLoop(f"'{operation.name}' is a value of a loop and not known while the graph is built")
            if operation.kind == "placeholder":
                self._deciding[operation.id] = frozenset([names[operation.id]]), _NOTHING
                continue
            if operation.kind == "shape_of":
                source = operation.inputs[0]
                known = source.shape is not None and min(source.shape, default=0) >= 0
                deciding = _NOTHING if known else self._inputs_of_unknown_shape(source.operation)
                self._deciding[operation.id] = _NOTHING, deciding
                continue
            before = self._sources_of(operation)
            missing = [o for number, o in before if number not in self._deciding]
            if missing:
                stack.extend(missing)
                continue
            parts = [self._deciding[number] for number, _ in before]
            self._deciding[operation.id] = _union([p[0] for p in parts]), _union([p[1] for p in parts])
        return self._deciding[tensor.operation.id]

    def _sources_of(self, operation: Operation) -> list[tuple[int, Operation]]:
        """What an operation reads, its inputs and what its blocks give: ids and operations."""
        number = operation.id
        if number not in self._sources:
            results = [r for block in operation.blocks for r in block.results]
            self._sources[number] = [(o.id, o) for o in (x.operation for x in (*operation.inputs, *results))]
        return self._sources[number]

    def _inputs_of_unknown_shape(self, operation: Operation) -> Names:
        """Those among the inputs that an operation depends on."""
        shapes = {name: self._inputs[name].shape for name in self._inputs_before(operation)}
        return frozenset(name for name, shape in shapes.items() if shape is None or min(shape, default=0) < 0)

    def _inputs_before(self, operation: Operation) -> Names:
        """The inputs that an operation depends on in any way."""
        names = {input.operation.id: name for name, input in self._inputs.items()}
        origins = self._origins.of(operation)
        if any(origin.kind == "argument" for origin in origins):
            return frozenset(names.values())  # what a loop carries may depend on any of them
        return frozenset(names[origin.id] for origin in origins if origin.id in names)


def _union(parts: list[Names]) -> Names:
    """All names; the same object where one part has them all, so that long chains share it."""
    largest = max(parts, key=len, default=_NOTHING)
    return largest if all(part <= largest for part in parts) else largest.union(*parts)


def _ordered(last: Operation, left_out: Collection[int] = ()) -> list[Operation]:
    """All operations that lead to one, sources first. Args: left_out, ids of some that are not asked for theirs."""
    done: dict[int, Operation] = {}
    stack = [] if last.id in left_out else [last]
    while stack:
        operation = stack[-1]
        sources = [x.operation for x in operation.inputs]
        missing = [o for o in sources if o.id not in done and o.id not in left_out]
        stack.extend(missing)
        if not missing:
            done.setdefault(operation.id, stack.pop())
    return list(done.values())
