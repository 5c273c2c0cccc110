"""The table of operators, and a node as its operator's function sees it.

`@operator("Relu", upto=14)` enters a function that makes a graph's operations of a node, for every version of the
operator up to the one named: a newer one is not understood and is refused. What a function needs to know while the
graph is built (a shape, axes, a count) it asks for with `value`; when that depends on what the model will be fed with,
the question ends the import, and the model is built anew when it is run (see interchange/deferred_build.py).

No attribute is ignored in silence: `lowered` refuses a node with one that its function neither asked for nor declared
to be without effect, unless it has its default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar, overload

import numpy as np

from .. import _core
from .._core import DType, Tensor
from ..errors import Error, GraphError, ShapeError, UnsupportedError
from ..graph import Graph
from ..interchange.data_dependent import DataDependent, ValueOfLoop
from ..interchange.shapes import Sizes
from ._files import dtype_of
from ._standard import REQUIRED

Results: TypeAlias = "Tensor | TensorSequence | Sequence[Tensor | TensorSequence | None]"
Function: TypeAlias = "Callable[[Node], Results]"
Default = TypeVar("Default")

TRAINING = "ai.onnx.preview.training"
_HINTS = ("consumed_inputs",)  # of operator set 1, for memory: never with a meaning
MICROSOFT = "com.microsoft"  # what ONNX Runtime's optimisers write
OF_RUNTIME = ("SimplifiedLayerNormalization",)  # which it puts into ONNX's own domain
_FUNCTIONS: dict[tuple[str, str], tuple[int, Function]] = {}


def operator(*names: str, upto: int, domain: str = "") -> Callable[[Function], Function]:
    """Enters the function of one operator or of several."""

    def enter(function: Function) -> Function:
        for name in names:
            _FUNCTIONS[domain, name] = upto, function
        return function

    return enter


def function_of(domain: str, name: str, version: int) -> Function | None:
    """The function of an operator in a version of its own (not of the operator set); None when there is none."""
    upto, function = _FUNCTIONS.get((domain, name), (0, None))
    return function if version <= upto else None


def newest_version(domain: str, name: str) -> int:
    """The newest version of an operator that its function understands; 0 when there is none."""
    return _FUNCTIONS.get((domain, name), (0, None))[0]


def known_operators() -> list[tuple[str, str, int]]:
    """Domain, name and newest version of all that are in the table.

    >>> operators = mg.onnx.known_operators()
    >>> ("", "Relu") in {(domain, name) for domain, name, version in operators}
    True
    """
    return sorted((domain, name, upto) for (domain, name), (upto, _) in _FUNCTIONS.items())


def lowered(function: Function, node: Node, known: Mapping[str, Any] | None) -> Results:
    """What a node's function gives, with all attributes accounted for (see Node.require_all_asked)."""
    results = function(node)
    node.require_all_asked(known)
    return results


def _is_default(value: Any, default: Any) -> bool:
    if default is REQUIRED:
        return False
    if isinstance(value, list) or isinstance(default, list):
        return list(value) == list(default)
    if isinstance(value, float) and isinstance(default, float):
        return bool(np.float32(value) == np.float32(default))
    return bool(value == default)


@dataclass(frozen=True)
class TensorSequence:
    """A sequence of tensors, which is there only while the graph is built."""

    tensors: tuple[Tensor, ...]


class InNode(Exception):
    """Carries an error that already says in which node it arose."""

    def __init__(self, error: Error) -> None:
        self.error = error


