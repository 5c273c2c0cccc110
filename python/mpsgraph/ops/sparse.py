"""Sparse matrices: values at given places, zero elsewhere.

The tensor's type is that of a dense matrix, so every operation takes it; matrix products with it, and their gradients,
are computed without the zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from ._family import Family, Tensor, ints

SparseStorage: TypeAlias = Literal["COO", "CSC", "CSR"]


class Sparse(Family):
    """sparse_tensor."""

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
        """A matrix of which only some elements are stored.

        result[row of e, column of e] = values[e], 0 elsewhere; values at the same place add up.

        Args:
            values: rank 1, n numbers.
            index0: COO and CSR: the column of each value; CSC: its row. n integers.
            index1: COO: the row of each value, n integers; CSR: where in values each row starts, and n, rows + 1
                integers; CSC: likewise for columns. A place outside of the matrix counts for nothing.
            shape: (rows, columns).
            storage: "COO", "CSC" or "CSR".
        Result: shape, values' dtype. Multiplied by a dense matrix of float32, float64 or a complex type (also
        transposed, and on either side) it is not made dense; for all other operations it is.
        Errors: ShapeError, DTypeError for bool, GraphError for another storage.
        Gradient: incoming at the places of the values; of real products, not transposed, only these are computed.
        Source: MPSGraph sparseTensorWithType:tensors:shape:dataType:name:,
        sparseTensorWithDescriptor:tensors:shape:name:.

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
