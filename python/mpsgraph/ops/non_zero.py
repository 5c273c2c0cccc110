"""Where the elements are that are not zero: the first operation whose result has as many rows as the values say."""

from __future__ import annotations

from ._family import Family, Tensor, as_dtype


class NonZero(Family):
    """non_zero_indices."""

    def non_zero_indices(self, x: Tensor, name: str | None = None) -> Tensor:
        """The indices of the elements that are not zero, in row-major order.

        x[tuple(result[i])] != 0.
        Args: x, any dtype; NaN is not zero. Result: int32 of shape (the number of such elements, rank of x), whose
        first size is known only when the graph runs: what follows is compiled for it then.
        Errors: ShapeError. Gradient: none, indices are integers.
        Source: MPSGraph nonZeroIndicesOfTensor:name:.

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
