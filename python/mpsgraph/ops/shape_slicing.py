"""Parts of tensors and tensors of parts: slice, its gradient and update, concat, split, stack.

Where a range or a list of sizes is an integer tensor, its value may be known only when the graph runs. The gradients
are what `Graph.gradients` creates; they are public because MPSGraph has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core import known_values
from ._family import AttributeLike, Family, ShapeError, ShapeLike, Tensor, as_dtype, constant_data, ints
from .shape import known_shape


class ShapeSlicing(Family):
    """slice to stack."""

    def slice(
        self,
        x: Tensor,
        starts: AttributeLike,
        ends: AttributeLike | None = None,
        strides: AttributeLike | None = None,
        start_mask: int = 0,
        end_mask: int = 0,
        squeeze_mask: int = 0,
        name: str | None = None,
        *,
        sizes: AttributeLike | None = None,
    ) -> Tensor:
        """Elements from start to end (exclusive) by stride, along every axis; `x[1:3, ::-1]` is the short form.

        Args:
            x: any dtype. starts, ends: an int per axis, negative counts from the end. strides: 1 when None, not 0. Each
                may be an int tensor of rank 1.
            start_mask, end_mask: bit i set: the start (the end) of axis i is ignored and the whole range meant.
            squeeze_mask: bit i set: axis i, of one element, disappears.
            sizes: instead of ends, how many elements from the start on, with strides of 1. All of them must lie inside.
        Result: x's dtype; a range without elements has size 0. Errors: ShapeError, GraphError; OutOfRangeError, also of
        the run, when elements from a start on do not lie inside. Gradient: incoming in its place, zeros elsewhere.
        With sizes that are known, starts are data: nothing is compiled for their values, and they may be computed in
        loops. With ends from tensors, each new size of the result compiles what follows.
        Source: MPSGraph sliceTensor:starts:ends:strides:startMask:endMask:squeezeMask:name:, the same with startTensor:
        endTensor:strideTensor:, and sliceTensor:startTensor:sizeTensor:squeezeMask:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.slice(g.constant([1, 2, 3, 4]), [1], [4], [2])).tolist()
        [2, 4]
        >>> g.run({}, g.slice(g.constant([1, 2, 3, 4]), g.constant([-3]), sizes=[2])).tolist()
        [2, 3]
        """
        if sizes is not None:
            self._only_sizes("slice", ends, strides, start_mask, end_mask)
            lengths, known = self._sizes("slice", sizes)
            axes = _bits(squeeze_mask)
            inputs = [x, self._starts("slice", starts), *lengths]
            part = self._tensor("dynamic_slice", inputs, None if axes else name, **known)
            return self._tensor("squeeze", [part], name, axes=axes) if axes else part
        operands, attributes = self._ranges("slice", starts, ends, strides, start_mask, end_mask, squeeze_mask)
        return self._tensor("slice", [x, *operands], name, **attributes)

    def slice_axis(self, x: Tensor, axis: int, start: int, length: int, name: str | None = None) -> Tensor:
        """`length` elements along one axis, beginning at `start`.

        Args: x, any dtype, a known rank; axis, start, negative counts from the end; length in elements, at least 0.
        Errors: ShapeError when it reaches beyond the axis. Gradient: slice_gradient.
        Source: MPSGraph sliceTensor:dimension:start:length:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.slice_axis(g.constant([[1, 2, 3]]), 1, 1, 2)).tolist()
        [[2, 3]]
        """
        shape = known_shape(x, "slice_axis")
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
        starts: AttributeLike,
        ends: AttributeLike | None = None,
        strides: AttributeLike | None = None,
        start_mask: int = 0,
        end_mask: int = 0,
        squeeze_mask: int = 0,
        name: str | None = None,
        *,
        sizes: AttributeLike | None = None,
    ) -> Tensor:
        """Gradient of slice: incoming in its place, zeros elsewhere.

        Args: incoming, shaped as the slice; input_shape, the source's shape, ints or an int tensor of rank 1; the rest
        as given to slice. Result: input_shape, incoming's dtype. Errors: ShapeError. Gradient: slice.
        Source: MPSGraph sliceGradientTensor:fwdInShapeTensor:starts:ends:strides:startMask:endMask:squeezeMask:name:
        and its variants with tensors.

        >>> g = mg.Graph()
        >>> g.run({}, g.slice_gradient(g.constant([7, 8]), (4,), [1], [4], [2])).tolist()
        [0, 7, 0, 8]
        """
        kind = "slice_gradient"
        shape = self._shape_operand(input_shape, kind)
        if sizes is not None:
            self._only_sizes(kind, ends, strides, start_mask, end_mask)
            nothing = self._tensor("broadcast_to", [self._zero_like(incoming), shape])
            return self._updated(kind, nothing, incoming, starts, sizes, squeeze_mask, name)
        operands, attributes = self._ranges(kind, starts, ends, strides, start_mask, end_mask, squeeze_mask)
        inputs = [incoming, shape, *operands]
        return self._tensor(kind, inputs, name, **attributes)

    def slice_update_data(
        self,
        data: Tensor,
        update: Tensor,
        starts: AttributeLike,
        ends: AttributeLike | None = None,
        strides: AttributeLike | None = None,
        start_mask: int = 0,
        end_mask: int = 0,
        squeeze_mask: int = 0,
        name: str | None = None,
        *,
        sizes: AttributeLike | None = None,
    ) -> Tensor:
        """data with other values where a slice would read.

        Args: data, any dtype; update, its dtype, shaped as the slice; the rest as given to slice, so that starts are
        data where sizes are given. Result: data's type. Assigned to the variable that data was read from, it writes the
        update alone. Errors: ShapeError, DTypeError; OutOfRangeError as slice. Gradient: to data incoming with zeros in
        that place, to update the slice of it.
        Source: MPSGraph sliceUpdateDataTensor:updateTensor:starts:ends:strides:startMask:endMask:squeezeMask:name: and
        its variants with tensors and without masks.

        >>> g = mg.Graph()
        >>> g.run({}, g.slice_update_data(g.constant([1, 2, 3, 4]), g.constant([7, 8]), [1], [4], [2])).tolist()
        [1, 7, 3, 8]
        """
        kind = "slice_update_data"
        if sizes is not None:
            self._only_sizes(kind, ends, strides, start_mask, end_mask)
            return self._updated(kind, data, update, starts, sizes, squeeze_mask, name)
        operands, attributes = self._ranges(kind, starts, ends, strides, start_mask, end_mask, squeeze_mask)
        return self._tensor(kind, [data, update, *operands], name, **attributes)

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

    def split(self, x: Tensor, sizes_or_count: AttributeLike, axis: int = 0, name: str | None = None) -> list[Tensor]:
        """A tensor cut into pieces along an axis.

        Args: x, any dtype; sizes_or_count, the pieces' sizes, ints or an int tensor of rank 1 and a known length, or
        into how many equal pieces; axis, negative counts from the end. Result: a list of tensors. Errors: ShapeError
        when the sizes do not add up. Gradient: the incoming gradients, concatenated.
        Source: MPSGraph splitTensor:splitSizes:axis:name:, …splitSizesTensor:axis:name: and …numSplits:axis:name:.

        >>> g = mg.Graph()
        >>> [t.shape for t in g.split(g.constant([1, 2, 3]), [1, 2])]
        [(1,), (2,)]
        """
        if isinstance(sizes_or_count, (int, np.integer)):
            sizes_or_count = _equal_sizes(x, int(sizes_or_count), axis)
        operands, attributes = self._tensor_attributes("split", sizes=sizes_or_count)
        return self._tensors("split", [x, *operands], name, axis=axis, **attributes)

    def stack(self, tensors: Sequence[Tensor], axis: int = 0, name: str | None = None) -> Tensor:
        """Tensors of one shape, side by side along a new axis.

        Args: tensors, one dtype and shape; axis, where the new one goes in the result. Errors: ShapeError, DTypeError.
        Gradient: the slice of incoming that came from each. Source: MPSGraph stackTensors:axis:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.stack([g.constant([1, 2]), g.constant([3, 4])], axis=1)).tolist()
        [[1, 3], [2, 4]]
        """
        return self._tensor("stack", list(tensors), name, axis=axis)

    def _ranges(
        self,
        kind: str,
        starts: AttributeLike,
        ends: AttributeLike | None,
        strides: AttributeLike | None,
        start_mask: int,
        end_mask: int,
        squeeze_mask: int,
    ) -> tuple[list[Tensor], dict[str, Any]]:
        """Operands and attributes of a slice with ends."""
        if ends is None:
            raise ShapeError(f"[{kind}] takes either ends or sizes")
        counts = {n for n in (_length(r) for r in (starts, ends, strides) if r is not None) if n is not None}
        if len(counts) > 1:
            raise ShapeError(f"[{kind}] starts, ends and strides must have one element for each axis, came {counts}")
        if strides is None:
            strides = [1] * counts.pop() if counts else self._ones_like(starts)
        operands, attributes = self._tensor_attributes(kind, starts=starts, ends=ends, strides=strides)
        masks = {"start_mask": start_mask, "end_mask": end_mask, "squeeze_mask": squeeze_mask}
        return operands, attributes | masks

    def _ones_like(self, x: AttributeLike) -> Tensor:
        assert isinstance(x, Tensor), "the length of anything else is known"
        return self._tensor("cast", [self._tensor("equal", [x, x])], dtype=as_dtype("int64"))

    def _zero_like(self, x: Tensor) -> Tensor:
        return self._tensor("constant", [], value=constant_data(0, (), x.dtype))

    @staticmethod
    def _only_sizes(
        kind: str, ends: AttributeLike | None, strides: AttributeLike | None, start_mask: int, end_mask: int
    ) -> None:
        if ends is not None or strides is not None or start_mask or end_mask:
            raise ShapeError(f"[{kind}] with sizes takes neither ends, strides nor masks of starts and ends")

    def _starts(self, kind: str, starts: AttributeLike) -> Tensor:
        return starts if isinstance(starts, Tensor) else self._integers(ints(starts, f"[{kind}] starts"))

    def _sizes(self, kind: str, sizes: AttributeLike) -> tuple[list[Tensor], dict[str, Any]]:
        """Sizes as operands or, where their values are known now, as an attribute."""
        if not isinstance(sizes, Tensor):
            return [], {"sizes": ints(sizes, f"[{kind}] sizes")}
        known = known_values(sizes)
        return ([sizes], {}) if known is None or None in known else ([], {"sizes": known})

    def _updated(
        self,
        kind: str,
        data: Tensor,
        update: Tensor,
        starts: AttributeLike,
        sizes: AttributeLike,
        squeeze_mask: int,
        name: str | None,
    ) -> Tensor:
        """data with `update` from the starts on; its own shape says how much that is, and must be the sizes."""
        if squeeze_mask:
            update = self._tensor("expand_dims", [update], axes=_bits(squeeze_mask))
        lengths, known = self._sizes(kind, sizes)
        inputs = [data, update, self._starts(kind, starts), *lengths]
        return self._tensor("dynamic_slice_update_data", inputs, name, **known)


def _bits(mask: int) -> list[int]:
    """The axes whose bits are set."""
    return [axis for axis in range(mask.bit_length()) if mask >> axis & 1]


def _length(values: AttributeLike) -> int | None:
    """How many elements a list has, None when that is not known."""
    if not isinstance(values, Tensor):
        return int(np.size(values))
    return values.shape[0] if values.shape is not None and len(values.shape) == 1 and values.shape[0] >= 0 else None


def _equal_sizes(x: Tensor, count: int, axis: int) -> list[int]:
    shape = known_shape(x, "split")
    if not -len(shape) <= axis < len(shape):
        raise ShapeError(f"[split] axis {axis} must lie in -{len(shape)}..{len(shape) - 1}: x is {shape}")
    if count < 1 or shape[axis] < 0 or shape[axis] % count:
        raise ShapeError(f"[split] axis {axis} of {shape} cannot be cut into {count} equal pieces: give their sizes")
    return [shape[axis] // count] * count
