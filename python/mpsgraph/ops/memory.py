"""Where values come from and stay: placeholders, constants, variables, and reading and assigning them.

A variable keeps its value from run to run, on the device. Passing it to an operation reads it; a read sees the assigns
that were created before it and run with it, and no later one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._family import DTypeLike, Family, Operation, ShapeError, Tensor, as_dtype, constant_data, ints


class Memory(Family):
    """placeholder, constant, variable, variable_from_tensor, read, assign."""

    _trainable: list[Tensor]

    def placeholder(self, shape: Sequence[int] | None, dtype: DTypeLike = "float32", name: str | None = None) -> Tensor:
        """A value that is fed when the graph runs.

        Args: shape, ints of which any may be -1 (known when fed), or None for an unknown rank; dtype; name.
        Errors: ShapeError for other negative numbers, DTypeError. Gradient: through it, to itself.
        Source: MPSGraph placeholderWithShape:dataType:name:.

        >>> g = mg.Graph()
        >>> x = g.placeholder((-1, 2), mg.float32, name="x")
        >>> g.run({x: np.ones((3, 2), np.float32)}, x * 2).shape
        (3, 2)
        """
        known = None if shape is None else tuple(ints(shape, "[placeholder] shape"))
        return self._tensor("placeholder", [], name, type=(as_dtype(dtype), known))

    def constant(
        self, value: Any, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, name: str | None = None
    ) -> Tensor:
        """A value that is fixed when the graph is built.

        Args: value, a number, an array or nested lists; shape, filled with the number `value`; dtype, by default the
        array's own, and float32, int32, bool or complex64 for Python numbers and lists; name. Arrays are copied.
        Errors: ShapeError for a size that is not a size, DTypeError for a dtype that numpy has and we have not.
        Gradient: none. Source: MPSGraph constantWithData:shape:dataType:, constantWithScalar:shape:dataType:,
        constantWithScalar:dataType:, constantWithRealPart:imaginaryPart:shape:dataType: and its shorter forms.

        >>> g = mg.Graph()
        >>> g.constant(0.5, (2, 2)).dtype, g.constant([1, 2]).shape
        (float32, (2,))
        """
        known = None if shape is None else ints(shape, "[constant] shape")
        if known is not None and min(known, default=0) < 0:
            raise ShapeError(f"[constant] a constant has a known shape, got {tuple(known)}")
        return self._tensor("constant", [], name, value=constant_data(value, known, dtype))

    def variable(
        self, value: Any, dtype: DTypeLike | None = None, name: str | None = None, trainable: bool = True
    ) -> Tensor:
        """A value that stays from run to run until it is assigned.

        Args: value, the first value, an array, nested lists or a number; dtype as in constant; trainable, whether it
        belongs to `trainable_variables` (only floats and complex numbers do). Result: the variable itself, not a read.
        Errors: DTypeError. Gradient: through all of its reads.
        Source: MPSGraph variableWithData:shape:dataType:name:.

        >>> g = mg.Graph()
        >>> v = g.variable(np.zeros(2, np.float32))
        >>> _ = g.run({}, [], [g.assign(v, v + 1)])
        >>> g.variable_value(v).tolist()
        [1.0, 1.0]
        """
        tensor = self._tensor("variable", [], name, value=constant_data(value, None, dtype))
        if trainable and (tensor.dtype.is_float or tensor.dtype.is_complex):
            self._trainable.append(tensor)
        return tensor

    def variable_from_tensor(self, x: Tensor, name: str | None = None, trainable: bool = True) -> Tensor:
        """A variable whose first value is the one that a tensor has now.

        Args: x, of a value that no feed decides: it is computed at once, on the default device, with the values that
        the variables have there; trainable as in variable. Result: the variable itself, of x's shape and dtype.
        Errors: GraphError when x needs a feed. Gradient: through the variable's reads, none to x.
        Source: MPSGraph variableFromTensorWithTensor:name:.

        >>> g = mg.Graph()
        >>> v = g.variable_from_tensor(g.square(g.constant([2.0, 3.0])))
        >>> _ = g.run({}, [], [g.assign(v, v + 1)])
        >>> g.variable_value(v).tolist()
        [5.0, 10.0]
        """
        graph: Any = self
        value = graph.run({}, x).numpy()
        return self.variable(value, x.dtype, name, trainable)

    @property
    def trainable_variables(self) -> list[Tensor]:
        """The variables that were made with trainable=True, in creation order."""
        return list(self._trainable)

    def read(self, variable: Tensor, name: str | None = None) -> Tensor:
        """A variable's value at this point of the creation order.

        Args: variable. Result: its shape and dtype. Errors: GraphError when it is no variable.
        Gradient: incoming to the variable. Source: MPSGraph readVariable:name:.

        >>> g = mg.Graph()
        >>> v = g.variable([1.0])
        >>> before, _, after = g.read(v), g.assign(v, g.constant([5.0])), g.read(v)
        >>> g.run({}, before).tolist()
        [1.0]
        """
        return self._tensor("read", [variable], name)

    def assign(self, variable: Tensor, value: Tensor | float, name: str | None = None) -> Operation:
        """Gives a variable a new value, when the operation is run as a target operation or depended on.

        Args: variable; value, its shape and dtype. Result: an operation. Errors: GraphError when it is no variable,
        ShapeError, DTypeError. Gradient: none, it has no result.
        Source: MPSGraph assignVariable:withValueOfTensor:name:.

        >>> g = mg.Graph()
        >>> v = g.variable([1.0])
        >>> _ = g.run({}, [], [g.assign(v, g.constant([5.0]))])
        >>> g.variable_value(v).tolist()
        [5.0]
        """
        return self._operation("assign", self._operands("assign", [variable, value]), None, name)
