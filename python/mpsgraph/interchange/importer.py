"""The base of the importers, which add the operations of one model to a new graph, node by node.

A format's importer reads the nodes in order, translates each with the function that the format's registry holds for it,
and names the results. The base stores what every format needs for that: the graph with its inputs, outputs, parameters,
and class labels, the constants of each nested block, and the values that are known while the graph is being built.
Errors name the node that raised them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

import numpy as np

from .._core import DType, Tensor
from ..errors import Error, GraphError, UnsupportedError
from ..graph import Graph
from .custom_operators import errors_of_users
from .data_dependent import DataDependent, Trainable, chooser
from .known_values import Known

MOST_NODES = 300_000  # Maximum number of nodes to translate, including those of functions, loops, and branches.
MALFORMED = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""Exceptions that malformed contents of a file can cause in Python code."""
Self = TypeVar("Self", bound="Importer")
Node = TypeVar("Node")


class InNode(Exception):
    """Wraps an error whose message already names the node, so that outer nodes do not add their names."""

    def __init__(self, error: Error) -> None:
        self.error = error


def malformed(format: str, place: str, error: BaseException) -> GraphError:
    """Return the GraphError that reports an exception caused by malformed contents."""
    return GraphError(f"[{format}] {place} is malformed: {type(error).__name__}: {error}")


@contextmanager
def reporting_malformed(format: str, place: str) -> Iterator[None]:
    """Convert exceptions caused by malformed contents to GraphError; mpsgraph's own errors pass through."""
    try:
        yield
    except Error:
        raise
    except MALFORMED as error:
        raise malformed(format, place, error) from error


def require_known(format: str, what: str, missing: Sequence[str]) -> None:
    """Raise an UnsupportedError that lists the nodes without a translation, or return if there are none.

    `what` is the format's word for a node, such as "layer".
    """
    if missing:
        raise UnsupportedError(
            f"[{format}] the model has {len(missing)} {what}{'s' * (len(missing) > 1)} that mpsgraph does not support: "
            + ", ".join(missing)
            + "; supply them with load(..., operators={name: function})"
        )


def refuse_too_large(format: str, nodes: int) -> None:
    """Raise GraphError if a model expands to more than MOST_NODES nodes."""
    if nodes > MOST_NODES:
        raise GraphError(
            f"[{format}] the model must expand to at most {MOST_NODES} nodes, including functions and loops, but has "
            "more"
        )


class Importer:
    """Imports a model once, optionally with fixed values or shapes for some inputs.

    Args:
        trainable: Which weights become variables, as in `load`.
        values: Arrays keyed by input name. These inputs become constants.
        shapes: Shapes keyed by input name, which replace the shapes in the file.
    """

    format: ClassVar[str]
    """The name of the format in errors."""

    def __init__(
        self,
        trainable: Trainable = True,
        values: Mapping[str, np.ndarray] | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self.graph = Graph()
        self.inputs: dict[str, Tensor] = {}
        self.outputs: dict[str, Tensor] = {}
        self.parameters: dict[str, Tensor] = {}
        # Maps output names to the labels of a classifier's columns or class indices.
        self.classes: dict[str, list[Any]] = {}
        self._classes_of: dict[Tensor, list[Any]] = {}
        self._trains = chooser(trainable)
        self._values, self._shapes = dict(values or {}), dict(shapes or {})
        # Constants created from stored tensors and shapes, one dictionary per nested block.
        self._constants: list[dict[Hashable, Tensor]] = [{}]
        self._known = Known(self.graph, self.inputs)
        self._counted = 0

    def run(self) -> None:
        """Add the operations of the model to the graph."""
        raise NotImplementedError

    def built(self: Self) -> Self:
        """Run the import, and return the importer.

        Raises DataDependent if the structure of the graph depends on input values. Errors raised by individual nodes
        are passed on.
        """
        try:
            with errors_of_users(), reporting_malformed(self.format, "the model"):
                self.run()
        except InNode as inside:
            raise inside.error from inside.__cause__
        finally:
            self.graph.place = None
        for name, y in self.outputs.items():
            while y not in self._classes_of and y.operation.kind == "identity":
                y = y.operation.inputs[0]
            if y in self._classes_of:
                self.classes[name] = self._classes_of[y]
        return self

    # --- nodes -----------------------------------------------------------------------------------------------------

    def input(self, name: str, dtype: DType, shape: Sequence[int] | None) -> Tensor:
        """Return the placeholder for an input, or a constant if its value is known."""
        if name in self._values:
            return self.graph.constant(self._values[name], dtype=dtype)
        self.inputs[name] = self.graph.placeholder(self._shapes.get(name, shape), dtype, name)
        return self.inputs[name]

    def count_node(self) -> None:
        """Count a node, and raise GraphError if the model expands to too many."""
        self._counted += 1
        refuse_too_large(self.format, self._counted)

    def translate_all(
        self, nodes: Iterable[Node], describe: Callable[[Node], str], translate: Callable[[Node], None]
    ) -> None:
        """Translate nodes in order. Errors, and the operations added to the graph, name the node that they belong to.

        `describe` returns the operation and the name of a node, and `translate` adds its operations and names its
        results.
        """
        for node in nodes:
            self.count_node()
            place = describe(node)
            self.graph.place = place
            try:
                translate(node)
            except Error as error:
                text = str(error)
                raise InNode(error if place in text else type(error)(f"[{self.format}] {place}: {text}")) from error
            except MALFORMED as error:
                raise InNode(malformed(self.format, place, error)) from error

    def enter_classes(self, tensor: Tensor, labels: Sequence[Any]) -> None:
        """Record the labels for the columns of a classifier's scores or for the class indices it returns."""
        self._classes_of[tensor] = list(labels)

    # --- constants -------------------------------------------------------------------------------------------------

    @contextmanager
    def block(self) -> Iterator[None]:
        """Return a context manager for building a block. Constants created in the block are not visible outside."""
        self._constants.append({})
        try:
            yield
        finally:
            self._constants.pop()

    def constant_of(self, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """Return the constant that was made for a key in this block or an outer one, or make it."""
        for made in self._constants:
            if key in made:
                return made[key]
        self._constants[-1][key] = tensor = make()
        return tensor

    def sizes(self, sizes: tuple[int, ...]) -> Tensor:
        """Return an int64 constant that holds a shape, reusing the constant of an equal shape in the same block."""
        return self.constant_of(sizes, lambda: self.graph.constant(np.array(sizes, np.int64)))

    # --- evaluation while the graph is being built -----------------------------------------------------------------

    def value_of(self, tensor: Tensor) -> np.ndarray:
        """Return the elements of a tensor, or raise DataDependent if they depend on inputs."""
        return self._known.value_of(tensor)

    def value_for_size(self, tensor: Tensor, source: Tensor, axis: int, size: int) -> np.ndarray | None:
        """Evaluate a tensor as it would be if an axis of the tensor `source` had the given size.

        Returns None if the tensor also depends on other unknown values.
        """
        return self._known.value_for_size(tensor, source, axis, size)

    def data_dependent_shape(self, tensor: Tensor) -> DataDependent:
        """Return a DataDependent exception with the names of the inputs that determine the shape of a tensor."""
        return self._known.data_dependent_shape(tensor)
