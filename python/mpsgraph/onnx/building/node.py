"""The registry of ONNX operators, and the view of a node that translation functions receive.

`@operator("Relu", upto=14)` registers a function that translates a node into graph operations. The function covers all
versions of the operator up to `upto`; newer versions are rejected. If the function needs a tensor's value while the
graph is being built (a shape, axes, a count), it calls `value`. When the value depends on inputs, `value` raises
DataDependent and aborts the import, and the graph is built on the first run instead (see
interchange/deferred_build.py).

Attributes are never silently ignored: `lowered` rejects a node if it has a non-default attribute that the function
neither read nor declared to have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar, overload

import numpy as np

from ... import _core
from ..._core import DType, Tensor
from ...errors import GraphError, ShapeError, UnsupportedError
from ...graph import Graph
from ...interchange.data_dependent import DataDependent, ValueOfLoop
from ...interchange.node_view import SizedNode
from ...interchange.registry import Registry
from ..reading.files import dtype_of
from ..reading.standard import REQUIRED

Results: TypeAlias = "Tensor | TensorSequence | Sequence[Tensor | TensorSequence | None]"
Function: TypeAlias = "Callable[[Node], Results]"
Default = TypeVar("Default")

TRAINING = "ai.onnx.preview.training"
_HINTS = ("consumed_inputs",)  # Memory hints of opset 1, which never affect results.
MICROSOFT = "com.microsoft"  # Domain of the fused operators that ONNX Runtime's optimizer writes.
OF_RUNTIME = ("SimplifiedLayerNormalization",)  # Operators that ONNX Runtime adds to the standard ONNX domain.

operator: Registry[Function] = Registry("ONNX operator")


def known_operators() -> list[tuple[str, str, int]]:
    """Return the domain, name, and newest supported version of every ONNX operator that can be imported.

    Returns:
        A sorted list of (domain, name, version) tuples. The standard domain is the empty string.

    Example:
        >>> operators = mg.onnx.known_operators()
        >>> ("", "Relu") in {(domain, name) for domain, name, version in operators}
        True
    """
    return operator.versions()


def lowered(function: Function, node: Node, known: Mapping[str, Any] | None) -> Results:
    """Translate a node, and raise an error if its translation function ignored an attribute (see
    Node.require_all_asked).
    """
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
    """An ONNX sequence of tensors. It exists only while the graph is being built."""

    tensors: tuple[Tensor, ...]


class Import(Protocol):
    """The methods of the importer that translation functions may call. `NodeImporter` implements and documents them."""

    graph: Graph

    def lookup(self, name: str) -> object: ...
    def tensor(self, name: str, trainable: bool = True) -> Tensor: ...
    def shape_of(self, name: str) -> tuple[int, ...] | None: ...
    def value(self, name: str) -> np.ndarray: ...
    def element_type(self, name: str) -> int | None: ...
    def value_of(self, tensor: Tensor) -> np.ndarray: ...
    def value_for_size(self, tensor: Tensor, source: Tensor, axis: int, size: int) -> np.ndarray | None: ...
    def assume_one(self) -> bool | None: ...
    def data_dependent_shape(self, tensor: Tensor) -> DataDependent: ...
    def branches_differ(self, results: Sequence[Tensor]) -> bool: ...
    def subgraph(self, graph: Any, inputs: Sequence[Tensor]) -> list[Tensor]: ...
    def sizes(self, sizes: tuple[int, ...]) -> Tensor: ...
    def block(self) -> AbstractContextManager[Any]: ...
    def enter_classes(self, tensor: Tensor, labels: Sequence[Any]) -> None: ...


class Node(SizedNode):
    """A node of an ONNX model, as passed to its translation function: operands, attributes, and the target graph."""

    prefix = None

    def __init__(
        self,
        importer: Import,
        name: str,
        version: int,
        inputs: list[str],
        outputs: list[str],
        attributes: dict[str, Any],
    ) -> None:
        super().__init__(importer.graph, name)
        self.importer, self.version = importer, version
        self.inputs, self.outputs, self._attributes = inputs, outputs, attributes

    # --- operands --------------------------------------------------------------------------------------------------

    def has(self, i: int) -> bool:
        """Return whether operand i is present."""
        return i < len(self.inputs) and self.inputs[i] != ""

    def wants(self, i: int) -> bool:
        """Return whether result i has a name. Results without a name are unused."""
        return i < len(self.outputs) and self.outputs[i] != ""

    def tensor(self, i: int) -> Tensor:
        """Return operand i, or raise GraphError if it is missing."""
        name = self.inputs[i] if i < len(self.inputs) else ""
        if not name:
            raise GraphError(f"required operand {i} is missing")
        return self.importer.tensor(name)

    def optional(self, i: int) -> Tensor | None:
        """Return operand i, or None if it is missing."""
        return self.tensor(i) if self.has(i) else None

    def tensors(self) -> list[Tensor]:
        """Return all operands."""
        return [self.tensor(i) for i in range(len(self.inputs))]

    def is_sequence(self, i: int) -> bool:
        """Return whether operand i is a sequence of tensors."""
        return self.has(i) and isinstance(self.importer.lookup(self.inputs[i]), TensorSequence)

    def sequence(self, i: int) -> tuple[Tensor, ...]:
        """Return operand i as a sequence of tensors, or raise GraphError if it is not one."""
        if not self.has(i):
            raise GraphError(f"required operand {i} is missing")
        value = self.importer.lookup(self.inputs[i])
        if not isinstance(value, TensorSequence):
            raise GraphError(f"operand {i}, '{self.inputs[i]}', must be a sequence of tensors, got a tensor")
        return value.tensors

    def operand_shape(self, i: int) -> tuple[int, ...] | None:
        """Return the shape of operand i. If the operand is an initializer, no tensor is created for it."""
        return self.importer.shape_of(self.inputs[i])

    def stored_type(self, i: int) -> int:
        """Return the ONNX element type of operand i if it is stored in the file, and 0 otherwise."""
        return (self.importer.element_type(self.inputs[i]) or 0) if self.has(i) else 0

    def buffer(self, i: int) -> Tensor:
        """Return operand i as a tensor. An initializer becomes a variable that is not trained, such as a moving
        average.
        """
        return self.importer.tensor(self.inputs[i], trainable=False)

    def value(self, i: int) -> np.ndarray:
        """Return the elements of operand i, or raise DataDependent if they depend on inputs."""
        if not self.has(i):
            raise GraphError(f"required operand {i} is missing")
        return self.importer.value(self.inputs[i])

    def ints(self, i: int) -> list[int]:
        """Return the elements of operand i as a flat list of integers."""
        return [int(v) for v in self.value(i).reshape(-1)]

    def known_ints(self, i: int) -> list[int] | None:
        """Return the elements of operand i as integers, or None if they are not known until run time."""
        try:
            return self.ints(i)
        except (DataDependent, ValueOfLoop):
            return None

    def partly_known_ints(self, i: int) -> list[int | None] | None:
        """Return the elements of operand i as integers, with None for elements not known until run time.

        If the number of elements is unknown too, return None.
        """
        known = self.known_ints(i)
        return list(known) if known is not None else _core.known_values(self.tensor(i))

    def scalar(self, i: int, default: Any) -> Any:
        """Return operand i, which must have one element, as a Python number, or the default if it is missing."""
        if not self.has(i):
            return default
        value = self.value(i)
        if value.size != 1:
            raise ShapeError(f"operand {i} must have one element, got shape {value.shape}")
        return value.reshape(()).item()

    # --- attributes ------------------------------------------------------------------------------------------------

    @overload
    def attribute(self, name: str) -> Any: ...

    @overload
    def attribute(self, name: str, default: Default) -> Default: ...

    def attribute(self, name: str, default: Any = ...) -> Any:
        """Return an attribute or its default.

        Raises GraphError if the attribute is missing and has no default, or if its type differs from that of the
        default.
        """
        self._read.add(name)
        value = self._attributes.get(name, default)
        if value is ...:
            raise GraphError(f"required attribute {name} is missing")
        kind = type(default)
        if kind is type(value) or default is ... or default is None:
            return value
        if not isinstance(value, (int, float) if kind is float else kind):
            raise GraphError(f"attribute {name} must be of type {type(default).__name__}, got {value!r}")
        return value

    def attributes(self) -> dict[str, Any]:
        """Return all attributes, keyed by name."""
        self._read.update(self._attributes)
        return dict(self._attributes)

    def has_attribute(self, name: str) -> bool:
        """Return whether the node has an attribute."""
        self._read.add(name)
        return name in self._attributes

    def require_all_asked(self, known: Mapping[str, Any] | None) -> None:
        """Raise an error if the node has a non-default attribute that the translation function did not read.

        `known` maps the operator's attributes to their defaults, or is None for an operator outside the standard. If
        `known` is None, any unread attribute raises GraphError. Otherwise an unread non-default attribute raises
        UnsupportedError.
        """
        for name in self.unread(self._attributes):
            if name in _HINTS:
                continue
            value = self._attributes[name]
            if known is None:
                asked = ", ".join(sorted(self._read)) or "none"
                raise GraphError(f"unknown attribute '{name}'; the attributes supported for {self.name} are: {asked}")
            if not _is_default(value, known.get(name, REQUIRED)):
                raise UnsupportedError(
                    f"attribute '{name}' of {self.name}-{self.version}: value {value!r} is not supported by mpsgraph"
                )

    def ints_attribute_or_operand(self, name: str, i: int) -> list[int] | None:
        """Return integers that older versions of an operator store in an attribute and newer versions in an operand.

        Returns None if both are missing.
        """
        if self.has(i):
            return self.ints(i)
        return self.attribute(name, None)

    def dtype_attribute(self, name: str, default: int | None = None) -> DType:
        """Return the dtype that an attribute specifies as an ONNX element type."""
        return dtype_of(self.attribute(name, default) if default is not None else self.attribute(name), f"'{name}'")

    # --- helpers ---------------------------------------------------------------------------------------------------

    def by_channel(self, parameter: Tensor, x: Tensor) -> Tensor:
        """Reshape a per-channel parameter so that it broadcasts against x of shape (n, channels, ...)."""
        return self.g.reshape(parameter, self.importer.sizes((1, -1, *(1,) * (self.rank(x) - 2))))

    def data_dependent_shape(self, x: Tensor) -> DataDependent:
        """Return a DataDependent exception with the names of the inputs that determine the shape of x."""
        return self.importer.data_dependent_shape(x)
