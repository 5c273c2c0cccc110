"""The k largest or smallest elements along an axis, with their indices, and the gradients of that."""

from __future__ import annotations

from ._family import Family, Tensor


class TopK(Family):
    """top_k to bottom_k_gradient."""

    def top_k(self, x: Tensor, k: int | Tensor, axis: int | Tensor = -1, name: str | None = None) -> list[Tensor]:
        """The k largest elements along an axis, the largest first, and their indices.

        Of equal elements the first come first; NaN counts as larger than every number.
        Args: x, any dtype; k, at most the axis' size, an int or one in an int tensor; axis, an int, negative counts
        from the end, or one in an int tensor. Result: [values in x's dtype, indices in int32], both with k elements
        along the axis. Errors: ShapeError, DTypeError. Gradient: incoming for the values, back where they stood.
        Source: MPSGraph topKWithSourceTensor:k:name:, …kTensor:, …axis:k: and …axisTensor:kTensor:.

        >>> g = mg.Graph()
        >>> values, indices = g.top_k(g.constant([3.0, 1.0, 2.0]), 2)
        >>> g.run({}, values).tolist(), g.run({}, indices).tolist()
        ([3.0, 2.0], [0, 2])
        """
        return self._best("top_k", [x], k, axis, name)

    def bottom_k(self, x: Tensor, k: int | Tensor, axis: int | Tensor = -1, name: str | None = None) -> list[Tensor]:
        """The k smallest elements along an axis, the smallest first, and their indices.

        Of equal elements the first come first; NaN counts as larger than every number.
        Args: as top_k. Result: [values in x's dtype, indices in int32], both with k elements along the axis.
        Errors: ShapeError, DTypeError. Gradient: incoming for the values, back where they stood.
        Source: MPSGraph bottomKWithSourceTensor:axis:k:name: and …axisTensor:kTensor:name:.

        >>> g = mg.Graph()
        >>> values, indices = g.bottom_k(g.constant([3.0, 1.0, 2.0]), 2)
        >>> g.run({}, values).tolist(), g.run({}, indices).tolist()
        ([1.0, 2.0], [1, 2])
        """
        return self._best("bottom_k", [x], k, axis, name)

    def top_k_gradient(
        self, incoming: Tensor, source: Tensor, k: int | Tensor, axis: int | Tensor = -1, name: str | None = None
    ) -> Tensor:
        """Gradient of top_k's values: incoming where the k largest stand, zeros elsewhere.

        Args: incoming, shaped as top_k's values; source, x of top_k; k and axis as given to it. Result: source's type.
        Errors: ShapeError, DTypeError. Gradient: incoming's, picked at the k largest; zero for source.
        Source: MPSGraph topKWithGradientTensor:source:k:name:, …kTensor:, …axis:k: and …axisTensor:kTensor:.

        >>> g = mg.Graph()
        >>> x = g.constant([3.0, 1.0, 2.0])
        >>> g.run({}, g.top_k_gradient(g.constant([10.0, 20.0]), x, 2)).tolist()
        [10.0, 0.0, 20.0]
        """
        return self._best("top_k_gradient", [incoming, source], k, axis, name)[0]

    def bottom_k_gradient(
        self, incoming: Tensor, source: Tensor, k: int | Tensor, axis: int | Tensor = -1, name: str | None = None
    ) -> Tensor:
        """Gradient of bottom_k's values: incoming where the k smallest stand, zeros elsewhere.

        Args: incoming, shaped as bottom_k's values; source, x of bottom_k; k and axis as given to it. Result: source's
        type. Errors: ShapeError, DTypeError. Gradient: incoming's, picked at the k smallest; zero for source.
        Source: MPSGraph bottomKWithGradientTensor:source:axis:k:name: and …axisTensor:kTensor:name:.

        >>> g = mg.Graph()
        >>> x = g.constant([3.0, 1.0, 2.0])
        >>> g.run({}, g.bottom_k_gradient(g.constant([10.0, 20.0]), x, 2)).tolist()
        [0.0, 10.0, 20.0]
        """
        return self._best("bottom_k_gradient", [incoming, source], k, axis, name)[0]

    def _best(
        self, kind: str, inputs: list[Tensor], k: int | Tensor, axis: int | Tensor, name: str | None
    ) -> list[Tensor]:
        operands, attributes = self._tensor_attributes(kind, axis=axis, k=k)
        return self._tensors(kind, [*inputs, *operands], name, **attributes)
