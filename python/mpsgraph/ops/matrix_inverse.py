"""Inverses of square matrices."""

from __future__ import annotations

from ._family import Family, Tensor


class MatrixInverse(Family):
    """Graph methods for matrix inverses."""

    def matrix_inverse(self, x: Tensor, name: str | None = None) -> Tensor:
        """Invert square matrices, batched over the leading axes.

        result @ x = x @ result = identity matrix.

        Args:
            x: Floating-point tensor of shape (..., n, n).
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x. The result for a singular matrix contains infinities or NaN.

        Raises:
            ShapeError: If the last two axes of x are not square.
            DTypeError: If x is not floating-point.

        Gradient: -result^T @ incoming gradient @ result^T.

        Source: MPSGraph inverseOfTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.matrix_inverse(g.constant([[2.0, 0.0], [0.0, 4.0]]))).tolist()
            [[0.5, 0.0], [0.0, 0.25]]
        """
        return self._tensor("matrix_inverse", [x], name)
