"""Blocks of spatial axes moved to another axis and back, reversal, coordinates, and reinterpretation of bits.

Axes and block sizes may be integer tensors whose value is known only when the graph runs.
"""

from __future__ import annotations

from typing import Any

from ._family import AttributeLike, DTypeLike, Family, ShapeLike, Tensor, as_dtype


class ShapeBlocks(Family):
    """Graph methods for space_to_depth2d, depth_to_space2d, space_to_batch, batch_to_space, reverse, and similar
    operations.
    """

    def space_to_depth2d(
        self,
        x: Tensor,
        width_axis: int | Tensor,
        height_axis: int | Tensor,
        depth_axis: int | Tensor,
        block_size: int,
        use_pixel_shuffle_order: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Move square blocks of height and width to the depth axis.

        result[y, x, (i * block_size + j) * depth + d] = x[y * block_size + i, x * block_size + j, d]. Here, depth is
        the size of the depth axis of x. With use_pixel_shuffle_order, the depth index is (d * block_size + i) *
        block_size + j.

        Args:
            x: Tensor of any dtype, whose height and width are divisible by block_size.
            width_axis: Axis of the width: an int, where negative values count from the end, or an integer tensor.
            height_axis: Axis of the height: an int, where negative values count from the end, or an integer tensor.
            depth_axis: Axis of the depth: an int, where negative values count from the end, or an integer tensor.
            block_size: Height and width of a block.
            use_pixel_shuffle_order: Whether the position in the block varies faster than the depth of x. Defaults to
                False.
            name: Name of the operation.

        Returns:
            A tensor with the dtype of x.

        Raises:
            ShapeError: If an axis is out of range or repeated, or the height or width is not divisible by block_size.
            DTypeError: If an axis tensor is not integer.

        Gradient: depth_to_space2d of the incoming gradient.

        Source: MPSGraph spaceToDepth2DTensor:widthAxis:heightAxis:depthAxis:blockSize:usePixelShuffleOrder:name: and
        its variant with widthAxisTensor:heightAxisTensor:depthAxisTensor:.

        Example:
            >>> g = mg.Graph()
            >>> x = g.constant([[[1], [2]], [[3], [4]]])
            >>> g.run({}, g.space_to_depth2d(x, width_axis=1, height_axis=0, depth_axis=2, block_size=2)).tolist()
            [[[1, 2, 3, 4]]]
        """
        axes = {"width_axis": width_axis, "height_axis": height_axis, "depth_axis": depth_axis}
        return self._blocks("space_to_depth2d", x, axes, use_pixel_shuffle_order, name, block_size=block_size)

    def depth_to_space2d(
        self,
        x: Tensor,
        width_axis: int | Tensor,
        height_axis: int | Tensor,
        depth_axis: int | Tensor,
        block_size: int,
        use_pixel_shuffle_order: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Move the depth axis to square blocks of height and width, the inverse of space_to_depth2d.

        result[y * block_size + i, x * block_size + j, d] = x[y, x, (i * block_size + j) * depth + d]. Here, depth is
        the size of the depth axis of the result. With use_pixel_shuffle_order, the depth index is (d * block_size + i)
        * block_size + j, as in PyTorch's pixel_shuffle.

        Args:
            x: Tensor of any dtype, whose depth is divisible by the square of block_size.
            width_axis: Axis of the width: an int, where negative values count from the end, or an integer tensor.
            height_axis: Axis of the height: an int, where negative values count from the end, or an integer tensor.
            depth_axis: Axis of the depth: an int, where negative values count from the end, or an integer tensor.
            block_size: Height and width of a block.
            use_pixel_shuffle_order: Whether the position in the block varies faster than the depth of the result.
                Defaults to False.
            name: Name of the operation.

        Returns:
            A tensor with the dtype of x.

        Raises:
            ShapeError: If an axis is out of range or repeated, or the depth is not divisible by the square of
                block_size.
            DTypeError: If an axis tensor is not integer.

        Gradient: space_to_depth2d of the incoming gradient.

        Source: MPSGraph depthToSpace2DTensor:widthAxis:heightAxis:depthAxis:blockSize:usePixelShuffleOrder:name: and
        its variant with widthAxisTensor:heightAxisTensor:depthAxisTensor:.

        Example:
            >>> g = mg.Graph()
            >>> x = g.constant([[[1, 2, 3, 4]]])
            >>> g.run({}, g.depth_to_space2d(x, width_axis=1, height_axis=0, depth_axis=2, block_size=2)).tolist()
            [[[1], [2]], [[3], [4]]]
        """
        axes = {"width_axis": width_axis, "height_axis": height_axis, "depth_axis": depth_axis}
        return self._blocks("depth_to_space2d", x, axes, use_pixel_shuffle_order, name, block_size=block_size)

    def space_to_batch(
        self,
        x: Tensor,
        spatial_axes: AttributeLike,
        batch_axis: int | Tensor,
        block_dimensions: AttributeLike,
        use_pixel_shuffle_order: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Move blocks of any number of axes to another axis.

        For two axes and blocks of (p, q), result[(i * q + j) * n + b, y, x] = x[b, y * p + i, x * q + j]. Here, n is
        the size of the batch axis of x. With use_pixel_shuffle_order, the batch index is (b * p + i) * q + j.

        Args:
            x: Tensor of any dtype.
            spatial_axes: Axes to divide into blocks, as ints or as an integer tensor of rank 1.
            batch_axis: Axis to move the blocks to: an int, where negative values count from the end, or an integer
                tensor.
            block_dimensions: Size of the block along each spatial axis, which must divide the axis, as ints or as an
                integer tensor.
            use_pixel_shuffle_order: Whether the position in the block varies faster than the batch index of x. Defaults
                to False.
            name: Name of the operation.

        Returns:
            A tensor with the dtype of x.

        Raises:
            ShapeError: If an axis is out of range or repeated, or an axis is not divisible by its block.
            DTypeError: If an axis or block tensor is not integer.

        Gradient: batch_to_space of the incoming gradient.

        Source: MPSGraph spaceToBatchTensor:spatialAxes:batchAxis:blockDimensions:usePixelShuffleOrder:name: and its
        variant with spatialAxesTensor:batchAxisTensor:blockDimensionsTensor:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.space_to_batch(g.constant([[1, 2, 3, 4]]), [1], 0, [2])).tolist()
            [[1, 3], [2, 4]]
        """
        values = {"spatial_axes": spatial_axes, "batch_axis": batch_axis, "block_dimensions": block_dimensions}
        return self._blocks("space_to_batch", x, values, use_pixel_shuffle_order, name)

    def batch_to_space(
        self,
        x: Tensor,
        spatial_axes: AttributeLike,
        batch_axis: int | Tensor,
        block_dimensions: AttributeLike,
        use_pixel_shuffle_order: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Move one axis to blocks of other axes, the inverse of space_to_batch.

        For two axes and blocks of (p, q), result[b, y * p + i, x * q + j] = x[(i * q + j) * n + b, y, x]. Here, n is
        the size of the batch axis of the result. With use_pixel_shuffle_order, the batch index is (b * p + i) * q + j.

        Args:
            x: Tensor of any dtype, whose batch axis is divisible by the number of elements of a block.
            spatial_axes: Axes to enlarge by blocks, as ints or as an integer tensor of rank 1.
            batch_axis: Axis to take the blocks from: an int, where negative values count from the end, or an integer
                tensor.
            block_dimensions: Size of the block along each spatial axis, as ints or as an integer tensor.
            use_pixel_shuffle_order: Whether the position in the block varies faster than the batch index of the result.
                Defaults to False.
            name: Name of the operation.

        Returns:
            A tensor with the dtype of x.

        Raises:
            ShapeError: If an axis is out of range or repeated, or the batch axis is not divisible by the size of a
                block.
            DTypeError: If an axis or block tensor is not integer.

        Gradient: space_to_batch of the incoming gradient.

        Source: MPSGraph batchToSpaceTensor:spatialAxes:batchAxis:blockDimensions:usePixelShuffleOrder:name: and its
        variant with spatialAxesTensor:batchAxisTensor:blockDimensionsTensor:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.batch_to_space(g.constant([[1, 3], [2, 4]]), [1], 0, [2])).tolist()
            [[1, 2, 3, 4]]
        """
        values = {"spatial_axes": spatial_axes, "batch_axis": batch_axis, "block_dimensions": block_dimensions}
        return self._blocks("batch_to_space", x, values, use_pixel_shuffle_order, name)

    def reverse(self, x: Tensor, axes: AttributeLike | None = None, name: str | None = None) -> Tensor:
        """Reverse the order of elements along axes.

        Args:
            x: Tensor of any dtype.
            axes: Axes to reverse: an int, a sequence of ints, an integer tensor of rank 1, or None (the default) for
                all; negative values count from the end.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            ShapeError: If an axis is out of range or repeated.
            DTypeError: If an axes tensor is not integer.

        Gradient: the incoming gradient, reversed.

        Source: MPSGraph reverseTensor:axesTensor:name:, reverseTensor:axes:name: and reverseTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.reverse(g.constant([[1, 2], [3, 4]]), 1)).tolist()
            [[2, 1], [4, 3]]
        """
        if axes is None:
            return self._tensor("reverse", [x], name, all_axes=True)
        operands, attributes = self._tensor_attributes("reverse", axes=[axes] if isinstance(axes, int) else axes)
        return self._tensor("reverse", [x, *operands], name, **attributes)

    def coordinate_along_axis(self, axis: int | Tensor, shape: ShapeLike, name: str | None = None) -> Tensor:
        """Return the index of each element along an axis.

        result[i_0, i_1, ...] = i_axis.

        Args:
            axis: Axis of the index: an int, where negative values count from the end, or an integer tensor of one
                element.
            shape: Shape of the result, as ints or as an integer tensor of rank 1.
            name: Name of the operation.

        Returns:
            An int32 tensor of the given shape.

        Raises:
            ShapeError: If axis is out of range, or shape has negative sizes.
            DTypeError: If an axis or shape tensor is not integer.

        Gradient: none, because the result does not depend on a differentiable operand.

        Source: MPSGraph coordinateAlongAxis:withShape:name:, …withShapeTensor:name:, coordinateAlongAxisTensor:….

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.coordinate_along_axis(0, (3, 2))).tolist()
            [[0, 0], [1, 1], [2, 2]]
        """
        kind = "coordinate_along_axis"
        operands, attributes = self._tensor_attributes(kind, axis=axis)
        return self._tensor(kind, [self._shape_operand(shape, kind), *operands], name, **attributes)

    def reinterpret_cast(self, x: Tensor, dtype: DTypeLike, name: str | None = None) -> Tensor:
        """Reinterpret the bytes of a tensor as another dtype.

        The size of the last axis changes with the size of the elements.

        Args:
            x: Tensor of any dtype.
            dtype: dtype of the result.
            name: Name of the operation.

        Returns:
            A tensor of the given dtype that consists of the same bytes.

        Raises:
            ShapeError: If the last axis does not hold a whole number of elements.
            DTypeError: If dtype is not supported.

        Gradient: none (UnsupportedError), unless the dtype is that of x.

        Source: MPSGraph reinterpretCastTensor:toType:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.reinterpret_cast(g.constant([1.0]), mg.int32)).tolist()
            [1065353216]
        """
        return self._tensor("reinterpret_cast", [x], name, dtype=as_dtype(dtype))

    def _blocks(
        self, kind: str, x: Tensor, values: dict[str, Any], shuffle: bool, name: str | None, **more: int
    ) -> Tensor:
        operands, attributes = self._tensor_attributes(kind, **values)
        return self._tensor(kind, [x, *operands], name, use_pixel_shuffle_order=shuffle, **attributes, **more)
