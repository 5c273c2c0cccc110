"""Shape operations: reshape, transpose, squeeze, broadcast, pad, tile, and cast. Slicing and joining are in
shape_slicing.

A shape operand is given as ints or as an int32 or int64 tensor of rank 1, so that shapes known only when the graph runs
work as well. `Graph.gradients` creates the gradient operations; they are public because MPSGraph exposes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._family import AttributeLike, DTypeLike, Family, ShapeError, ShapeLike, Tensor, as_dtype, ints


class Shape(Family):
    """Graph methods for shapes, padding, tiling, and casts."""

    def reshape(self, x: Tensor, shape: ShapeLike, name: str | None = None) -> Tensor:
        """Return the elements of x, in row-major order, with a new shape.

        Args:
            x: Tensor of any dtype.
            shape: New shape, as ints, of which one may be -1 to be inferred, or as an integer tensor of rank 1.
            name: Name of the operation.

        Returns:
            A tensor with the dtype of x and the given shape.

        Raises:
            ShapeError: If the numbers of elements differ.

        Gradient: the incoming gradient, reshaped to the shape of x.

        Source: MPSGraph reshapeTensor:withShape:name: and reshapeTensor:withShapeTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.reshape(g.constant([1, 2, 3, 4]), (2, -1))).tolist()
            [[1, 2], [3, 4]]
        """
        return self._tensor("reshape", [x, self._shape_operand(shape, "reshape")], name)

    def transpose(self, x: Tensor, permutation: Sequence[int], name: str | None = None) -> Tensor:
        """Permute the axes of a tensor.

        Axis i of the result is axis permutation[i] of x.

        Args:
            x: Tensor of any dtype.
            permutation: Each axis of x once, in the new order.
            name: Name of the operation.

        Returns:
            A tensor with the dtype of x and permuted axes.

        Raises:
            ShapeError: If permutation is not a permutation of the axes of x.

        Gradient: the incoming gradient, with the inverse permutation.

        Source: MPSGraph transposeTensor:permutation:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.transpose(g.constant([[1, 2], [3, 4]]), (1, 0))).tolist()
            [[1, 3], [2, 4]]
        """
        return self._tensor("transpose", [x], name, permutation=ints(permutation, "[transpose] permutation"))

    def swap_axes(self, x: Tensor, axis: int, other: int, name: str | None = None) -> Tensor:
        """Exchange two axes.

        Args:
            x: Tensor of any dtype, whose rank must be known.
            axis: First axis; negative values count from the end.
            other: Second axis; negative values count from the end.
            name: Name of the operation.

        Returns:
            A tensor with the dtype of x and two axes exchanged.

        Raises:
            ShapeError: If an axis is out of range, or the rank of x is unknown.

        Gradient: the incoming gradient, with the axes exchanged back.

        Source: MPSGraph transposeTensor:dimension:withDimension:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.swap_axes(g.constant(0.0, (2, 3, 4)), 0, -1).shape
            (4, 3, 2)
        """
        rank = len(known_shape(x, "swap_axes"))
        if not (-rank <= axis < rank and -rank <= other < rank):
            raise ShapeError(
                f"[swap_axes] axis and other must be between {-rank} and {rank - 1} for a tensor of shape {x.shape}, "
                f"got {axis} and {other}"
            )
        permutation = list(range(rank))
        permutation[axis], permutation[other] = permutation[other], permutation[axis]
        return self.transpose(x, permutation, name)

    def expand_dims(self, x: Tensor, axes: AttributeLike, name: str | None = None) -> Tensor:
        """Insert axes of size 1.

        Args:
            x: Tensor of any dtype.
            axes: Positions of the new axes in the result: an int, a sequence of ints, or an integer tensor of rank 1.
            name: Name of the operation.

        Returns:
            A tensor with the dtype and the elements of x.

        Raises:
            ShapeError: If an axis is out of range or repeated.

        Gradient: the incoming gradient, without the new axes.

        Source: MPSGraph expandDimsOfTensor:axis:name:, …axes:name: and …axesTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.expand_dims(g.constant(0.0, (2, 3)), (0, -1)).shape
            (1, 2, 3, 1)
        """
        operands, attributes = self._tensor_attributes("expand_dims", axes=_listed(axes))
        return self._tensor("expand_dims", [x, *operands], name, **attributes)

    def squeeze(self, x: Tensor, axes: AttributeLike | None = None, name: str | None = None) -> Tensor:
        """Remove axes of size 1.

        Args:
            x: Tensor of any dtype.
            axes: Axes to remove: an int, a sequence of ints, an integer tensor of rank 1, or None (the default) for all
                of size 1.
            name: Name of the operation.

        Returns:
            A tensor with the dtype and the elements of x.

        Raises:
            ShapeError: If an axis is out of range or its size is not 1.

        Gradient: the incoming gradient, with the axes restored.

        Source: MPSGraph squeezeTensor:name:, …axis:name:, …axes:name: and …axesTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.squeeze(g.constant(0.0, (1, 2, 1)), 0).shape
            (2, 1)
        """
        operands, attributes = self._tensor_attributes("squeeze", axes=[] if axes is None else _listed(axes))
        return self._tensor("squeeze", [x, *operands], name, **attributes)

    def broadcast_to(self, x: Tensor, shape: ShapeLike, name: str | None = None) -> Tensor:
        """Broadcast a tensor to a shape.

        Args:
            x: Tensor of any dtype.
            shape: Shape that x broadcasts to as in numpy, as ints or as an integer tensor of rank 1.
            name: Name of the operation.

        Returns:
            A tensor of the given shape, with the dtype of x.

        Raises:
            ShapeError: If x does not broadcast to shape.

        Gradient: the incoming gradient, summed over the axes that were broadcast.

        Source: MPSGraph broadcastTensor:toShape:name: and broadcastTensor:toShapeTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.broadcast_to(g.constant([1, 2]), (2, 2))).tolist()
            [[1, 2], [1, 2]]
        """
        return self._tensor("broadcast_to", [x, self._shape_operand(shape, "broadcast_to")], name)

    def tile(self, x: Tensor, multiplier: Sequence[int], name: str | None = None) -> Tensor:
        """Repeat a tensor along its axes.

        Args:
            x: Tensor of any dtype.
            multiplier: Number of repetitions along each axis.
            name: Name of the operation.

        Returns:
            A tensor with the dtype of x, whose sizes are those of x times multiplier.

        Raises:
            ShapeError: If multiplier is negative or does not have one entry for each axis.

        Gradient: computed by tile_gradient.

        Source: MPSGraph tileTensor:withMultiplier:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.tile(g.constant([1, 2]), [2])).tolist()
            [1, 2, 1, 2]
        """
        return self._tensor("tile", [x], name, multiplier=ints(multiplier, "[tile] multiplier"))

    def tile_gradient(
        self, incoming: Tensor, input_shape: ShapeLike, multiplier: Sequence[int], name: str | None = None
    ) -> Tensor:
        """Compute the gradient of tile with respect to its source: the sum of the tiles.

        Args:
            incoming: Gradient with respect to the result of tile, with the shape of that result.
            input_shape: Shape of the source, as ints or as an integer tensor of rank 1.
            multiplier: The multiplier given to tile.
            name: Name of the operation.

        Returns:
            A tensor of shape input_shape, with the dtype of incoming.

        Raises:
            ShapeError: If the shapes are inconsistent with each other.

        Gradient: computed by tile.

        Source: MPSGraph tileGradientWithIncomingGradientTensor:sourceTensor:withMultiplier:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.tile_gradient(g.constant([1.0, 2.0, 3.0, 4.0]), (2,), [2])).tolist()
            [4.0, 6.0]
        """
        kind, attribute = "tile_gradient", ints(multiplier, "[tile_gradient] multiplier")
        return self._tensor(kind, [incoming, self._shape_operand(input_shape, kind)], name, multiplier=attribute)

    def pad(
        self,
        x: Tensor,
        left: Sequence[int],
        right: Sequence[int],
        mode: str = "constant",
        value: float = 0.0,
        name: str | None = None,
    ) -> Tensor:
        """Add a border to a tensor.

        Args:
            x: Tensor of any dtype.
            left: Number of elements to add before each axis.
            right: Number of elements to add after each axis.
            mode: "constant" (value, the default), "zero", "reflect" (without repeating the edge), "symmetric"
                (repeating the edge), "clamp_to_edge", "periodic", or "anti_periodic" (periodic, with the sign changing
                each time).
            value: Value of the border with mode "constant", representable in the dtype of x; 64-bit integers are exact.
                Defaults to 0.
            name: Name of the operation.

        Returns:
            A tensor with the dtype of x, whose sizes are those of x plus left and right.

        Raises:
            ShapeError: If left or right does not have one entry for each axis, or mode does not support the padding.
            DTypeError: If value is not representable in the dtype of x, or mode does not support the dtype.
            GraphError: If mode has an unknown value.

        Gradient: computed by pad_gradient.

        Source: MPSGraph padTensor:withPaddingMode:leftPadding:rightPadding:constantValue:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.pad(g.constant([1, 2, 3]), [1], [2], "reflect")).tolist()
            [2, 1, 2, 3, 2, 1]
        """
        return self._tensor("pad", [x], name, value=value, **_pad_attributes("pad", left, right, mode))

    def pad_gradient(
        self,
        incoming: Tensor,
        input_shape: ShapeLike,
        left: Sequence[int],
        right: Sequence[int],
        mode: str = "constant",
        name: str | None = None,
    ) -> Tensor:
        """Compute the gradient of pad with respect to its source.

        result = the inner part of incoming, with the gradient of each border element that is a copy added to the
        element it was copied from.

        Args:
            incoming: Gradient with respect to the result of pad, with the shape of that result.
            input_shape: Shape of the source, as ints or as an integer tensor of rank 1.
            left: The left padding given to pad.
            right: The right padding given to pad.
            mode: The mode given to pad. Defaults to "constant".
            name: Name of the operation.

        Returns:
            A tensor of shape input_shape, with the dtype of incoming.

        Raises:
            ShapeError: If the shapes are inconsistent with each other.
            DTypeError: If incoming is bool, or mode does not support its dtype.
            GraphError: If mode has an unknown value.

        Gradient: computed by pad.

        Source: MPSGraph padGradientWithIncomingGradientTensor:sourceTensor:paddingMode:leftPadding:rightPadding:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.pad_gradient(g.constant([1.0, 2.0, 3.0]), (2,), [1], [0], "clamp_to_edge")).tolist()
            [3.0, 3.0]
        """
        kind = "pad_gradient"
        inputs = [incoming, self._shape_operand(input_shape, kind)]
        return self._tensor(kind, inputs, name, **_pad_attributes(kind, left, right, mode))

    def flatten2d(self, x: Tensor, axis: int | Tensor = 1, name: str | None = None) -> Tensor:
        """Reshape a tensor into a matrix: the axes before `axis` become the rows, the others the columns.

        Args:
            x: Tensor of any dtype.
            axis: First axis of the columns: an int, where negative values count from the end, or an integer tensor.
                Defaults to 1.
            name: Name of the operation.

        Returns:
            A tensor of rank 2 with the dtype and the elements of x.

        Raises:
            ShapeError: If axis is out of range.

        Gradient: the incoming gradient, reshaped to the shape of x.

        Source: MPSGraph flatten2DTensor:axis:name: and …axisTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.flatten2d(g.constant(0.0, (2, 3, 4))).shape
            (2, 12)
        """
        operands, attributes = self._tensor_attributes("flatten2d", axis=axis)
        return self._tensor("flatten2d", [x, *operands], name, **attributes)

    def shape_of(self, x: Tensor, name: str | None = None) -> Tensor:
        """Return the shape of a tensor as a tensor, even if it is known only when the graph runs.

        Args:
            x: Tensor of any dtype.
            name: Name of the operation.

        Returns:
            An int32 tensor of shape (rank of x,).

        Gradient: none.

        Source: MPSGraph shapeOfTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.shape_of(g.constant(0.0, (2, 3)))).tolist()
            [2, 3]
        """
        return self._tensor("shape_of", [x], name)

    def cast(self, x: Tensor, dtype: DTypeLike, name: str | None = None) -> Tensor:
        """Convert a tensor to another dtype.

        Floating-point numbers are truncated toward zero to integers and rounded to nearest even to narrower
        floating-point types; conversion to bool yields True for nonzero numbers.

        Args:
            x: Tensor of any dtype.
            dtype: dtype of the result.
            name: Name of the operation.

        Returns:
            A tensor with the shape of x and the given dtype.

        Raises:
            DTypeError: If dtype is not supported.

        Gradient: the incoming gradient, cast back, between floating-point dtypes; otherwise none.

        Source: MPSGraph castTensor:toType:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.cast(g.constant([1.7, -1.7]), mg.int32)).tolist()
            [1, -1]
        """
        return self._tensor("cast", [x], name, dtype=as_dtype(dtype))


def known_shape(x: Tensor, kind: str) -> tuple[int, ...]:
    """Return the shape of a tensor. Raise ShapeError if its rank is unknown."""
    if x.shape is None:
        raise ShapeError(f"[{kind}] requires a tensor of known rank, but the rank of '{x.name}' is unknown")
    return tuple(x.shape)


def _listed(axes: AttributeLike) -> AttributeLike:
    """Return a single axis as a list with one element, and anything else unchanged."""
    return [axes] if isinstance(axes, (int, np.integer)) else axes


def _pad_attributes(kind: str, left: Sequence[int], right: Sequence[int], mode: str) -> dict[str, Any]:
    before = ints(left, f"[{kind}] left")
    return {"left": before, "right": ints(right, f"[{kind}] right", len(before)), "mode": mode}
