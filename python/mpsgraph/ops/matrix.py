"""Matrix products, and distances between rows of bits.

Batches broadcast as in numpy; there is no implicit transposition or vector case: reshape says what is meant.
"""

from __future__ import annotations

from ._family import DTypeLike, Family, Tensor, as_dtype


class Matrix(Family):
    """matrix_multiplication and hamming_distance."""

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

    def hamming_distance(
        self, primary: Tensor, secondary: Tensor, result_dtype: DTypeLike = "uint32", name: str | None = None
    ) -> Tensor:
        """In how many bits each row of one matrix differs from each row of another, batched over the leading axes.

        result[..., i, j] = sum over k of the bits set in primary[..., i, k] xor secondary[..., j, k].
        Args: primary (..., m, k), secondary (..., n, k), rank 2 or more, leading axes that broadcast, one integer
        dtype; result_dtype, uint32 or uint16. Result: (..., m, n). Errors: ShapeError, DTypeError. Gradient: none, bits
        have none. Source: MPSGraph HammingDistanceWithPrimaryTensor:secondaryTensor:resultDataType:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.hamming_distance(g.constant([[0b101, 0]]), g.constant([[0b100, 0b11], [0, 0]]))).tolist()
        [[3, 2]]
        """
        return self._tensor("hamming_distance", [primary, secondary], name, dtype=as_dtype(result_dtype))
