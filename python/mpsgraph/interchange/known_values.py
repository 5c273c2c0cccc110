"""Evaluation of tensors while a graph is being built: finds their elements, or the inputs that determine the elements.

Results are cached per operation, so importing a model takes time linear in its number of nodes even when thousands of
nodes query their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from .. import _core
from .._core import Operation, Tensor
from ..errors import Error, UnsupportedError
from ..graph import Graph
from .data_dependent import DataDependent, ValueOfLoop

Names = frozenset[str]
_NOTHING: Names = frozenset()


class Known:
    """Evaluates tensors of one graph while the graph is being built.

    `inputs` maps names to placeholders. Entries may be added until the first query.
    """

    def __init__(self, graph: Graph, inputs: Mapping[str, Tensor]) -> None:
        self._graph, self._inputs = graph, inputs
        self._elements: dict[Tensor, np.ndarray] = {}
        # Maps operation ids to the inputs whose values matter and the inputs whose shapes matter.
        self._deciding: dict[int, tuple[Names, Names]] = {}
        self._origins = _core.Origins(graph)
        self._sources: dict[int, list[tuple[int, Operation]]] = {}
        self._matrices: dict[int, bool] = {}

    def enter(self, tensor: Tensor, elements: np.ndarray) -> None:
        """Record the elements of a tensor that was created from a known array."""
        self._elements[tensor] = elements

    def value_of(self, tensor: Tensor) -> np.ndarray:
        """Return the elements of a tensor.

        They are computed by tracing integer arithmetic or by running the operations that the tensor depends on.

        Raises DataDependent if the elements depend on inputs, and ValueOfLoop if they depend on a value carried by a
        loop.
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
        """Return a DataDependent exception with the names of the inputs that determine the shape of a tensor."""
        inputs = self._inputs_of_unknown_shape(tensor.operation)
        if inputs:
            return DataDependent(shapes=inputs)
        # All input shapes are known, so the unknown shape depends on input values.
        values = self._inputs_before(tensor.operation)
        if not values:
            raise UnsupportedError(
                f"building the graph needs the shape of '{tensor.name}', {tensor.shape}, but the shape depends on "
                "values that are computed at run time"
            )
        whole = frozenset(name for name in values if not self._inputs[name].dtype.is_float)
        return DataDependent(values=whole or values)

    def _computed(self, tensor: Tensor) -> np.ndarray:
        """Compute the elements of a tensor that does not depend on inputs.

        The operations are copied to a scratch graph, because the original operations may belong to a branch that is
        still being built and cannot be run yet.
        """
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
        """Evaluate a tensor as it would be if an axis of the tensor `source` had the given size.

        Returns None if the tensor also depends on other unknown values.
        """
        if source.shape is None:
            return None
        scratch = Graph()
        shape = [size if a == axis else d for a, d in enumerate(source.shape)]
        copies = {source: scratch.placeholder(shape, source.dtype)}
        for operation in _ordered(tensor.operation, {source.operation.id}):
            if operation.blocks or operation.kind in ("placeholder", "variable", "argument"):
                return None
            # The operation that produces `source` is not copied, so its other results have no value.
            if any(x not in copies for x in operation.inputs):
                return None
            inputs = [copies[x] for x in operation.inputs]
            copy = scratch.create(operation.kind, inputs, dict(operation.attributes))
            copies.update(zip(operation.outputs, copy.outputs, strict=True))
        known = _core.known_values(copies[tensor]) if tensor in copies else None
        return None if known is None or None in known else np.array(known, tensor.dtype.numpy)

    def shapes_for_sizes(
        self, tensors: Sequence[Tensor], sizes: Mapping[Tensor, Sequence[int]]
    ) -> list[tuple[int, ...] | None]:
        """Return the shapes that tensors would have if the inputs had the given static shapes.

        The operations are copied to a scratch graph, which infers the shapes. A shape is None if it depends on values,
        or if an operation does not accept the sizes. Results of an `if` have a shape if both branches have that shape.
        """
        scratch, copies, done = Graph(), dict[Tensor, Tensor | None](), set[int]()
        scratch.place = ""  # Errors are not reported, so looking up source locations would be wasted time.
        for tensor in tensors:
            for operation in _ordered(tensor.operation, done, self._is_matrix_of_constants):
                done.add(operation.id)
                copies.update(zip(operation.outputs, self._copied(scratch, operation, copies, sizes), strict=True))
        shapes = [None if (copy := copies.get(tensor)) is None else copy.shape for tensor in tensors]
        return [None if shape is None or min(shape, default=0) < 0 else tuple(shape) for shape in shapes]

    def _is_matrix_of_constants(self, operation: Operation) -> bool:
        """Return whether all results are floating-point, of rank 2 or higher, and independent of inputs, like weights.

        Their shapes are known, and no other shape depends on their elements.
        """
        number = operation.id
        if number not in self._matrices:
            shapes = [x.shape if x.dtype.is_float else None for x in operation.outputs]
            fixed = all(shape is not None and len(shape) > 1 and min(shape) >= 0 for shape in shapes)
            self._matrices[number] = fixed and not self._origins.of(operation)
        return self._matrices[number]

    def _copied(
        self,
        scratch: Graph,
        operation: Operation,
        copies: Mapping[Tensor, Tensor | None],
        sizes: Mapping[Tensor, Sequence[int]],
    ) -> Sequence[Tensor | None]:
        """Copy an operation to a scratch graph. Return None for each result if that is not possible."""
        nothing = [None] * len(operation.outputs)
        if operation.kind in ("placeholder", "variable", "read") or self._is_matrix_of_constants(operation):
            return _placeholders(scratch, [sizes.get(x, x.shape) for x in operation.outputs], operation)
        if operation.kind == "if":
            then, otherwise = (self.shapes_for_sizes(list(block.results), sizes) for block in operation.blocks)
            same = [a if a == b else None for a, b in zip(then, otherwise, strict=True)]
            return _placeholders(scratch, same, operation)
        if operation.kind == "for":  # The values that a loop carries keep their shapes.
            initial = [copies.get(x) for x in operation.inputs[len(operation.inputs) - len(operation.outputs) :]]
            return _placeholders(scratch, [None if x is None else x.shape for x in initial], operation)
        inputs = [copies.get(x) for x in operation.inputs]
        known = [x for x in inputs if x is not None]
        if operation.blocks or operation.kind == "argument" or len(known) < len(inputs):
            return nothing
        try:
            return scratch.create(operation.kind, known, dict(operation.attributes)).outputs
        except Error:
            return nothing

    def _decided_by(self, tensor: Tensor) -> tuple[Names, Names]:
        """Return the names of the inputs that determine the elements of a tensor, as two sets.

        The first set holds inputs whose values determine the elements, and the second set inputs whose shapes do.
        """
        names = {input.operation.id: name for name, input in self._inputs.items()}
        stack = [tensor.operation]
        while stack:
            operation = stack[-1]
            if operation.id in self._deciding:
                stack.pop()
                continue
            if operation.kind == "argument":
                raise ValueOfLoop(
                    f"building the graph needs the value of '{operation.name}', but the value changes between loop "
                    "iterations"
                )
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
        """Return the operations that compute an operation's operands and the results of its blocks, as (id,
        operation) pairs.
        """
        number = operation.id
        if number not in self._sources:
            results = [r for block in operation.blocks for r in block.results]
            self._sources[number] = [(o.id, o) for o in (x.operation for x in (*operation.inputs, *results))]
        return self._sources[number]

    def _inputs_of_unknown_shape(self, operation: Operation) -> Names:
        """Return the names of the inputs of unknown shape that an operation depends on."""
        shapes = {name: self._inputs[name].shape for name in self._inputs_before(operation)}
        return frozenset(name for name, shape in shapes.items() if shape is None or min(shape, default=0) < 0)

    def _inputs_before(self, operation: Operation) -> Names:
        """Return the names of all inputs that an operation depends on."""
        names = {input.operation.id: name for name, input in self._inputs.items()}
        origins = self._origins.of(operation)
        if any(origin.kind == "argument" for origin in origins):
            return frozenset(names.values())  # A value carried by a loop may depend on any input.
        return frozenset(names[origin.id] for origin in origins if origin.id in names)