class Import(Protocol):
    """What a node may ask of the import that it is a part of; importer.py's Importer is one."""

    graph: Graph

    def lookup(self, name: str) -> object:
        """What a name stands for: a tensor, a sequence, or an initialiser that nobody has used as a tensor yet."""

    def tensor(self, name: str, trainable: bool = True) -> Tensor:
        """The tensor of that name; an initialiser becomes a variable or a constant."""

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """The shape of what a name stands for."""

    def value(self, name: str) -> np.ndarray:
        """The elements of that name. DataDependent when they depend on inputs."""

    def value_of(self, tensor: Tensor) -> np.ndarray:
        """A tensor's elements. DataDependent when they depend on inputs."""

    def value_for_size(self, tensor: Tensor, source: Tensor, axis: int, size: int) -> np.ndarray | None:
        """What a tensor would be if an axis of `source` had this size; None where that alone does not decide it."""

    def assume_one(self) -> bool | None:
        """Is an axis that a node squeezes, if it has one element, taken to have one? None: only a run knows."""

    def data_dependent_shape(self, tensor: Tensor) -> DataDependent:
        """The exception for a tensor whose shape a node's function has to know."""

    def subgraph(self, graph: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The results of a subgraph, its nodes added where the graph is being built now."""

    def sizes(self, sizes: tuple[int, ...]) -> Tensor:
        """Sizes as an int64 constant, the same for all who ask in one block."""

    def block(self) -> AbstractContextManager[Any]:
        """While the graph builds a block: constants that are made in it are of no use outside."""

    def enter_classes(self, tensor: Tensor, labels: Sequence[Any]) -> None:
        """What the columns of a classifier's scores, or the numbers that it gives as labels, stand for."""


class Node(Sizes):
    """One node: its operands, its attributes, and the graph that its operations go to."""

    def __init__(
        self,
        importer: Import,
        op: str,
        version: int,
        inputs: list[str],
        outputs: list[str],
        attributes: dict[str, Any],
    ) -> None:
        self.importer, self.op, self.version = importer, op, version
        self.inputs, self.outputs, self._attributes = inputs, outputs, attributes
        self._asked: set[str] = set()  # attributes that the function has looked at
        self.g: Graph = importer.graph

    # --- operands --------------------------------------------------------------------------------------------------

    def has(self, i: int) -> bool:
        """Is operand i given?"""
        return i < len(self.inputs) and self.inputs[i] != ""

    def wants(self, i: int) -> bool:
        """Does anybody name result i?"""
        return i < len(self.outputs) and self.outputs[i] != ""

    def tensor(self, i: int) -> Tensor:
        """Operand i. GraphError when it is not given."""
        name = self.inputs[i] if i < len(self.inputs) else ""
        if not name:
            raise GraphError(f"operand {i} is missing")
        return self.importer.tensor(name)

    def optional(self, i: int) -> Tensor | None:
        """Operand i, or None when it is not given."""
        return self.tensor(i) if self.has(i) else None

    def tensors(self) -> list[Tensor]:
        """All operands."""
        return [self.tensor(i) for i in range(len(self.inputs))]

    def is_sequence(self, i: int) -> bool:
        """Is operand i a sequence of tensors?"""
        return self.has(i) and isinstance(self.importer.lookup(self.inputs[i]), TensorSequence)

    def sequence(self, i: int) -> tuple[Tensor, ...]:
        """Operand i, a sequence. GraphError when it is none."""
        if not self.has(i):
            raise GraphError(f"operand {i} is missing")
        value = self.importer.lookup(self.inputs[i])
        if not isinstance(value, TensorSequence):
            raise GraphError(f"operand {i}, '{self.inputs[i]}', is a tensor and no sequence")
        return value.tensors

    def operand_shape(self, i: int) -> tuple[int, ...] | None:
        """The shape of operand i, which does not become a tensor of the graph by this question."""
        return self.importer.shape_of(self.inputs[i])

    def buffer(self, i: int) -> Tensor:
        """Operand i; an initialiser becomes a variable that is not trained."""
        return self.importer.tensor(self.inputs[i], trainable=False)

    def value(self, i: int) -> np.ndarray:
        """What operand i is, known while the graph is built. DataDependent when it is not."""
        if not self.has(i):
            raise GraphError(f"operand {i} is missing")
        return self.importer.value(self.inputs[i])

    def ints(self, i: int) -> list[int]:
        """Operand i as a list of integers; of rank 0, as a list of one."""
        return [int(v) for v in self.value(i).reshape(-1)]

    def known_ints(self, i: int) -> list[int] | None:
        """Operand i as ints, or None when only a run knows them."""
        try:
            return self.ints(i)
        except (DataDependent, ValueOfLoop):
            return None

    def partly_known_ints(self, i: int) -> list[int | None] | None:
        """Operand i as ints, None for those that only a run knows; None for all when not even their number is known."""
        known = self.known_ints(i)
        return list(known) if known is not None else _core.known_values(self.tensor(i))

    def scalar(self, i: int, default: Any) -> Any:
        """Operand i, of one element, as a Python number; the default when it is not given."""
        if not self.has(i):
            return default
        value = self.value(i)
        if value.size != 1:
            raise ShapeError(f"operand {i} must have one element, has the shape {value.shape}")
        return value.reshape(()).item()

    # --- attributes ------------------------------------------------------------------------------------------------

    @overload
    def attribute(self, name: str) -> Any: ...

    @overload
    def attribute(self, name: str, default: Default) -> Default: ...

    def attribute(self, name: str, default: Any = ...) -> Any:
        """An attribute, or its default. GraphError when it is missing or of another kind than its default."""
        self._asked.add(name)
        value = self._attributes.get(name, default)
        if value is ...:
            raise GraphError(f"attribute {name} is missing")
        kind = type(default)
        if kind is type(value) or default is ... or default is None:
            return value
        if not isinstance(value, (int, float) if kind is float else kind):
            raise GraphError(f"attribute {name} is {value!r} and must be a {type(default).__name__}")
        return value

    def has_attribute(self, name: str) -> bool:
        """Is the attribute given?"""
        self._asked.add(name)
        return name in self._attributes

    def without_effect(self, *names: str) -> None:
        """Declares attributes that mean nothing here, by what else the node says."""
        self._asked.update(names)

    def require_all_asked(self, known: Mapping[str, Any] | None) -> None:
        """Raises for an attribute that the function has not looked at and that is not its default.

        Args: known, the operator's attributes and their defaults; None for an operator that the standard does not have.
        Errors: UnsupportedError; GraphError when nothing is known of the attribute.
        """
        for name, value in self._attributes.items():
            if name in self._asked or name in _HINTS:
                continue
            if known is None:
                asked = ", ".join(sorted(self._asked)) or "none"
                raise GraphError(f"unknown attribute '{name}'; attributes of {self.op} that are read here: {asked}")
            if not _is_default(value, known.get(name, REQUIRED)):
                raise UnsupportedError(
                    f"attribute '{name}' of {self.op}-{self.version} is {value!r}, which mpsgraph does not implement"
                )

    def ints_attribute_or_operand(self, name: str, i: int) -> list[int] | None:
        """What older versions keep in an attribute and newer ones in an operand; None when it is in neither."""
        if self.has(i):
            return self.ints(i)
        return self.attribute(name, None)

    def dtype_attribute(self, name: str, default: int | None = None) -> DType:
        """An attribute that names an element type."""
        return dtype_of(self.attribute(name, default) if default is not None else self.attribute(name), f"'{name}'")

    # --- compositions ----------------------------------------------------------------------------------------------

    def by_channel(self, parameter: Tensor, x: Tensor) -> Tensor:
        """A parameter with one number a channel, ready to be broadcast over x (n, channels, ...)."""
        return self.g.reshape(parameter, self.importer.sizes((1, -1, *(1,) * (self.rank(x) - 2))))

    def data_dependent_shape(self, x: Tensor) -> DataDependent:
        """The exception for a tensor whose shape has to be known."""
        return self.importer.data_dependent_shape(x)
