"""The table of MIL's operations, and one operation of a program as its function sees it.

`@mil("relu")` enters a function that makes a graph's operations of one of the program's. It asks for its parameters by
MIL's names: as tensors, as weights, or as values that must be known while the graph is built. No parameter is ignored
in silence: what a function has not asked for ends the import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, Protocol, TypeAlias

import numpy as np

from .. import _core
from .._core import DType, Tensor, float32
from ..errors import GraphError, UnsupportedError
from ..graph import Graph
from ..interchange.data_dependent import DataDependent
from ..interchange.shapes import Sizes
from ._values import Fixed
from ._wire import Message

Value: TypeAlias = "Tensor | Fixed | TensorList | State"
Results: TypeAlias = "Value | Sequence[Value]"
Function: TypeAlias = "Callable[[Call], Results]"
_FUNCTIONS: dict[str, Function] = {}
_REQUIRED: Any = object()


class TensorList:
    """A list of MIL's, which is there only while the graph is built: its elements side by side along a first axis."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class State:
    """What a program keeps from run to run, as a variable."""

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable


def mil(*names: str) -> Callable[[Function], Function]:
    """Enters the function of one operation or of several."""

    def enter(function: Function) -> Function:
        for name in names:
            _FUNCTIONS[name] = function
        return function

    return enter


def function_of(name: str) -> Function | None:
    """The function of an operation; None when there is none."""
    return _FUNCTIONS.get(name)


def known_operations() -> list[str]:
    """The names of MIL's operations that can be read.

    >>> "conv" in mg.coreml.known_operations()
    True
    """
    return sorted([*_FUNCTIONS, "const"])


class Import(Protocol):
    """What an operation may ask of the import that it is a part of."""

    graph: Graph

    def tensor(self, value: Value) -> Tensor:
        """A value as a tensor; a constant becomes one of the graph."""

    def weight(self, fixed: Fixed, trained: bool) -> Tensor:
        """A constant as a variable, if it is wanted as one."""

    def value_of(self, tensor: Tensor) -> np.ndarray:
        """A tensor's elements. DataDependent when they depend on inputs."""

    def data_dependent_shape(self, tensor: Tensor) -> DataDependent:
        """The exception for a tensor whose shape has to be known."""

    def block(self, block: Message, given: Sequence[Value]) -> list[Value]:
        """The results of a block, its operations added where the graph is being built now."""

    def scope(self) -> AbstractContextManager[Any]:
        """While the graph builds a block: constants that are made in it are of no use outside."""

    def write(self, state: State, value: Tensor) -> None:
        """Sets a state; every output waits for it."""

    def enter_classes(self, tensor: Tensor, labels: Sequence[Any]) -> None:
        """What the numbers of a classifier stand for."""


