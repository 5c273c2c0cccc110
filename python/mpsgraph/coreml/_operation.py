"""The registry of MIL operations, and the view of an operation that translation functions receive.

`@mil("relu")` registers a function that translates a MIL operation into graph operations. The function reads parameters
by their MIL names: as tensors, as weights, or as values that must be known while the graph is being built. Parameters
are never silently ignored: the import fails if the function has not read all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from .. import _core
from .._core import DType, Tensor, float32
from ..errors import GraphError, UnsupportedError
from ..interchange.data_dependent import DataDependent
from ..interchange.node_view import SizedNode
from ..interchange.registry import Registry
from ._importer import CoreMLImporter, Value
from ._values import Fixed
from ._wire import Message

Results: TypeAlias = "Value | Sequence[Value]"
Function: TypeAlias = "Callable[[Call], Results]"
mil: Registry[Function] = Registry("MIL operation")
_REQUIRED: Any = object()


def known_operations() -> list[str]:
    """Return the names of the MIL operations that can be imported.

    Returns:
        A sorted list of names.

    Example:
        >>> "conv" in mg.coreml.known_operations()
        True
    """
    return sorted([*mil.known(), "const"])


class Call(SizedNode):
    """A MIL operation, as passed to its translation function.

    It provides the operands, keyed by parameter name, the declared results, and the graph to add operations to.
    """

    def __init__(
        self,
        importer: CoreMLImporter,
        name: str,
        operands: dict[str, list[Value]],
        results: Sequence[tuple[DType | None, tuple[int, ...] | None]],
        blocks: Sequence[Message] = (),
    ) -> None:
        super().__init__(importer.graph, name)
        self.importer, self.operands, self.results, self.blocks = importer, operands, results, blocks

    def data_dependent_shape(self, x: Tensor) -> DataDependent:
        """Return a DataDependent exception with the names of the inputs that determine the shape of a tensor."""
        return self.importer.data_dependent_shape(x)

    def require_all_asked(self) -> None:
        """Raise UnsupportedError if the translation function has not read all parameters."""
        missed = sorted(self.unread(self.operands))
        if missed:
            raise UnsupportedError(f"{self.name} has parameters that mpsgraph does not support: {', '.join(missed)}")

    @property
    def dtype(self) -> DType:
        """The declared dtype of the first result."""
        return self.results[0][0] or float32

    # --- operands --------------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Return whether the operation has a parameter."""
        self._read.add(name)
        return bool(self.operands.get(name))

    def operand(self, name: str) -> Value:
        """Return a parameter's value, or raise GraphError if it is missing."""
        if not self.has(name):
            raise GraphError(f"required parameter '{name}' is missing")
        if len(self.operands[name]) != 1:
            raise GraphError(f"parameter '{name}' must have one value, got {len(self.operands[name])}")
        return self.operands[name][0]

    def tensor(self, name: str) -> Tensor:
        """Return a parameter as a tensor."""
        return self.importer.tensor(self.operand(name))

    def optional(self, name: str) -> Tensor | None:
        """Return a parameter as a tensor, or None if it is missing."""
        return self.tensor(name) if self.has(name) else None

    def tensors(self, name: str) -> list[Tensor]:
        """Return all values of a parameter that can have several."""
        if not self.has(name):
            raise GraphError(f"required parameter '{name}' is missing")
        return [self.importer.tensor(value) for value in self.operands[name]]

    def weight(self, name: str, trained: bool = True) -> Tensor:
        """Return a parameter as a tensor, treating a floating-point constant as a weight."""
        value = self.operand(name)
        return self.importer.weight(value, trained) if isinstance(value, Fixed) else self.importer.tensor(value)

    def optional_weight(self, name: str) -> Tensor | None:
        """Return a weight, or None if it is missing."""
        return self.weight(name) if self.has(name) else None

    # --- values known while the graph is being built -----------------------------------------------------------------

    def value(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return a parameter as an array, a string, or a list, or raise DataDependent if it depends on inputs."""
        if not self.has(name):
            if default is _REQUIRED:
                raise GraphError(f"required parameter '{name}' is missing")
            return default
        values = self.operands[name]
        if len(values) != 1:
            return np.array([self._contents(v) for v in values])
        return self._contents(values[0])

    def _contents(self, value: Value) -> Any:
        if isinstance(value, Fixed):
            return value.value
        return self.importer.value_of(self.importer.tensor(value))

    def ints(self, name: str, default: Any = _REQUIRED) -> list[int]:
        """Return the elements of a parameter as a flat list of integers."""
        value = self.value(name, default)
        return value if value is default else [int(v) for v in np.asarray(value).reshape(-1)]

    def integer(self, name: str, default: Any = _REQUIRED) -> int:
        """Return a parameter with one element as an int."""
        value = self.value(name, default)
        return value if value is default else int(self._single(name, value))

    def number(self, name: str, default: Any = _REQUIRED) -> float:
        """Return a parameter with one element as a float."""
        value = self.value(name, default)
        return value if value is default else float(self._single(name, value))

    def flag(self, name: str, default: Any = _REQUIRED) -> bool:
        """Return a parameter with one element as a bool."""
        value = self.value(name, default)
        return value if value is default else bool(self._single(name, value))

    def text(self, name: str, default: Any = _REQUIRED) -> str:
        """Return a parameter that is a string."""
        value = self.value(name, default)
        if not isinstance(value, str) and value is not default:
            raise GraphError(f"parameter '{name}' must be a string, got {value!r}")
        return value

    def _single(self, name: str, value: Any) -> Any:
        array = np.asarray(value)
        if array.size != 1:
            raise GraphError(f"parameter '{name}' must have one element, got shape {array.shape}")
        return array.reshape(()).item()

    def shape_operand(self, name: str) -> list[int] | Tensor:
        """Return a parameter that is a shape, as integers if it is known and as an integer tensor otherwise."""
        try:
            return self.ints(name)
        except DataDependent:
            return self.tensor(name)

    def partly_known(self, name: str) -> list[int | None]:
        """Return a vector of integers, with None for elements that are known only at run time.

        Raises DataDependent if the number of elements is unknown too.
        """
        try:
            return list(self.ints(name))
        except DataDependent:
            known = _core.known_values(self.tensor(name))
            if known is None:
                raise
            return list(known)
