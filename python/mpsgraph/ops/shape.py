"""Shape operations whose arguments need a conversion: swapped, removed, and reversed axes, and padding.

A shape operand is given as ints or as an int32 or int64 tensor of rank 1, so that shapes known only when the graph runs
work as well. `Graph.gradients` creates the gradient operations; they are public because MPSGraph exposes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._family import AttributeLike, ShapeError, ShapeLike, Tensor, ints
from .derived import Derived


class Shape(Derived):
    """Graph methods for axes and padding."""

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
