"""Elements in order along an axis, and the order itself."""

from __future__ import annotations

from ._family import Family, Tensor


class Sort(Family):
    """sort and arg_sort."""

    def sort(self, x: Tensor, axis: int | Tensor = -1, descending: bool = False, name: str | None = None) -> Tensor:
        """The elements in order along an axis.

        result_0 <= result_1 <= ...; descending: the other way. NaN counts as larger than every number.
        Args: x, any dtype; axis, an int, negative counts from the end, or one in an int tensor. Result: x's type.
        Errors: ShapeError, DTypeError. Gradient: incoming, each element back where it came from.
        Source: MPSGraph sortWithTensor:axis:descending:name:, …axisTensor:…, and both without descending.

        >>> g = mg.Graph()
        >>> g.run({}, g.sort(g.constant([3.0, 1.0, 2.0]), descending=True)).tolist()
        [3.0, 2.0, 1.0]
        """
        return self._order("sort", x, axis, descending, name)

    def arg_sort(self, x: Tensor, axis: int | Tensor = -1, descending: bool = False, name: str | None = None) -> Tensor:
        """The indices that sort along an axis; equal elements keep their order.

        x[result_0] <= x[result_1] <= ...; descending: the other way. NaN counts as larger than every number.
        Args: x, any dtype; axis, an int, negative counts from the end, or one in an int tensor. Result: int32 of x's
        shape. Errors: ShapeError, DTypeError. Gradient: none, indices are integers.
        Source: MPSGraph argSortWithTensor:axis:descending:name:, …axisTensor:…, and both without descending.

        >>> g = mg.Graph()
        >>> g.run({}, g.arg_sort(g.constant([3.0, 1.0, 2.0]))).tolist()
        [1, 2, 0]
        """
        return self._order("arg_sort", x, axis, descending, name)

    def _order(self, kind: str, x: Tensor, axis: int | Tensor, descending: bool, name: str | None) -> Tensor:
        operands, attributes = self._tensor_attributes(kind, axis=axis)
        return self._tensor(kind, [x, *operands], name, descending=descending, **attributes)
