"""Inverses of square matrices."""

from __future__ import annotations

from ._family import Family, Tensor


class MatrixInverse(Family):
    """matrix_inverse."""

    def matrix_inverse(self, x: Tensor, name: str | None = None) -> Tensor:
        """The inverses of square matrices, batched over the leading axes.

        result @ x = x @ result = the identity.
        Args: x (..., n, n), a float dtype. Result: x's type; of a singular matrix it holds infinities or NaN.
        Errors: ShapeError, DTypeError. Gradient: -result^T @ incoming @ result^T.
        Source: MPSGraph inverseOfTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.matrix_inverse(g.constant([[2.0, 0.0], [0.0, 4.0]]))).tolist()
        [[0.5, 0.0], [0.0, 0.25]]
        """
        return self._tensor("matrix_inverse", [x], name)
