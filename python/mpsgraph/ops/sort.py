"""Sorting elements along an axis, and the indices that sort them."""

from __future__ import annotations

from ._family import Family, Tensor


class Sort(Family):
    """Graph methods for sort and arg_sort."""

    def sort(self, x: Tensor, axis: int | Tensor = -1, descending: bool = False, name: str | None = None) -> Tensor:
        """Sort elements along an axis.

        result_0 <= result_1 <= ..., or in reverse with descending. NaN is greater than any number.

        Args:
            x: Tensor of any dtype that is not complex.
            axis: Axis to sort along: an int, where negative values count from the end, or an integer tensor of one
                element. Defaults to the last axis.
            descending: Whether to sort from largest to smallest. Defaults to False.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            ShapeError: If axis is out of range.
            DTypeError: If x is complex, or an axis tensor is not integer.

        Gradient: the incoming gradient, with each element moved back to its original position.

        Source: MPSGraph sortWithTensor:axis:descending:name:, …axisTensor:…, and both without descending.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.sort(g.constant([3.0, 1.0, 2.0]), descending=True)).tolist()
            [3.0, 2.0, 1.0]
        """
        return self._order("sort", x, axis, descending, name)

    def arg_sort(self, x: Tensor, axis: int | Tensor = -1, descending: bool = False, name: str | None = None) -> Tensor:
        """Return the indices that sort elements along an axis; equal elements keep their order.

        x[result_0] <= x[result_1] <= ..., or in reverse with descending. NaN is greater than any number.

        Args:
            x: Tensor of any dtype that is not complex.
            axis: Axis to sort along: an int, where negative values count from the end, or an integer tensor of one
                element. Defaults to the last axis.
            descending: Whether to sort from largest to smallest. Defaults to False.
            name: Name of the operation.

        Returns:
            An int32 tensor with the shape of x.

        Raises:
            ShapeError: If axis is out of range.
            DTypeError: If x is complex, or an axis tensor is not integer.

        Gradient: none, because indices are integers.

        Source: MPSGraph argSortWithTensor:axis:descending:name:, …axisTensor:…, and both without descending.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.arg_sort(g.constant([3.0, 1.0, 2.0]))).tolist()
            [1, 2, 0]
        """
        return self._order("arg_sort", x, axis, descending, name)

    def _order(self, kind: str, x: Tensor, axis: int | Tensor, descending: bool, name: str | None) -> Tensor:
        operands, attributes = self._tensor_attributes(kind, axis=axis)
        return self._tensor(kind, [x, *operands], name, descending=descending, **attributes)
