"""Slicing and joining: slice, its gradient and update, concat, split, and stack.

Ranges and lists of sizes may be integer tensors whose value is known only when the graph runs. `Graph.gradients`
creates the gradient operations; they are public because MPSGraph exposes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core import known_values
from ._family import AttributeLike, Family, ShapeError, ShapeLike, Tensor, as_dtype, constant_data, ints
from .shape import known_shape


class ShapeSlicing(Family):
    """Graph methods for slicing, concatenating, splitting, and stacking."""

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
        """Select a range of elements along every axis; `x[1:3, ::-1]` is the short form.

        starts, ends, strides, and sizes may each be a sequence of ints or an integer tensor of rank 1. With static
        sizes, starts may change from run to run, or be computed in loops, without compiling the graph again. If starts
        and ends are tensors, the operations that use the result are compiled for each new size of the result.

        Args:
            x: Tensor of any dtype.
            starts: First index along each axis, inclusive; negative values count from the end.
            ends: Last index along each axis, exclusive; negative values count from the end. Required unless sizes is
                given.
            strides: Step along each axis, not 0. None, the default, means 1.
            start_mask: Bit mask of axes whose start is ignored, so that the range begins at the first element. Defaults
                to 0.
            end_mask: Bit mask of axes whose end is ignored, so that the range extends to the last element. Defaults to
                0.
            squeeze_mask: Bit mask of axes to remove from the result; only the element at start is selected along them.
                Defaults to 0.
            name: Name of the operation.
            sizes: Number of elements along each axis, instead of ends, with strides of 1. Every element must be inside
                the tensor. Defaults to None.

        Returns:
            A tensor with the dtype of x; an axis whose range is empty has size 0.

        Raises:
            ShapeError: If the arguments do not have one entry for each axis, a stride is 0, or sizes is combined with
                ends, strides, or masks.
            OutOfRangeError: If sizes is given and the elements are not all inside x; raised when the graph is built or
                when it runs.

        Gradient: the incoming gradient at the positions of the slice, zeros elsewhere.

        Source: MPSGraph sliceTensor:starts:ends:strides:startMask:endMask:squeezeMask:name:, its variant with
        startTensor:endTensor:strideTensor:, and sliceTensor:startTensor:sizeTensor:squeezeMask:name:.

        Example:
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
        """Select `length` elements along one axis, beginning at `start`.

        Args:
            x: Tensor of any dtype, whose rank must be known.
            axis: Axis to slice; negative values count from the end.
            start: Index of the first element; negative values count from the end.
            length: Number of elements, at least 0.
            name: Name of the operation.

        Returns:
            A tensor with the dtype of x and `length` elements along `axis`.

        Raises:
            ShapeError: If axis is out of range, or the range extends beyond it.

        Gradient: computed by slice_gradient.

        Source: MPSGraph sliceTensor:dimension:start:length:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.slice_axis(g.constant([[1, 2, 3]]), 1, 1, 2)).tolist()
            [[2, 3]]
        """
        shape = known_shape(x, "slice_axis")
        rank, size = len(shape), shape[axis] if -len(shape) <= axis < len(shape) else None
        if size is None:
            raise ShapeError(
                f"[slice_axis] axis must be between {-rank} and {rank - 1} for a tensor of shape {x.shape}, got {axis}"
            )
        first = start + size if start < 0 <= size else start
        if length < 0 or (size >= 0 and not 0 <= first <= size - length):
            raise ShapeError(
                f"[slice_axis] start and length must select elements inside axis {axis} of shape {x.shape}, got start "
                f"{start} and length {length}"
            )
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
        """Compute the gradient of slice with respect to its source.

        result = incoming at the positions of the slice, zeros elsewhere.

        Args:
            incoming: Gradient with respect to the result of slice, with the shape of that result.
            input_shape: Shape of the source, as ints or as an integer tensor of rank 1.
            starts: First index along each axis, inclusive; negative values count from the end.
            ends: Last index along each axis, exclusive; negative values count from the end. Required unless sizes is
                given.
            strides: Step along each axis, not 0. None, the default, means 1.
            start_mask: Bit mask of axes whose start is ignored, so that the range begins at the first element. Defaults
                to 0.
            end_mask: Bit mask of axes whose end is ignored, so that the range extends to the last element. Defaults to
                0.
            squeeze_mask: Bit mask of axes to remove from the result; only one element of each is selected. Defaults to
                0.
            name: Name of the operation.
            sizes: Number of elements along each axis, instead of ends, with strides of 1. Every element must be inside
                the tensor. Defaults to None.

        Returns:
            A tensor of shape input_shape, with the dtype of incoming.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or the arguments are not valid for slice.

        Gradient: computed by slice.

        Source: MPSGraph sliceGradientTensor:fwdInShapeTensor:starts:ends:strides:startMask:endMask:squeezeMask:name:
        and its variants with tensors.

        Example:
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
        """Replace the elements that a slice would select with new values.

        If the result is assigned to the variable that data was read from, only the update is written.

        Args:
            data: Tensor of any dtype.
            update: New values, with the shape of the slice and the dtype of data.
            starts: First index along each axis, inclusive; negative values count from the end.
            ends: Last index along each axis, exclusive; negative values count from the end. Required unless sizes is
                given.
            strides: Step along each axis, not 0. None, the default, means 1.
            start_mask: Bit mask of axes whose start is ignored, so that the range begins at the first element. Defaults
                to 0.
            end_mask: Bit mask of axes whose end is ignored, so that the range extends to the last element. Defaults to
                0.
            squeeze_mask: Bit mask of axes to remove from the result; only one element of each is selected. Defaults to
                0.
            name: Name of the operation.
            sizes: Number of elements along each axis, instead of ends, with strides of 1. Every element must be inside
                the tensor. Defaults to None.

        Returns:
            A tensor with the shape and dtype of data.

        Raises:
            ShapeError: If update does not have the shape of the slice, or the arguments are not valid for slice.
            DTypeError: If the dtypes differ.
            OutOfRangeError: If sizes is given and the elements are not all inside data; raised when the graph is built
                or when it runs.

        Gradient: to data, the incoming gradient with zeros at the positions of the slice; to update, the slice of the
        incoming gradient.

        Source: MPSGraph sliceUpdateDataTensor:updateTensor:starts:ends:strides:startMask:endMask:squeezeMask:name: and
        its variants with tensors and without masks.

        Example:
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

    def split(self, x: Tensor, sizes_or_count: AttributeLike, axis: int = 0, name: str | None = None) -> list[Tensor]:
        """Split a tensor into parts along an axis.

        Args:
            x: Tensor of any dtype.
            sizes_or_count: Sizes of the parts, as ints or as an integer tensor of rank 1 with a static length, or the
                number of parts of equal size.
            axis: Axis to split; negative values count from the end. Defaults to 0.
            name: Name of the operation.

        Returns:
            A list of tensors with the dtype of x.

        Raises:
            ShapeError: If the sizes do not add up to the size of the axis, or the size of the axis is not divisible by
                the number of parts.

        Gradient: the incoming gradients, concatenated.

        Source: MPSGraph splitTensor:splitSizes:axis:name:, …splitSizesTensor:axis:name: and …numSplits:axis:name:.

        Example:
            >>> g = mg.Graph()
            >>> [t.shape for t in g.split(g.constant([1, 2, 3]), [1, 2])]
            [(1,), (2,)]
        """
        if isinstance(sizes_or_count, (int, np.integer)):
            sizes_or_count = _equal_sizes(x, int(sizes_or_count), axis)
        operands, attributes = self._tensor_attributes("split", sizes=sizes_or_count)
        return self._tensors("split", [x, *operands], name, axis=axis, **attributes)

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
        """Return the operands and attributes of a slice from its starts, ends, and strides."""
        if ends is None:
            raise ShapeError(f"[{kind}] ends or sizes is required, got neither")
        counts = {n for n in (_length(r) for r in (starts, ends, strides) if r is not None) if n is not None}
        if len(counts) > 1:
            raise ShapeError(
                f"[{kind}] starts, ends and strides must have one element for each axis, got lengths {sorted(counts)}"
            )
        if strides is None:
            strides = [1] * counts.pop() if counts else self._ones_like(starts)
        operands, attributes = self._tensor_attributes(kind, starts=starts, ends=ends, strides=strides)
        masks = {"start_mask": start_mask, "end_mask": end_mask, "squeeze_mask": squeeze_mask}
        return operands, attributes | masks

    def _ones_like(self, x: AttributeLike) -> Tensor:
        assert isinstance(x, Tensor), "an argument of unknown length must be a tensor"
        return self._tensor("cast", [self._tensor("equal", [x, x])], dtype=as_dtype("int64"))

    def _zero_like(self, x: Tensor) -> Tensor:
        return self._tensor("constant", [], value=constant_data(0, (), x.dtype))

    @staticmethod
    def _only_sizes(
        kind: str, ends: AttributeLike | None, strides: AttributeLike | None, start_mask: int, end_mask: int
    ) -> None:
        if ends is not None or strides is not None or start_mask or end_mask:
            raise ShapeError(
                f"[{kind}] sizes cannot be combined with ends, strides, start_mask or end_mask: "
                "pass only starts and sizes"
            )

    def _starts(self, kind: str, starts: AttributeLike) -> Tensor:
        return starts if isinstance(starts, Tensor) else self._integers(ints(starts, f"[{kind}] starts"))

    def _sizes(self, kind: str, sizes: AttributeLike) -> tuple[list[Tensor], dict[str, Any]]:
        """Return sizes as operands, or as an attribute if their values are known."""
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
        """Return data with `update` written at the indices `starts`. The shape of `update` must equal `sizes`."""
        if squeeze_mask:
            update = self._tensor("expand_dims", [update], axes=_bits(squeeze_mask))
        lengths, known = self._sizes(kind, sizes)
        inputs = [data, update, self._starts(kind, starts), *lengths]
        return self._tensor("dynamic_slice_update_data", inputs, name, **known)


def _bits(mask: int) -> list[int]:
    """Return the axes whose bits are set in `mask`."""
    return [axis for axis in range(mask.bit_length()) if mask >> axis & 1]


def _length(values: AttributeLike) -> int | None:
    """Return the number of elements of a list or rank-1 tensor, or None if it is unknown."""
    if not isinstance(values, Tensor):
        return int(np.size(values))
    return values.shape[0] if values.shape is not None and len(values.shape) == 1 and values.shape[0] >= 0 else None


def _equal_sizes(x: Tensor, count: int, axis: int) -> list[int]:
    shape = known_shape(x, "split")
    if not -len(shape) <= axis < len(shape):
        raise ShapeError(
            f"[split] axis must be between {-len(shape)} and {len(shape) - 1} for a tensor of shape {shape}, got {axis}"
        )
    if count < 1 or shape[axis] < 0 or shape[axis] % count:
        raise ShapeError(
            f"[split] axis {axis} of shape {shape} is not divisible into {count} equal parts: pass a list of part sizes"
        )
    return [shape[axis] // count] * count
