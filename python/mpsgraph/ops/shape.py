"""Shapes: reshape, transpose, squeeze, broadcast, pad, tile, cast. Parts and joins stand in shape_slicing.

A shape operand is given as ints or as an int32/int64 tensor of rank 1, so that shapes known only when the graph runs
work too. The gradients are what `Graph.gradients` creates; they are public because MPSGraph has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._family import AttributeLike, DTypeLike, Family, ShapeError, ShapeLike, Tensor, as_dtype, ints


class Shape(Family):
    """reshape to cast."""

    def reshape(self, x: Tensor, shape: ShapeLike, name: str | None = None) -> Tensor:
        """The same elements in row-major order under another shape.

        Args: x, any dtype; shape, ints of which one may be -1 (worked out), or an int tensor of rank 1.
        Errors: ShapeError when the element counts differ. Gradient: incoming, reshaped back.
        Source: MPSGraph reshapeTensor:withShape:name: and reshapeTensor:withShapeTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.reshape(g.constant([1, 2, 3, 4]), (2, -1))).tolist()
        [[1, 2], [3, 4]]
        """
        return self._tensor("reshape", [x, self._shape_operand(shape, "reshape")], name)

    def transpose(self, x: Tensor, permutation: Sequence[int], name: str | None = None) -> Tensor:
        """Axes in another order.

        Axis i of the result is axis permutation[i] of x.
        Args: x, any dtype; permutation, each axis once. Errors: ShapeError. Gradient: incoming, transposed back.
        Source: MPSGraph transposeTensor:permutation:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.transpose(g.constant([[1, 2], [3, 4]]), (1, 0))).tolist()
        [[1, 3], [2, 4]]
        """
        return self._tensor("transpose", [x], name, permutation=ints(permutation, "[transpose] permutation"))

    def swap_axes(self, x: Tensor, axis: int, other: int, name: str | None = None) -> Tensor:
        """Two axes exchanged.

        Args: x, any dtype, a known rank; axis, other, negative counts from the end. Errors: ShapeError. Gradient:
        incoming, exchanged back. Source: MPSGraph transposeTensor:dimension:withDimension:name:.

        >>> g = mg.Graph()
        >>> g.swap_axes(g.constant(0.0, (2, 3, 4)), 0, -1).shape
        (4, 3, 2)
        """
        rank = len(known_shape(x, "swap_axes"))
        if not (-rank <= axis < rank and -rank <= other < rank):
            raise ShapeError(f"[swap_axes] axes {axis} and {other} must lie in -{rank}..{rank - 1}: x is {x.shape}")
        permutation = list(range(rank))
        permutation[axis], permutation[other] = permutation[other], permutation[axis]
        return self.transpose(x, permutation, name)

    def expand_dims(self, x: Tensor, axes: AttributeLike, name: str | None = None) -> Tensor:
        """New axes of size 1.

        Args: x, any dtype; axes, where the new ones are in the result, an int, ints or an int tensor of rank 1.
        Errors: ShapeError. Gradient: incoming without them.
        Source: MPSGraph expandDimsOfTensor:axis:name:, …axes:name: and …axesTensor:name:.

        >>> g = mg.Graph()
        >>> g.expand_dims(g.constant(0.0, (2, 3)), (0, -1)).shape
        (1, 2, 3, 1)
        """
        operands, attributes = self._tensor_attributes("expand_dims", axes=_listed(axes))
        return self._tensor("expand_dims", [x, *operands], name, **attributes)

    def squeeze(self, x: Tensor, axes: AttributeLike | None = None, name: str | None = None) -> Tensor:
        """Axes of size 1 taken away.

        Args: x, any dtype; axes, those to take away, an int, ints, an int tensor of rank 1, or None: all of size 1.
        Errors: ShapeError when an axis has another size. Gradient: incoming with them.
        Source: MPSGraph squeezeTensor:name:, …axis:name:, …axes:name: and …axesTensor:name:.

        >>> g = mg.Graph()
        >>> g.squeeze(g.constant(0.0, (1, 2, 1)), 0).shape
        (2, 1)
        """
        operands, attributes = self._tensor_attributes("squeeze", axes=[] if axes is None else _listed(axes))
        return self._tensor("squeeze", [x, *operands], name, **attributes)

    def broadcast_to(self, x: Tensor, shape: ShapeLike, name: str | None = None) -> Tensor:
        """x, repeated along its axes of size 1 and new leading axes.

        Args: x, any dtype; shape, ints or an int tensor of rank 1, to which x broadcasts as in numpy.
        Errors: ShapeError. Gradient: incoming, summed over the repeated axes.
        Source: MPSGraph broadcastTensor:toShape:name: and broadcastTensor:toShapeTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.broadcast_to(g.constant([1, 2]), (2, 2))).tolist()
        [[1, 2], [1, 2]]
        """
        return self._tensor("broadcast_to", [x, self._shape_operand(shape, "broadcast_to")], name)

    def tile(self, x: Tensor, multiplier: Sequence[int], name: str | None = None) -> Tensor:
        """x, laid side by side.

        Args: x, any dtype; multiplier, how often along each axis. Errors: ShapeError. Gradient: tile_gradient.
        Source: MPSGraph tileTensor:withMultiplier:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.tile(g.constant([1, 2]), [2])).tolist()
        [1, 2, 1, 2]
        """
        return self._tensor("tile", [x], name, multiplier=ints(multiplier, "[tile] multiplier"))

    def tile_gradient(
        self, incoming: Tensor, input_shape: ShapeLike, multiplier: Sequence[int], name: str | None = None
    ) -> Tensor:
        """Gradient of tile: the sum of the tiles.

        Args: incoming, shaped as tile's result; input_shape, the source's, ints or an int tensor of rank 1; multiplier
        as given to tile. Result: input_shape, incoming's dtype. Errors: ShapeError. Gradient: tile.
        Source: MPSGraph tileGradientWithIncomingGradientTensor:sourceTensor:withMultiplier:name:.

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
        """x with a border.

        Args:
            x: any dtype. left, right: elements before and after, for each axis.
            mode: "constant" (value), "zero", "reflect" (the edge not repeated), "symmetric" (the edge repeated),
                "clamp_to_edge", "periodic", or "anti_periodic" (periodic with the sign changed each time).
            value: the border in mode "constant", a number of x's dtype: integers of 64 bits exactly.
        Errors: ShapeError, GraphError for another mode, DTypeError for a value that x's dtype lacks.
        Gradient: pad_gradient.
        Source: MPSGraph padTensor:withPaddingMode:leftPadding:rightPadding:constantValue:name:.

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
        """Gradient of pad: the inner part, plus what the border copied from it.

        Args: incoming, shaped as pad's result; input_shape, the source's, ints or an int tensor of rank 1; the rest as
        given to pad. Result: input_shape, incoming's dtype. Errors: ShapeError. Gradient: pad.
        Source: MPSGraph padGradientWithIncomingGradientTensor:sourceTensor:paddingMode:leftPadding:rightPadding:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.pad_gradient(g.constant([1.0, 2.0, 3.0]), (2,), [1], [0], "clamp_to_edge")).tolist()
        [3.0, 3.0]
        """
        kind = "pad_gradient"
        inputs = [incoming, self._shape_operand(input_shape, kind)]
        return self._tensor(kind, inputs, name, **_pad_attributes(kind, left, right, mode))

    def flatten2d(self, x: Tensor, axis: int | Tensor = 1, name: str | None = None) -> Tensor:
        """A matrix: the axes before `axis` become the rows, the others the columns.

        Args: x, any dtype; axis, an int, negative counts from the end, or one in an int tensor. Errors: ShapeError.
        Gradient: incoming, reshaped back. Source: MPSGraph flatten2DTensor:axis:name: and …axisTensor:name:.

        >>> g = mg.Graph()
        >>> g.flatten2d(g.constant(0.0, (2, 3, 4))).shape
        (2, 12)
        """
        operands, attributes = self._tensor_attributes("flatten2d", axis=axis)
        return self._tensor("flatten2d", [x, *operands], name, **attributes)

    def shape_of(self, x: Tensor, name: str | None = None) -> Tensor:
        """The shape as a tensor, also where it is known only when the graph runs.

        Args: x, any dtype. Result: int32 of shape (rank,). Errors: none. Gradient: none.
        Source: MPSGraph shapeOfTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.shape_of(g.constant(0.0, (2, 3)))).tolist()
        [2, 3]
        """
        return self._tensor("shape_of", [x], name)

    def cast(self, x: Tensor, dtype: DTypeLike, name: str | None = None) -> Tensor:
        """The same numbers in another dtype.

        Floats to integers truncate toward zero, numbers to bool ask for != 0, to narrower floats round to nearest even.
        Args: x, any dtype; dtype, the result's. Errors: DTypeError for an unknown dtype. Gradient: incoming, cast back,
        between floating-point dtypes; else none. Source: MPSGraph castTensor:toType:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.cast(g.constant([1.7, -1.7]), mg.int32)).tolist()
        [1, -1]
        """
        return self._tensor("cast", [x], name, dtype=as_dtype(dtype))


def known_shape(x: Tensor, kind: str) -> tuple[int, ...]:
    """The shape of a tensor whose rank is known; ShapeError of another."""
    if x.shape is None:
        raise ShapeError(f"[{kind}] needs a known rank, {x.name} has none")
    return tuple(x.shape)


def _listed(axes: AttributeLike) -> AttributeLike:
    """One axis as a list of one."""
    return [axes] if isinstance(axes, (int, np.integer)) else axes


def _pad_attributes(kind: str, left: Sequence[int], right: Sequence[int], mode: str) -> dict[str, Any]:
    before = ints(left, f"[{kind}] left")
    return {"left": before, "right": ints(right, f"[{kind}] right", len(before)), "mode": mode}
