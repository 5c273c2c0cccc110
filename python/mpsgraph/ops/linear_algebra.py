"""Linear algebra: the band around the diagonal of matrices."""

from __future__ import annotations

from ._family import Family, Tensor


class LinearAlgebra(Family):
    """Graph methods for linear algebra."""

    def band_part(self, x: Tensor, num_lower: int | Tensor, num_upper: int | Tensor, name: str | None = None) -> Tensor:
        """Set the elements of matrices outside a band around the diagonal to zero.

        result[..., i, j] = x[..., i, j] where i - j <= num_lower and j - i <= num_upper, and 0 elsewhere.

        Args:
            x: Tensor of any dtype and of rank 2 or higher.
            num_lower: Number of diagonals to keep below the main one, an int or an integer tensor; -1 keeps all.
            num_upper: Number of diagonals to keep above the main one, an int or an integer tensor; -1 keeps all.
                band_part(x, -1, 0) is the lower triangle.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            ShapeError: If x has a rank below 2.
            DTypeError: If num_lower or num_upper is a tensor that is not integer.

        Gradient: band_part of the incoming gradient.

        Source: MPSGraph bandPartWithTensor:numLower:numUpper:name: and …numLowerTensor:numUpperTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.band_part(g.constant([[1, 2, 3], [4, 5, 6], [7, 8, 9]]), 0, 1)).tolist()
            [[1, 2, 0], [0, 5, 6], [0, 0, 9]]
        """
        operands, attributes = self._tensor_attributes("band_part", num_lower=num_lower, num_upper=num_upper)
        return self._tensor("band_part", [x, *operands], name, **attributes)
