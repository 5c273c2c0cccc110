"""Blocks of space moved to another axis and back, reversal, coordinates, bits seen as another element type.

Axes and block sizes may be integer tensors, whose value is read when the graph runs.
"""

from __future__ import annotations

from typing import Any

from ._family import AttributeLike, DTypeLike, Family, ShapeLike, Tensor, as_dtype


class ShapeBlocks(Family):
    """space_to_depth2d to reinterpret_cast."""

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
        """Square blocks of the plane laid along the depth.

        result[y, x, (i * block_size + j) * depth + d] = x[y * block_size + i, x * block_size + j, d]; with
        use_pixel_shuffle_order the depth is (d * block_size + i) * block_size + j.
        Args: x, any dtype, its height and width divisible by block_size; the axes, ints, negative counts from the end,
        or int tensors; block_size; use_pixel_shuffle_order, blocks within the depth instead of around it. Result: x's
        dtype.
        Errors: ShapeError, DTypeError. Gradient: depth_to_space2d of incoming.
        Source: MPSGraph spaceToDepth2DTensor:widthAxis:heightAxis:depthAxis:blockSize:usePixelShuffleOrder:name: and
        with widthAxisTensor:heightAxisTensor:depthAxisTensor:.

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
        """The depth laid out as square blocks of the plane: the inverse of space_to_depth2d.

        result[y * block_size + i, x * block_size + j, d] = x[y, x, (i * block_size + j) * depth + d]; with
        use_pixel_shuffle_order the depth is (d * block_size + i) * block_size + j, as in PyTorch's pixel_shuffle.
        Args: x, any dtype, its depth divisible by the square of block_size; the rest as space_to_depth2d. Result: x's
        dtype. Errors: ShapeError, DTypeError. Gradient: space_to_depth2d of incoming.
        Source: MPSGraph depthToSpace2DTensor:widthAxis:heightAxis:depthAxis:blockSize:usePixelShuffleOrder:name: and
        with widthAxisTensor:heightAxisTensor:depthAxisTensor:.

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
        """Blocks of any number of axes laid along another one.

        For two axes and blocks of (p, q): result[(i * q + j) * n + b, y, x] = x[b, y * p + i, x * q + j]; with
        use_pixel_shuffle_order the batch is (b * p + i) * q + j.
        Args: x, any dtype; spatial_axes, ints or an int tensor of rank 1, each divisible by its block; batch_axis, an
        int or an int tensor; block_dimensions, one for each spatial axis, ints or an int tensor. Result: x's dtype.
        Errors: ShapeError, DTypeError. Gradient: batch_to_space of incoming.
        Source: MPSGraph spaceToBatchTensor:spatialAxes:batchAxis:blockDimensions:usePixelShuffleOrder:name: and with
        spatialAxesTensor:batchAxisTensor:blockDimensionsTensor:.

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
        """One axis laid out as blocks of others: the inverse of space_to_batch.

        For two axes and blocks of (p, q): result[b, y * p + i, x * q + j] = x[(i * q + j) * n + b, y, x]; with
        use_pixel_shuffle_order the batch is (b * p + i) * q + j.
        Args: x, any dtype, its batch divisible by the elements of a block; the rest as space_to_batch. Result: x's
        dtype.
        Errors: ShapeError, DTypeError. Gradient: space_to_batch of incoming.
        Source: MPSGraph batchToSpaceTensor:spatialAxes:batchAxis:blockDimensions:usePixelShuffleOrder:name: and with
        spatialAxesTensor:batchAxisTensor:blockDimensionsTensor:.

        >>> g = mg.Graph()
        >>> g.run({}, g.batch_to_space(g.constant([[1, 3], [2, 4]]), [1], 0, [2])).tolist()
        [[1, 2, 3, 4]]
        """
        values = {"spatial_axes": spatial_axes, "batch_axis": batch_axis, "block_dimensions": block_dimensions}
        return self._blocks("batch_to_space", x, values, use_pixel_shuffle_order, name)

    def reverse(self, x: Tensor, axes: AttributeLike | None = None, name: str | None = None) -> Tensor:
        """The elements in opposite order along some axes.

        Args: x, any dtype; axes, an int, ints or an int tensor of rank 1, negative counts from the end; None: all.
        Result: x's type. Errors: ShapeError, DTypeError. Gradient: incoming, reversed.
        Source: MPSGraph reverseTensor:axesTensor:name:, reverseTensor:axes:name: and reverseTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.reverse(g.constant([[1, 2], [3, 4]]), 1)).tolist()
        [[2, 1], [4, 3]]
        """
        if axes is None:
            return self._tensor("reverse", [x], name, all_axes=True)
        operands, attributes = self._tensor_attributes("reverse", axes=[axes] if isinstance(axes, int) else axes)
        return self._tensor("reverse", [x, *operands], name, **attributes)

    def coordinate_along_axis(self, axis: int | Tensor, shape: ShapeLike, name: str | None = None) -> Tensor:
        """Each element's own index along an axis.

        result[i_0, i_1, ...] = i_axis.
        Args: axis, an int, negative counts from the end, or one in an int tensor; shape, ints or an int tensor of rank
        1.
        Result: int32. Errors: ShapeError, DTypeError. Gradient: none, it depends on nothing that has one.
        Source: MPSGraph coordinateAlongAxis:withShape:name:, …withShapeTensor:name:, coordinateAlongAxisTensor:….

        >>> g = mg.Graph()
        >>> g.run({}, g.coordinate_along_axis(0, (3, 2))).tolist()
        [[0, 0], [1, 1], [2, 2]]
        """
        kind = "coordinate_along_axis"
        operands, attributes = self._tensor_attributes(kind, axis=axis)
        return self._tensor(kind, [self._shape_operand(shape, kind), *operands], name, **attributes)

    def reinterpret_cast(self, x: Tensor, dtype: DTypeLike, name: str | None = None) -> Tensor:
        """The same bytes seen as elements of another type; the last axis grows or shrinks with their size.

        Args: x, any dtype; dtype, the result's. Errors: ShapeError where the bytes make no whole number of elements.
        Gradient: none (UnsupportedError), except incoming for the same dtype.
        Source: MPSGraph reinterpretCastTensor:toType:name:.

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
