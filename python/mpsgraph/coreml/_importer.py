"""The part of an import that programs and networks share, and the values that their operations take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from .._core import Tensor
from ..errors import GraphError, UnsupportedError
from ..interchange.custom_operators import Operators
from ..interchange.data_dependent import Trainable
from ..interchange.importer import Importer
from ._values import Fixed, Values
from ._wire import Message

Value: TypeAlias = "Tensor | Fixed | TensorList | State"


class TensorList:
    """A MIL list, represented by a tensor that stacks its elements along the first axis.

    The list itself exists only while the graph is being built.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class State:
    """A state of a program, represented by a variable."""

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable


class CoreMLImporter(Importer):
    """Base class of the importers for programs and networks, whose constants become weights where they are used so."""

    format = "coreml"

    def __init__(
        self,
        values: Values,
        trainable: Trainable,
        given: Mapping[str, np.ndarray] | None,
        shapes: Mapping[str, Sequence[int]] | None,
        operators: Operators | None,
    ) -> None:
        super().__init__(trainable, given, shapes)
        self._stored, self._operators = values, dict(operators or {})

    # --- interface for operations ------------------------------------------------------------------------------------

    def tensor(self, value: Value) -> Tensor:
        """Return a value as a tensor. A constant of the program becomes a constant of the graph."""
        if isinstance(value, Tensor):
            return value
        if isinstance(value, (TensorList, State)):
            kind = "state" if isinstance(value, State) else "list of tensors"
            raise UnsupportedError(f"expected a tensor, got a {kind}")
        if value.variable is not None:
            return value.variable
        return self.constant_of(value, lambda: self._constant(value))

    def _constant(self, value: Fixed) -> Tensor:
        if not isinstance(value.value, np.ndarray):
            raise UnsupportedError(f"'{value.name}' must be a tensor, got a {value.kind.lower()}")
        tensor = self.graph.constant(value.value, dtype=value.dtype, name=value.name or None)
        self._known.enter(tensor, value.value)
        return tensor

    def weight(self, fixed: Fixed, trained: bool) -> Tensor:
        """Return a constant as a tensor.

        The tensor is a variable if the constant is a floating-point weight with several elements and is selected by the
        `trainable` argument of `load`.
        """
        wanted = fixed.variable is None and isinstance(fixed.value, np.ndarray) and fixed.value.size > 1
        if wanted and fixed.dtype.is_float and fixed.name and self._trains(fixed.name):
            fixed.variable = self.graph.variable(fixed.value, fixed.dtype, fixed.name, trained)
            self.parameters[fixed.name] = fixed.variable
        return self.tensor(fixed)

    def write(self, state: State, value: Tensor) -> None:
        """Raise an error, because networks have no states."""
        raise GraphError("a neural network cannot write states; only ML Programs have states")

    def nested(self, block: Message, given: Sequence[Value]) -> list[Value]:
        """Raise an error, because networks have no nested blocks."""
        raise GraphError("a neural network cannot have nested blocks; only ML Programs have control flow")
