"""Placeholders, constants, and variables, and reading and assigning variables.

A variable keeps its value on the device between runs. Passing it to an operation reads it. A read sees the assignments
that were created before the read and belong to the same run, but no assignments that were created later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._family import DTypeLike, Family, Operation, ShapeError, Tensor, as_dtype, constant_data, ints


class Memory(Family):
    """Graph methods for placeholders, constants, and variables."""

    _trainable: list[Tensor]

    def placeholder(self, shape: Sequence[int] | None, dtype: DTypeLike = "float32", name: str | None = None) -> Tensor:
        """Create a tensor whose value is fed when the graph runs.

        Args:
            shape: Sizes of the axes, where -1 marks a dynamic dimension, or None for an unknown rank.
            dtype: Element type. Defaults to float32.
            name: Name of the placeholder.

        Returns:
            A tensor to use as a key of the feeds.

        Raises:
            ShapeError: If a size is negative and not -1.
            DTypeError: If dtype is not supported.

        Gradient: the incoming gradient.

        Source: MPSGraph placeholderWithShape:dataType:name:.

        Example:
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
        """Create a tensor whose value is fixed when the graph is built.

        Args:
            value: A number, an array, or nested lists. Arrays are copied.
            shape: Shape to fill with the number `value`. None, the default, means the shape of value.
            dtype: Element type. Defaults to the dtype of an array, and to float32, int32, bool, or complex64 for Python
                numbers and lists.
            name: Name of the constant.

        Returns:
            A tensor with the given value.

        Raises:
            ShapeError: If shape has negative sizes or elements other than ints.
            DTypeError: If dtype is not supported, or value cannot be represented in it.

        Gradient: none.

        Source: MPSGraph constantWithData:shape:dataType:, constantWithScalar:shape:dataType:,
        constantWithScalar:dataType:, constantWithRealPart:imaginaryPart:shape:dataType: and its shorter forms.

        Example:
            >>> g = mg.Graph()
            >>> g.constant(0.5, (2, 2)).dtype, g.constant([1, 2]).shape
            (float32, (2,))
        """
        known = None if shape is None else ints(shape, "[constant] shape")
        if known is not None and min(known, default=0) < 0:
            raise ShapeError(f"[constant] shape must be static (no negative sizes), got {tuple(known)}")
        return self._tensor("constant", [], name, value=constant_data(value, known, dtype))

    def variable(
        self, value: Any, dtype: DTypeLike | None = None, name: str | None = None, trainable: bool = True
    ) -> Tensor:
        """Create a variable, whose value persists between runs until it is assigned.

        Args:
            value: Initial value: an array, nested lists, or a number.
            dtype: Element type. Defaults to the dtype of an array, and to float32, int32, bool, or complex64 for Python
                numbers and lists.
            name: Name of the variable.
            trainable: Whether `trainable_variables` lists the variable, provided that it is floating-point or complex.
                Defaults to True.

        Returns:
            The variable itself, not a read of it.

        Raises:
            DTypeError: If dtype is not supported, or value cannot be represented in it.

        Gradient: the sum of the incoming gradients of all reads.

        Source: MPSGraph variableWithData:shape:dataType:name:.

        Example:
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
        """Create a variable whose initial value is the current value of a tensor.

        The value is computed immediately, on the default device, with the current values of the variables on that
        device.

        Args:
            x: Tensor that does not depend on any feed.
            name: Name of the variable.
            trainable: Whether the variable is listed in `trainable_variables`; only floating-point and complex
                variables are. Defaults to True.

        Returns:
            The variable itself, not a read of it, with the shape and dtype of x.

        Raises:
            GraphError: If x depends on a feed.

        Gradient: the sum of the incoming gradients of all reads of the variable; none to x.

        Source: MPSGraph variableFromTensorWithTensor:name:.

        Example:
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
        """The variables created with trainable=True, in order of creation."""
        return list(self._trainable)

    def assign(self, variable: Tensor, value: Tensor | float, name: str | None = None) -> Operation:
        """Assign a new value to a variable when the operation runs.

        The operation runs if it is a target operation or an operation in the run has a control dependency on it.

        Args:
            variable: A variable of this graph.
            value: Tensor or number with the shape and dtype of the variable.
            name: Name of the operation.

        Returns:
            The operation; it has no result.

        Raises:
            GraphError: If variable is not a variable.
            ShapeError: If the shapes differ.
            DTypeError: If the dtypes differ.

        Gradient: none, because the operation has no result.

        Source: MPSGraph assignVariable:withValueOfTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> v = g.variable([1.0])
            >>> _ = g.run({}, [], [g.assign(v, g.constant([5.0]))])
            >>> g.variable_value(v).tolist()
            [5.0]
        """
        return self._operation("assign", self._operands("assign", [variable, value]), None, name)
