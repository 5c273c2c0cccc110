"""The band around the diagonal of matrices."""

from __future__ import annotations

from ._family import Family, Tensor


class LinearAlgebra(Family):
    """band_part."""

    def band_part(self, x: Tensor, num_lower: int | Tensor, num_upper: int | Tensor, name: str | None = None) -> Tensor:
        """Matrices with zeros outside of a band around their diagonal.

        result[..., i, j] = x[..., i, j] where i - j <= num_lower and j - i <= num_upper, else 0.
        Args: x, any dtype, rank 2 or more; num_lower, num_upper, the diagonals to keep below and above the main one,
        ints or int tensors, -1 for all of them: band_part(x, -1, 0) is the lower triangle. Result: x's type.
        Errors: ShapeError, DTypeError. Gradient: band_part of incoming.
        Source: MPSGraph bandPartWithTensor:numLower:numUpper:name: and …numLowerTensor:numUpperTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.band_part(g.constant([[1, 2, 3], [4, 5, 6], [7, 8, 9]]), 0, 1)).tolist()
        [[1, 2, 0], [0, 5, 6], [0, 0, 9]]
        """
        operands, attributes = self._tensor_attributes("band_part", num_lower=num_lower, num_upper=num_upper)
        return self._tensor("band_part", [x, *operands], name, **attributes)
