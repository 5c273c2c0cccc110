"""Shapes: reshape, transpose, slice, concat, split, pad, tile, broadcast, cast.

A shape operand is given as ints or as an int32/int64 tensor of rank 1, so that shapes known only when the graph runs
work too. The gradients are what `Graph.gradients` creates; they are public because MPSGraph has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._family import DTypeLike, Family, ShapeError, ShapeLike, Tensor, as_dtype, ints


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
        rank = len(self._known_shape(x, "swap_axes"))
        if not (-rank <= axis < rank and -rank <= other < rank):
            raise ShapeError(f"[swap_axes] axes {axis} and {other} must lie in -{rank}..{rank - 1}: x is {x.shape}")
        permutation = list(range(rank))
        permutation[axis], permutation[other] = permutation[other], permutation[axis]
        return self.transpose(x, permutation, name)

    def slice(
        self,
        x: Tensor,
        starts: Sequence[int],
        ends: Sequence[int],
        strides: Sequence[int] | None = None,
        start_mask: int = 0,
        end_mask: int = 0,
        squeeze_mask: int = 0,
        name: str | None = None,
    ) -> Tensor:
        """Elements from start to end (exclusive) by stride, along every axis; `x[1:3, ::-1]` is the short form.

        Args:
            x: any dtype. starts, ends: an int per axis, negative counts from the end. strides: 1 when None, not 0.
            start_mask, end_mask: bit i set: the start (the end) of axis i is ignored and the whole range meant.
            squeeze_mask: bit i set: axis i, of one element, disappears.
        Result: x's dtype; a range without elements has size 0. Errors: ShapeError. Gradient: slice_gradient.
        Source: MPSGraph sliceTensor:starts:ends:strides:startMask:endMask:squeezeMask:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.slice(g.constant([1, 2, 3, 4]), [1], [4], [2])).tolist()
        [2, 4]
        """
        attributes = _slice_attributes("slice", starts, ends, strides, start_mask, end_mask, squeeze_mask)
        return self._tensor("slice", [x], name, **attributes)

    def slice_axis(self, x: Tensor, axis: int, start: int, length: int, name: str | None = None) -> Tensor:
        """`length` elements along one axis, beginning at `start`.

        Args: x, any dtype, a known rank; axis, start, negative counts from the end; length in elements, at least 0.
        Errors: ShapeError when it reaches beyond the axis. Gradient: slice_gradient.
        Source: MPSGraph sliceTensor:dimension:start:length:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.slice_axis(g.constant([[1, 2, 3]]), 1, 1, 2)).tolist()
        [[2, 3]]
        """
        shape = self._known_shape(x, "slice_axis")
        rank, size = len(shape), shape[axis] if -len(shape) <= axis < len(shape) else None
        if size is None:
            raise ShapeError(f"[slice_axis] axis {axis} must lie in -{rank}..{rank - 1}: x is {x.shape}")
        first = start + size if start < 0 <= size else start
        if length < 0 or (size >= 0 and not 0 <= first <= size - length):
            raise ShapeError(f"[slice_axis] {length} elements from {start} do not lie in axis {axis}: x is {x.shape}")
        axis %= rank
        whole = ((1 << rank) - 1) & ~(1 << axis)
        starts, ends = [0] * rank, [0] * rank
        starts[axis], ends[axis] = first, first + length
        to_the_end = 1 << axis if first < 0 and first + length == 0 else 0
        return self.slice(x, starts, ends, None, whole, whole | to_the_end, 0, name)

    def slice_gradient(
        self,
        incoming: Tensor,
        input_shape: ShapeLike,
        starts: Sequence[int],
        ends: Sequence[int],
        strides: Sequence[int] | None = None,
        start_mask: int = 0,
        end_mask: int = 0,
        squeeze_mask: int = 0,
        name: str | None = None,
    ) -> Tensor:
        """Gradient of slice: incoming in its place, zeros elsewhere.

        Args: incoming, shaped as the slice; input_shape, the source's shape, ints or an int tensor of rank 1; the rest
        as given to slice. Result: input_shape, incoming's dtype. Errors: ShapeError. Gradient: slice.
        Source: MPSGraph sliceGradientTensor:fwdInShapeTensor:starts:ends:strides:startMask:endMask:squeezeMask:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.slice_gradient(g.constant([7, 8]), (4,), [1], [4], [2])).tolist()
        [0, 7, 0, 8]
        """
        kind = "slice_gradient"
        attributes = _slice_attributes(kind, starts, ends, strides, start_mask, end_mask, squeeze_mask)
        return self._tensor(kind, [incoming, self._shape_operand(input_shape, kind)], name, **attributes)

    def concat(self, tensors: Sequence[Tensor], axis: int, interleave: bool = False, name: str | None = None) -> Tensor:
        """Tensors one after another along an axis.

        Args: tensors, one dtype, shapes that differ at most at `axis`; axis, negative counts from the end; interleave,
        element by element in turn (then the shapes are equal). Errors: ShapeError, DTypeError.
        Gradient: the part of incoming that came from each.
        Source: MPSGraph concatTensors:dimension:interleave:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.concat([g.constant([1, 2]), g.constant([3])], 0)).tolist()
        [1, 2, 3]
        """
        return self._tensor("concat", list(tensors), name, axis=axis, interleave=interleave)

    def split(
        self, x: Tensor, sizes_or_count: int | Sequence[int], axis: int = 0, name: str | None = None
    ) -> list[Tensor]:
        """A tensor cut into pieces along an axis.

        Args: x, any dtype; sizes_or_count, the pieces' sizes, or into how many equal pieces; axis, negative counts
        from the end. Result: a list of tensors. Errors: ShapeError when the sizes do not add up.
        Gradient: the incoming gradients, concatenated.
        Source: MPSGraph splitTensor:splitSizes:axis:name: and splitTensor:numSplits:axis:name:.

        >>> g = mg.Graph()
        >>> [t.shape for t in g.split(g.constant([1, 2, 3]), [1, 2])]
        [(1,), (2,)]
        """
        if isinstance(sizes_or_count, int):
            sizes = self._equal_sizes(x, sizes_or_count, axis)
        else:
            sizes = ints(sizes_or_count, "[split] sizes")
        return self._tensors("split", [x], name, sizes=sizes, axis=axis)

    def stack(self, tensors: Sequence[Tensor], axis: int = 0, name: str | None = None) -> Tensor:
        """Tensors of one shape, side by side along a new axis.

        Args: tensors, one dtype and shape; axis, where the new one goes in the result. Errors: ShapeError, DTypeError.
        Gradient: the slice of incoming that came from each. Source: MPSGraph stackTensors:axis:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.stack([g.constant([1, 2]), g.constant([3, 4])], axis=1)).tolist()
        [[1, 3], [2, 4]]
        """
        return self._tensor("stack", list(tensors), name, axis=axis)

    def expand_dims(self, x: Tensor, axes: int | Sequence[int], name: str | None = None) -> Tensor:
        """New axes of size 1.

        Args: x, any dtype; axes, where the new ones are in the result. Errors: ShapeError. Gradient: incoming without
        them. Source: MPSGraph expandDimsOfTensor:axes:name:.

        >>> g = mg.Graph()
        >>> g.expand_dims(g.constant(0.0, (2, 3)), (0, -1)).shape
        (1, 2, 3, 1)
        """
        return self._tensor("expand_dims", [x], name, axes=ints(axes, "[expand_dims] axes"))

    def squeeze(self, x: Tensor, axes: int | Sequence[int] | None = None, name: str | None = None) -> Tensor:
        """Axes of size 1 taken away.

        Args: x, any dtype; axes, those to take away, None: all of size 1. Errors: ShapeError when an axis has another
        size. Gradient: incoming with them. Source: MPSGraph squeezeTensor:axes:name: and squeezeTensor:name:.

        >>> g = mg.Graph()
        >>> g.squeeze(g.constant(0.0, (1, 2, 1)), 0).shape
        (2, 1)
        """
        return self._tensor("squeeze", [x], name, axes=[] if axes is None else ints(axes, "[squeeze] axes"))

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
            value: the border in mode "constant".
        Errors: ShapeError, GraphError for another mode. Gradient: pad_gradient.
        Source: MPSGraph padTensor:withPaddingMode:leftPadding:rightPadding:constantValue:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.pad(g.constant([1, 2, 3]), [1], [2], "reflect")).tolist()
        [2, 1, 2, 3, 2, 1]
        """
        return self._tensor("pad", [x], name, value=float(value), **_pad_attributes("pad", left, right, mode))

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

    def flatten2d(self, x: Tensor, axis: int = 1, name: str | None = None) -> Tensor:
        """A matrix: the axes before `axis` become the rows, the others the columns.

        Args: x, any dtype; axis, negative counts from the end. Errors: ShapeError. Gradient: incoming, reshaped back.
        Source: MPSGraph flatten2DTensor:axis:name:.

        >>> g = mg.Graph()
        >>> g.flatten2d(g.constant(0.0, (2, 3, 4))).shape
        (2, 12)
        """
        return self._tensor("flatten2d", [x], name, axis=axis)

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

    def _known_shape(self, x: Tensor, kind: str) -> tuple[int, ...]:
        if x.shape is None:
            raise ShapeError(f"[{kind}] needs a known rank, {x.name} has none")
        return tuple(x.shape)

    def _equal_sizes(self, x: Tensor, count: int, axis: int) -> list[int]:
        shape = self._known_shape(x, "split")
        if not -len(shape) <= axis < len(shape):
            raise ShapeError(f"[split] axis {axis} must lie in -{len(shape)}..{len(shape) - 1}: x is {shape}")
        if count < 1 or shape[axis] < 0 or shape[axis] % count:
            raise ShapeError(
                f"[split] axis {axis} of {shape} cannot be cut into {count} equal pieces: give their sizes"
            )
        return [shape[axis] // count] * count


def _slice_attributes(
    kind: str,
    starts: Sequence[int],
    ends: Sequence[int],
    strides: Sequence[int] | None,
    start_mask: int,
    end_mask: int,
    squeeze_mask: int,
) -> dict[str, Any]:
    first = ints(starts, f"[{kind}] starts")
    return {
        "starts": first,
        "ends": ints(ends, f"[{kind}] ends", len(first)),
        "strides": [1] * len(first) if strides is None else ints(strides, f"[{kind}] strides", len(first)),
        "start_mask": start_mask,
        "end_mask": end_mask,
        "squeeze_mask": squeeze_mask,
    }


def _pad_attributes(kind: str, left: Sequence[int], right: Sequence[int], mode: str) -> dict[str, Any]:
    before = ints(left, f"[{kind}] left")
    return {"left": before, "right": ints(right, f"[{kind}] right", len(before)), "mode": mode}
