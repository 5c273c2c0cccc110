"""Picking by index: along an axis, by index vectors, element by element; the gradient of gather; one-hot vectors."""

from __future__ import annotations

from ._family import DTypeLike, Family, ShapeLike, Tensor, as_dtype


class Gather(Family):
    """gather, gather_gradient, gather_nd, gather_along_axis, one_hot."""

    def gather(
        self, updates: Tensor, indices: Tensor, axis: int = 0, batch_dimensions: int = 0, name: str | None = None
    ) -> Tensor:
        """Slices of a tensor, picked by index.

        result[b..., o..., i..., r...] = updates[b..., o..., indices[b..., i...], r...], the index at `axis`.
        Args: updates, any dtype; indices, int32 or int64, from 0 to the axis' size - 1 (others give zeros); axis, at
        least batch_dimensions; batch_dimensions, leading axes that updates and indices share. Result: updates' dtype.
        Errors: ShapeError, DTypeError. Gradient: gather_gradient to updates, none to indices.
        Source: MPSGraph gatherWithUpdatesTensor:indicesTensor:axis:batchDimensions:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.gather(g.constant([10.0, 20.0, 30.0]), g.constant([2, 0]))).tolist()
        [30.0, 10.0]
        """
        return self._tensor("gather", [updates, indices], name, axis=axis, batch_dimensions=batch_dimensions)

    def gather_gradient(
        self,
        incoming: Tensor,
        indices: Tensor,
        input_shape: ShapeLike,
        axis: int = 0,
        batch_dimensions: int = 0,
        name: str | None = None,
    ) -> Tensor:
        """Gradient of gather with respect to its updates: a scatter that adds.

        result = zeros of input_shape, with each slice of incoming added at its index.
        Args: incoming, shaped as gather's result; input_shape, the updates' shape, ints or an int tensor of rank 1;
        the rest as given to gather. Result: input_shape, incoming's dtype. Errors: ShapeError, DTypeError.
        Gradient: gather to incoming. Source: ours; MPSGraph differentiates gather through scatter with mode add.

        >>> g = mg.Graph()
        >>> d, i = g.constant([1.0, 2.0, 3.0]), g.constant([2, 0, 2])
        >>> g.run({}, g.gather_gradient(d, i, (3,))).tolist()
        [2.0, 0.0, 4.0]
        """
        kind = "gather_gradient"
        inputs = [incoming, indices, self._shape_operand(input_shape, kind)]
        return self._tensor(kind, inputs, name, axis=axis, batch_dimensions=batch_dimensions)

    def gather_nd(self, updates: Tensor, indices: Tensor, batch_dimensions: int = 0, name: str | None = None) -> Tensor:
        """Slices of a tensor, picked by index vectors.

        result[b..., i..., r...] = updates[b..., indices[b..., i..., 0], indices[b..., i..., 1], ..., r...].
        Args: updates, any dtype; indices, integers, their last axis the vectors, of at most as many elements as updates
        has axes behind the batch; an index outside gives zeros; batch_dimensions, leading axes that both share.
        Result: updates' dtype. Errors: ShapeError, DTypeError. Gradient: scatter_nd of incoming to updates.
        Source: MPSGraph gatherNDWithUpdatesTensor:indicesTensor:batchDimensions:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.gather_nd(g.constant([[1, 2], [3, 4]]), g.constant([[0, 1], [1, 0]]))).tolist()
        [2, 3]
        """
        return self._tensor("gather_nd", [updates, indices], name, batch_dimensions=batch_dimensions)

    def gather_along_axis(
        self, axis: int | Tensor, updates: Tensor, indices: Tensor, name: str | None = None
    ) -> Tensor:
        """Elements of a tensor, each picked by an index of its own along an axis.

        result[..., i, ...] = updates[..., indices[..., i, ...], ...], the index at `axis`.
        Args: axis, an int, negative counts from the end, or one in an int tensor; updates, any dtype; indices,
        integers, shaped as updates but for `axis`; an index outside gives zero. Result: updates' dtype, indices' shape.
        Errors: ShapeError, DTypeError. Gradient: scatter_along_axis of incoming to updates.
        Source: MPSGraph gatherAlongAxis:withUpdatesTensor:indicesTensor:name: and gatherAlongAxisTensor:….

        >>> g = mg.Graph()
        >>> g.run({}, g.gather_along_axis(1, g.constant([[1, 2], [3, 4]]), g.constant([[1, 1], [0, 1]]))).tolist()
        [[2, 2], [3, 4]]
        """
        kind = "gather_along_axis"
        operands, attributes = self._tensor_attributes(kind, axis=axis)
        return self._tensor(kind, [updates, indices, *operands], name, **attributes)

    def one_hot(
        self,
        indices: Tensor,
        depth: int,
        axis: int = -1,
        dtype: DTypeLike = "float32",
        on_value: float = 1.0,
        off_value: float = 0.0,
        name: str | None = None,
    ) -> Tensor:
        """Vectors that are on at an index and off elsewhere.

        result[..., k, ...] = k == indices[...] ? on_value : off_value, k along a new axis of size `depth`.
        Args: indices, an integer dtype, numbers outside 0..depth - 1 are on nowhere; axis, where the new one goes in
        the result; dtype, the result's; on_value, off_value, numbers of that dtype, integers of 64 bits exactly.
        Errors: ShapeError, DTypeError. Gradient: none, indices are integers.
        Source: MPSGraph oneHotWithIndicesTensor:depth:axis:dataType:onValue:offValue:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.one_hot(g.constant([1, 0]), 3)).tolist()
        [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
        """
        values = {"on_value": on_value, "off_value": off_value}
        return self._tensor("one_hot", [indices], name, depth=depth, axis=axis, dtype=as_dtype(dtype), **values)