class Call(Sizes):
    """One operation: its operands by name, what the program says of its results, and the graph."""

    def __init__(
        self,
        importer: Import,
        op: str,
        operands: dict[str, list[Value]],
        results: Sequence[tuple[DType | None, tuple[int, ...] | None]],
        blocks: Sequence[Message] = (),
    ) -> None:
        self.importer, self.op, self.operands, self.results, self.blocks = importer, op, operands, results, blocks
        self.g = importer.graph
        self._asked: set[str] = set()

    def refuse(self, why: str) -> NoReturn:
        """UnsupportedError with the operation's name."""
        raise UnsupportedError(f"{self.op} {why}")

    def data_dependent_shape(self, x: Tensor) -> DataDependent:
        """The exception for a tensor whose shape has to be known."""
        return self.importer.data_dependent_shape(x)

    def require_all_asked(self) -> None:
        """UnsupportedError for a parameter that the function has not looked at."""
        missed = sorted(set(self.operands) - self._asked)
        if missed:
            raise UnsupportedError(f"{self.op} has parameters that mpsgraph does not know: {', '.join(missed)}")

    @property
    def dtype(self) -> DType:
        """What the program says that the first result consists of."""
        return self.results[0][0] or float32

    # --- operands --------------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Is the parameter given?"""
        self._asked.add(name)
        return bool(self.operands.get(name))

    def operand(self, name: str) -> Value:
        """A parameter as it is. GraphError when it is not given."""
        if not self.has(name):
            raise GraphError(f"the parameter '{name}' is missing")
        if len(self.operands[name]) != 1:
            raise GraphError(f"the parameter '{name}' has {len(self.operands[name])} values")
        return self.operands[name][0]

    def tensor(self, name: str) -> Tensor:
        """A parameter as a tensor."""
        return self.importer.tensor(self.operand(name))

    def optional(self, name: str) -> Tensor | None:
        """A parameter as a tensor, or None when it is not given."""
        return self.tensor(name) if self.has(name) else None

    def tensors(self, name: str) -> list[Tensor]:
        """All values of a parameter that has several."""
        if not self.has(name):
            raise GraphError(f"the parameter '{name}' is missing")
        return [self.importer.tensor(value) for value in self.operands[name]]

    def weight(self, name: str, trained: bool = True) -> Tensor:
        """A parameter as a tensor: a constant of floating point in this place is a weight of the model's."""
        value = self.operand(name)
        return self.importer.weight(value, trained) if isinstance(value, Fixed) else self.importer.tensor(value)

    def optional_weight(self, name: str) -> Tensor | None:
        """A weight, or None when it is not given."""
        return self.weight(name) if self.has(name) else None

    # --- what must be known while the graph is built -----------------------------------------------------------------

    def value(self, name: str, default: Any = _REQUIRED) -> Any:
        """A parameter's contents: an array, a string, a list. DataDependent when only a run knows them."""
        if not self.has(name):
            if default is _REQUIRED:
                raise GraphError(f"the parameter '{name}' is missing")
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
        """A parameter as a list of ints; of rank 0, as a list of one."""
        value = self.value(name, default)
        return value if value is default else [int(v) for v in np.asarray(value).reshape(-1)]

    def integer(self, name: str, default: Any = _REQUIRED) -> int:
        """A parameter of one element as an int."""
        value = self.value(name, default)
        return value if value is default else int(self._single(name, value))

    def number(self, name: str, default: Any = _REQUIRED) -> float:
        """A parameter of one element as a float."""
        value = self.value(name, default)
        return value if value is default else float(self._single(name, value))

    def flag(self, name: str, default: Any = _REQUIRED) -> bool:
        """A parameter of one element as a bool."""
        value = self.value(name, default)
        return value if value is default else bool(self._single(name, value))

    def text(self, name: str, default: Any = _REQUIRED) -> str:
        """A parameter that is a word."""
        value = self.value(name, default)
        if not isinstance(value, str) and value is not default:
            raise GraphError(f"the parameter '{name}' must be a string")
        return value

    def _single(self, name: str, value: Any) -> Any:
        array = np.asarray(value)
        if array.size != 1:
            raise GraphError(f"the parameter '{name}' must have one element, it has the shape {array.shape}")
        return array.reshape(()).item()

    def shape_operand(self, name: str) -> list[int] | Tensor:
        """A parameter that is a shape: as ints, or as an int tensor when only a run knows it."""
        try:
            return self.ints(name)
        except DataDependent:
            return self.tensor(name)

    def partly_known(self, name: str) -> list[int | None]:
        """A vector of ints, None for those that only a run knows. DataDependent when not even their number is known."""
        try:
            return list(self.ints(name))
        except DataDependent:
            known = _core.known_values(self.tensor(name))
            if known is None:
                raise
            return list(known)

    # --- compositions ----------------------------------------------------------------------------------------------

    def cast(self, x: Tensor, dtype: DType) -> Tensor:
        """x in another dtype, or itself."""
        return x if x.dtype == dtype else self.g.cast(x, dtype)

    def widely(self, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """function(x), of half types with everything in between in float32."""
        wide = self.cast(x, float32) if x.dtype.itemsize == 2 and x.dtype.is_float else x
        return self.cast(function(wide), x.dtype)
