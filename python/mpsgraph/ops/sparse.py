"""Sparse matrices: values at given positions and zeros elsewhere.

A sparse tensor has the type of a dense matrix, so every operation accepts it. Matrix products with it, and their
gradients, are computed without the zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from ._family import Family, Tensor, ints

SparseStorage: TypeAlias = Literal["COO", "CSC", "CSR"]


class Sparse(Family):
    """Graph methods for sparse tensors."""

    def sparse_tensor(
        self,
        values: Tensor,
        index0: Tensor,
        index1: Tensor,
        shape: Sequence[int],
        *,
        storage: SparseStorage = "COO",
        name: str | None = None,
    ) -> Tensor:
        """Create a sparse matrix from the values and positions of its stored elements.

        The result has values[e] at the row and column of element e, and 0 elsewhere. Values at the same position are
        summed. A product with a dense matrix of float32, float64, or a complex dtype uses the sparse form, also if the
        sparse matrix is transposed or is the right operand; all other operations convert it to a dense matrix.

        Args:
            values: Tensor of n numbers.
            index0: n integers: for COO and CSR the column of each value, for CSC its row.
            index1: For COO, n integers: the row of each value. For CSR, rows + 1 integers: the index in values at which
                each row starts, followed by n. For CSC, the same for columns. Positions outside the matrix are ignored.
            shape: (rows, columns).
            storage: "COO" (the default), "CSC", or "CSR".
            name: Name of the operation.

        Returns:
            A tensor of the given shape, with the dtype of values.

        Raises:
            ShapeError: If shape is not static or the numbers of indices and values do not match.
            DTypeError: If values are bool, or indices are not integers.
            GraphError: If storage has an unknown value.

        Gradient: to values, the incoming gradient at their positions. For real matrix products without transposition,
        only these elements of the gradient are computed.

        Source: MPSGraph sparseTensorWithType:tensors:shape:dataType:name: and
        sparseTensorWithDescriptor:tensors:shape:name:.

        Example:
            >>> g = mg.Graph()
            >>> columns, rows = g.constant([2, 0]), g.constant([0, 1])
            >>> s = g.sparse_tensor(g.constant([5.0, 7.0]), columns, rows, (2, 3))
            >>> g.run({}, s).tolist()
            [[0.0, 0.0, 5.0], [7.0, 0.0, 0.0]]
            >>> g.run({}, s @ g.constant([[1.0], [2.0], [3.0]])).tolist()
            [[15.0], [7.0]]
        """
        sizes = ints(shape, "[sparse_tensor] shape", 2)
        return self._tensor("sparse_tensor", [values, index0, index1], name, shape=sizes, storage=storage)
