"""Indices of nonzero elements. The number of rows of the result depends on the values of the input."""

from __future__ import annotations

from ._family import Family, Tensor, as_dtype


class NonZero(Family):
    """Graph methods for the indices of nonzero elements."""

    def non_zero_indices(self, x: Tensor, name: str | None = None) -> Tensor:
        """Return the indices of the nonzero elements, in row-major order.

        x[tuple(result[i])] != 0. NaN counts as nonzero.

        Args:
            x: Tensor of any dtype.
            name: Name of the operation.

        Returns:
            An int32 tensor of shape (number of nonzero elements, rank of x). The first size is known only when the
            graph runs, and operations that use the result are compiled for that size at that time.

        Raises:
            ShapeError: If an axis is too long for int32 indices.

        Gradient: none, because indices are integers.

        Source: MPSGraph nonZeroIndicesOfTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.non_zero_indices(g.constant([[1, 0, 3], [0, 10, 0]]))).tolist()
            [[0, 0], [0, 2], [1, 1]]
        """
        int32 = as_dtype("int32")
        found = x if x.dtype == as_dtype("bool") else self._tensor("not_equal", [x, 0])
        count = self._tensor("reduction_sum", [self._tensor("cast", [found], dtype=int32)], axes=[])
        one = self._shape_operand([1], "non_zero_indices")
        rank = self._tensor("shape_of", [self._tensor("shape_of", [x])])
        shape = self._tensor("concat", [self._tensor("reshape", [count, one]), rank], axis=0)
        return self._tensor("non_zero_indices", [x, shape], name)
