"""Matrix products.

Batches broadcast as in numpy; there is no implicit transposition or vector case: reshape says what is meant.
"""

from __future__ import annotations

from ._family import Family, Tensor


class Matrix(Family):
    """matrix_multiplication."""

    def matrix_multiplication(self, primary: Tensor, secondary: Tensor, name: str | None = None) -> Tensor:
        """Matrix product of the last two axes, batched over the others.

        result[..., i, j] = sum over k of primary[..., i, k] * secondary[..., k, j].
        Args: primary (..., m, k), secondary (..., k, n), rank 2 or more, leading axes that broadcast, one
        floating-point or complex dtype. Result: (..., m, n). Errors: ShapeError when k differs or the rank is below 2,
        DTypeError.
        Gradient: incoming @ secondary^T to primary, primary^T @ incoming to secondary, complex operands conjugated,
        summed over broadcast axes.
        Source: MPSGraph matrixMultiplicationWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.matrix_multiplication(g.constant([[1.0, 2.0]]), g.constant([[3.0], [4.0]]))).tolist()
        [[11.0]]
        """
        return self._tensor("matrix_multiplication", [primary, secondary], name)
