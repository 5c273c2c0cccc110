"""Selection by index: along an axis, by index vectors, and element by element; the gradient of gather; one-hot vectors.

`out_of_range` determines what happens to an index outside its axis, including a negative one. "zeros" selects zeros,
which receive no gradient; "clip" uses the nearest valid index, which receives the gradient; "error" makes the run raise
OutOfRangeError, which names the index, its position, the axis, and the length of the axis, and leaves variables
unchanged. For an index that is known when the graph is built or compiled, the error is raised at that time.
"""

from __future__ import annotations

from typing import Any

from ._family import DTypeLike, Family, ShapeLike, Tensor, as_dtype


class Gather(Family):
    """Graph methods for gather operations, the gradient of gather, and one_hot."""

    def gather(
        self,
        updates: Tensor,
        indices: Tensor,
        axis: int = 0,
        batch_dimensions: int = 0,
        name: str | None = None,
        *,
        out_of_range: str = "zeros",
    ) -> Tensor:
        """Select slices of a tensor along an axis by index.

        result[b..., o..., i..., r...] = updates[b..., o..., indices[b..., i...], r...], with the index at position
        `axis`.

        Args:
            updates: Tensor of any dtype to select from.
            indices: Tensor of int32 or int64, from 0 to the size of the axis - 1.
            axis: Axis of updates to select along, at least batch_dimensions. Defaults to 0.
            batch_dimensions: Number of leading axes that updates and indices share. Defaults to 0.
            name: Name of the operation.
            out_of_range: Handling of indices outside the axis, including negative ones: "zeros" (the default) returns
                zeros for them, "clip" uses the nearest valid index, and "error" makes the run raise OutOfRangeError.

        Returns:
            A tensor with the dtype of updates, in which the axes of indices replace `axis`.

        Raises:
            ShapeError: If axis or batch_dimensions is out of range, or the batch dimensions differ.
            DTypeError: If indices are not integers.
            GraphError: If out_of_range has an unknown value.
            OutOfRangeError: If out_of_range is "error" and an index known at this point is out of range.

        Gradient: computed by gather_gradient for updates; none for indices.

        Source: MPSGraph gatherWithUpdatesTensor:indicesTensor:axis:batchDimensions:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.gather(g.constant([10.0, 20.0, 30.0]), g.constant([2, 0]))).tolist()
            [30.0, 10.0]
        """
        attributes: dict[str, Any] = {"axis": axis, "batch_dimensions": batch_dimensions, "out_of_range": out_of_range}
        return self._tensor("gather", [updates, indices], name, **attributes)

    def gather_gradient(
        self,
        incoming: Tensor,
        indices: Tensor,
        input_shape: ShapeLike,
        axis: int = 0,
        batch_dimensions: int = 0,
        name: str | None = None,
        *,
        out_of_range: str = "zeros",
    ) -> Tensor:
        """Compute the gradient of gather with respect to its updates, by adding slices at their indices.

        result = zeros of input_shape, with each slice of incoming added at its index.

        Args:
            incoming: Gradient with respect to the result of gather, with the shape of that result.
            indices: The indices given to gather.
            input_shape: Shape of updates, as ints or as an integer tensor of rank 1.
            axis: The axis given to gather. Defaults to 0.
            batch_dimensions: The number of batch dimensions given to gather. Defaults to 0.
            name: Name of the operation.
            out_of_range: Handling of gradients for indices outside the axis: "zeros" (the default) drops them, "clip"
                adds them at the nearest valid index, and "error" makes the run raise OutOfRangeError.

        Returns:
            A tensor of shape input_shape, with the dtype of incoming.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or axis is out of range.
            DTypeError: If indices are not integers.
            GraphError: If out_of_range has an unknown value.
            OutOfRangeError: If out_of_range is "error" and an index known at this point is out of range.

        Gradient: computed by gather for incoming.

        Source: this package; MPSGraph differentiates gather through scatter.

        Example:
            >>> g = mg.Graph()
            >>> d, i = g.constant([1.0, 2.0, 3.0]), g.constant([2, 0, 2])
            >>> g.run({}, g.gather_gradient(d, i, (3,))).tolist()
            [2.0, 0.0, 4.0]
        """
        kind = "gather_gradient"
        inputs = [incoming, indices, self._shape_operand(input_shape, kind)]
        attributes: dict[str, Any] = {"axis": axis, "batch_dimensions": batch_dimensions, "out_of_range": out_of_range}
        return self._tensor(kind, inputs, name, **attributes)

    def gather_nd(
        self,
        updates: Tensor,
        indices: Tensor,
        batch_dimensions: int = 0,
        name: str | None = None,
        *,
        out_of_range: str = "zeros",
    ) -> Tensor:
        """Select slices of a tensor by index vectors.

        result[b..., i..., r...] = updates[b..., indices[b..., i..., 0], indices[b..., i..., 1], ..., r...].

        Args:
            updates: Tensor of any dtype to select from.
            indices: Integer tensor whose last axis holds the index vectors; a vector has at most one index for each
                axis of updates after the batch dimensions.
            batch_dimensions: Number of leading axes that updates and indices share. Defaults to 0.
            name: Name of the operation.
            out_of_range: Handling of index vectors with an index outside its axis: "zeros" (the default) returns zeros
                for them, "clip" uses the nearest valid indices, and "error" makes the run raise OutOfRangeError.

        Returns:
            A tensor with the dtype of updates.

        Raises:
            ShapeError: If the index vectors are too long, or the batch dimensions differ.
            DTypeError: If indices are not integers.
            GraphError: If out_of_range has an unknown value.
            OutOfRangeError: If out_of_range is "error" and an index known at this point is out of range.

        Gradient: scatter_nd of the incoming gradient to updates; none to indices.

        Source: MPSGraph gatherNDWithUpdatesTensor:indicesTensor:batchDimensions:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.gather_nd(g.constant([[1, 2], [3, 4]]), g.constant([[0, 1], [1, 0]]))).tolist()
            [2, 3]
        """
        attributes: dict[str, Any] = {"batch_dimensions": batch_dimensions, "out_of_range": out_of_range}
        return self._tensor("gather_nd", [updates, indices], name, **attributes)

    def gather_along_axis(
        self,
        axis: int | Tensor,
        updates: Tensor,
        indices: Tensor,
        name: str | None = None,
        *,
        out_of_range: str = "zeros",
    ) -> Tensor:
        """Select elements of a tensor along an axis, with a separate index for each element of the result.

        result[..., i, ...] = updates[..., indices[..., i, ...], ...], with the index at position `axis`.

        Args:
            axis: Axis to select along: an int, where negative values count from the end, or an integer tensor of one
                element.
            updates: Tensor of any dtype to select from.
            indices: Integer tensor with the shape of updates except along `axis`.
            name: Name of the operation.
            out_of_range: Handling of indices outside the axis, including negative ones: "zeros" (the default) returns
                zeros for them, "clip" uses the nearest valid index, and "error" makes the run raise OutOfRangeError.

        Returns:
            A tensor with the shape of indices and the dtype of updates.

        Raises:
            ShapeError: If axis is out of range, or the shapes differ along any other axis.
            DTypeError: If indices are not integers.
            GraphError: If out_of_range has an unknown value.
            OutOfRangeError: If out_of_range is "error" and an index known at this point is out of range.

        Gradient: scatter_along_axis of the incoming gradient to updates; none to indices.

        Source: MPSGraph gatherAlongAxis:withUpdatesTensor:indicesTensor:name: and gatherAlongAxisTensor:….

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.gather_along_axis(1, g.constant([[1, 2], [3, 4]]), g.constant([[1, 1], [0, 1]]))).tolist()
            [[2, 2], [3, 4]]
        """
        kind = "gather_along_axis"
        operands, attributes = self._tensor_attributes(kind, axis=axis)
        return self._tensor(kind, [updates, indices, *operands], name, out_of_range=out_of_range, **attributes)

    def one_hot(
        self,
        indices: Tensor,
        depth: int,
        axis: int = -1,
        dtype: DTypeLike = "float32",
        on_value: float = 1.0,
        off_value: float = 0.0,
        name: str | None = None,
        *,
        out_of_range: str = "zeros",
    ) -> Tensor:
        """Convert indices to one-hot vectors along a new axis.

        result[..., k, ...] = k == indices[...] ? on_value : off_value, where k is the index along the new axis.

        Args:
            indices: Integer tensor with values from 0 to depth - 1.
            depth: Size of the new axis.
            axis: Position of the new axis in the result; negative values count from the end. Defaults to the last axis.
            dtype: dtype of the result. Defaults to float32.
            on_value: Value at the index, representable in dtype; 64-bit integers are exact. Defaults to 1.
            off_value: Value elsewhere, representable in dtype; 64-bit integers are exact. Defaults to 0.
            name: Name of the operation.
            out_of_range: Handling of indices outside 0 to depth - 1: "zeros" (the default) gives a vector of off_value,
                "clip" uses the nearest valid index, and "error" makes the run raise OutOfRangeError.

        Returns:
            A tensor of the given dtype, with one more axis than indices.

        Raises:
            ShapeError: If depth is negative or axis is out of range.
            DTypeError: If indices are not integers, or a value is not representable in dtype.
            GraphError: If out_of_range has an unknown value.
            OutOfRangeError: If out_of_range is "error" and an index known at this point is out of range.

        Gradient: none, because indices are integers.

        Source: MPSGraph oneHotWithIndicesTensor:depth:axis:dataType:onValue:offValue:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.one_hot(g.constant([1, 0]), 3)).tolist()
            [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
        """
        values: dict[str, Any] = {"on_value": on_value, "off_value": off_value, "out_of_range": out_of_range}
        return self._tensor("one_hot", [indices], name, depth=depth, axis=axis, dtype=as_dtype(dtype), **values)
