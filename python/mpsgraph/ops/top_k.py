"""The k largest or smallest elements along an axis, with their indices, and the corresponding gradients."""

from __future__ import annotations

from ._family import Family, Tensor


class TopK(Family):
    """Graph methods for top_k, bottom_k, and their gradients."""

    def top_k(self, x: Tensor, k: int | Tensor, axis: int | Tensor = -1, name: str | None = None) -> list[Tensor]:
        """Return the k largest elements along an axis, in descending order, and their indices.

        Equal elements are in the order of their indices. NaN is greater than any number.

        Args:
            x: Tensor of any dtype that is not complex.
            k: Number of elements, at most the size of the axis: an int or an integer tensor of one element.
            axis: Axis to search: an int, where negative values count from the end, or an integer tensor of one element.
                Defaults to the last axis.
            name: Name of the operation.

        Returns:
            [values, indices], with the dtype of x and int32, both with k elements along the axis.

        Raises:
            ShapeError: If axis is out of range, or k is negative or exceeds the size of the axis.
            DTypeError: If x is complex, or an axis or k tensor is not integer.

        Gradient: the incoming gradient of the values, at the positions of the selected elements.

        Source: MPSGraph topKWithSourceTensor:k:name:, …kTensor:, …axis:k: and …axisTensor:kTensor:.

        Example:
            >>> g = mg.Graph()
            >>> values, indices = g.top_k(g.constant([3.0, 1.0, 2.0]), 2)
            >>> g.run({}, values).tolist(), g.run({}, indices).tolist()
            ([3.0, 2.0], [0, 2])
        """
        return self._best("top_k", [x], k, axis, name)

    def bottom_k(self, x: Tensor, k: int | Tensor, axis: int | Tensor = -1, name: str | None = None) -> list[Tensor]:
        """Return the k smallest elements along an axis, in ascending order, and their indices.

        Equal elements are in the order of their indices. NaN is greater than any number.

        Args:
            x: Tensor of any dtype that is not complex.
            k: Number of elements, at most the size of the axis: an int or an integer tensor of one element.
            axis: Axis to search: an int, where negative values count from the end, or an integer tensor of one element.
                Defaults to the last axis.
            name: Name of the operation.

        Returns:
            [values, indices], with the dtype of x and int32, both with k elements along the axis.

        Raises:
            ShapeError: If axis is out of range, or k is negative or exceeds the size of the axis.
            DTypeError: If x is complex, or an axis or k tensor is not integer.

        Gradient: the incoming gradient of the values, at the positions of the selected elements.

        Source: MPSGraph bottomKWithSourceTensor:axis:k:name: and …axisTensor:kTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> values, indices = g.bottom_k(g.constant([3.0, 1.0, 2.0]), 2)
            >>> g.run({}, values).tolist(), g.run({}, indices).tolist()
            ([1.0, 2.0], [1, 2])
        """
        return self._best("bottom_k", [x], k, axis, name)

    def top_k_gradient(
        self, incoming: Tensor, source: Tensor, k: int | Tensor, axis: int | Tensor = -1, name: str | None = None
    ) -> Tensor:
        """Compute the gradient of the values of top_k with respect to its source.

        result = incoming at the positions of the k largest elements of source, zeros elsewhere.

        Args:
            incoming: Gradient with respect to the values returned by top_k, with the shape of those values.
            source: The x given to top_k.
            k: The k given to top_k.
            axis: The axis given to top_k. Defaults to the last axis.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of source.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, axis is out of range, or k exceeds the size of
                the axis.
            DTypeError: If source is bool or complex, or the dtypes differ.

        Gradient: to incoming, the elements of the incoming gradient at the k largest elements; to source, zero.

        Source: MPSGraph topKWithGradientTensor:source:k:name:, …kTensor:, …axis:k: and …axisTensor:kTensor:.

        Example:
            >>> g = mg.Graph()
            >>> x = g.constant([3.0, 1.0, 2.0])
            >>> g.run({}, g.top_k_gradient(g.constant([10.0, 20.0]), x, 2)).tolist()
            [10.0, 0.0, 20.0]
        """
        return self._best("top_k_gradient", [incoming, source], k, axis, name)[0]

    def bottom_k_gradient(
        self, incoming: Tensor, source: Tensor, k: int | Tensor, axis: int | Tensor = -1, name: str | None = None
    ) -> Tensor:
        """Compute the gradient of the values of bottom_k with respect to its source.

        result = incoming at the positions of the k smallest elements of source, zeros elsewhere.

        Args:
            incoming: Gradient with respect to the values returned by bottom_k, with the shape of those values.
            source: The x given to bottom_k.
            k: The k given to bottom_k.
            axis: The axis given to bottom_k. Defaults to the last axis.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of source.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, axis is out of range, or k exceeds the size of
                the axis.
            DTypeError: If source is bool or complex, or the dtypes differ.

        Gradient: to incoming, the elements of the incoming gradient at the k smallest elements; to source, zero.

        Source: MPSGraph bottomKWithGradientTensor:source:axis:k:name: and …axisTensor:kTensor:name:.

        Example:
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