def _union(parts: list[Names]) -> Names:
    """Return the union of several sets of names.

    If one of the sets already contains all names, it is returned itself, so that long chains of operations share
    memory.
    """
    largest = max(parts, key=len, default=_NOTHING)
    return largest if all(part <= largest for part in parts) else largest.union(*parts)


def _placeholders(graph: Graph, shapes: Sequence[Sequence[int] | None], operation: Operation) -> list[Tensor | None]:
    """Return placeholders of the given shapes with the types of an operation's results, or None without a shape."""
    pairs = zip(shapes, operation.outputs, strict=True)
    return [None if shape is None else graph.placeholder(shape, x.dtype) for shape, x in pairs]


def _ordered(
    last: Operation, left_out: Collection[int] = (), is_leaf: Callable[[Operation], bool] | None = None
) -> list[Operation]:
    """Return the operations that the operation `last` depends on, in topological order and ending with `last`.

    Operations whose ids are in `left_out` are omitted, and so are operations that are needed only by omitted ones, or
    only by operations for which `is_leaf` returns True.
    """
    done: dict[int, Operation] = {}
    stack = [] if last.id in left_out else [last]
    while stack:
        operation = stack[-1]
        leaf = is_leaf is not None and is_leaf(operation)
        sources = [] if leaf else [x.operation for x in operation.inputs]
        missing = [o for o in sources if o.id not in done and o.id not in left_out]
        stack.extend(missing)
        if not missing:
            done.setdefault(operation.id, stack.pop())
    return list(done.values())
