"""Scatter operations, which combine updates with a tensor at given indices, in one of seven modes.

The result starts as data, and each update in turn is applied as result[index] ∘= update, where ∘ is "add", "sub",
"mul", "div", "min", "max", or "set". `out_of_range` determines what happens to an index outside the result: "drop"
ignores the update at this index, which gets no gradient; "clip" uses the nearest valid index; "error" makes the run
raise OutOfRangeError, as gather does. Instead of `data`, a `shape` may be given; the result then starts with zeros or,
for scatter_along_axis, with the neutral value of the mode.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._family import DType, Family, ShapeError, ShapeLike, Tensor


class ScatterND(Family):
    """Graph methods for scatter, scatter_nd, and scatter_along_axis."""

    def scatter(
        self,
        updates: Tensor,
        indices: Tensor,
        axis: int,
        mode: str = "add",
        *,
        data: Tensor | None = None,
        shape: ShapeLike | None = None,
        name: str | None = None,
        out_of_range: str = "drop",
    ) -> Tensor:
        """Combine slices with a tensor at indices along an axis.

        result = data; result[..., indices[i], ...] ∘= updates[..., i, ...], where ∘ is the mode.

        Args:
            updates: Slices, with the shape of data except for the number of indices along `axis`.
            indices: Integer tensor of rank 1.
            axis: Axis of the indices; negative values count from the end.
            mode: How an update is combined with the element at its index: "add" (the default), "sub", "mul", "div",
                "min", "max", or "set".
            data: Tensor to start from, with the dtype of updates. None, the default, starts from zeros.
            shape: Shape of the result if data is None, as ints or as an integer tensor of rank 1. Defaults to None.
            name: Name of the operation.
            out_of_range: Handling of indices outside the result: "drop" (the default) ignores the update, "clip" uses
                the nearest valid index, and "error" makes the run raise OutOfRangeError.

        Returns:
            A tensor with the shape and dtype of data, or the given shape and the dtype of updates.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or not exactly one of data and shape is given.
            DTypeError: If indices are not integers, the dtypes of data and updates differ, or mode does not support the
                dtype.
            GraphError: If mode or out_of_range has an unknown value.
            OutOfRangeError: If out_of_range is "error" and an index known at this point is out of range.

        Gradient: to data and updates, in every mode. Of several "set" updates at one index, the last gets the gradient;
        equal minima or maxima share the gradient.

        Source: MPSGraph scatterWithUpdatesTensor:indicesTensor:shape:axis:mode:name: and scatterWithDataTensor:….

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.scatter(g.constant([1.0, 2.0, 3.0]), g.constant([0, 2, 0]), axis=0, shape=(3,))).tolist()
            [4.0, 0.0, 2.0]
        """
        data = self._data("scatter", data, shape, updates.dtype, 0)
        return self._tensor("scatter", [data, updates, indices], name, axis=axis, mode=mode, out_of_range=out_of_range)

    def scatter_nd(
        self,
        updates: Tensor,
        indices: Tensor,
        batch_dimensions: int = 0,
        mode: str = "add",
        *,
        data: Tensor | None = None,
        shape: ShapeLike | None = None,
        name: str | None = None,
        out_of_range: str = "drop",
    ) -> Tensor:
        """Combine slices with a tensor at index vectors.

        result = data; result[b..., indices[b..., i..., 0], indices[b..., i..., 1], ..., r...] ∘= updates[b..., i...,
        r...], where ∘ is the mode.

        Args:
            updates: Slices, indexed as in the formula above.
            indices: Integer tensor whose last axis holds the index vectors.
            batch_dimensions: Number of leading axes that all operands share. Defaults to 0.
            mode: How an update is combined with the element at its index: "add" (the default), "sub", "mul", "div",
                "min", "max", or "set".
            data: Tensor to start from, with the dtype of updates. None, the default, starts from zeros.
            shape: Shape of the result if data is None, as ints or as an integer tensor of rank 1. Defaults to None.
            name: Name of the operation.
            out_of_range: Handling of indices outside the result: "drop" (the default) ignores the update, "clip" uses
                the nearest valid index, and "error" makes the run raise OutOfRangeError.

        Returns:
            A tensor with the shape and dtype of data, or the given shape and the dtype of updates.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or not exactly one of data and shape is given.
            DTypeError: If indices are not integers, the dtypes of data and updates differ, or mode does not support the
                dtype.
            GraphError: If mode or out_of_range has an unknown value.
            OutOfRangeError: If out_of_range is "error" and an index known at this point is out of range.

        Gradient: to data and updates, in every mode. Of several "set" updates at one index, the last gets the gradient;
        equal minima or maxima share the gradient.

        Source: MPSGraph scatterNDWithUpdatesTensor:indicesTensor:shape:batchDimensions:mode:name:, the same without
        mode, and scatterNDWithDataTensor:updatesTensor:indicesTensor:batchDimensions:mode:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.scatter_nd(g.constant([5, 6]), g.constant([[0, 1], [1, 0]]), shape=(2, 2))).tolist()
            [[0, 5], [6, 0]]
        """
        data = self._data("scatter_nd", data, shape, updates.dtype, 0)
        inputs = [data, updates, indices]
        attributes: dict[str, Any] = {"batch_dimensions": batch_dimensions, "mode": mode, "out_of_range": out_of_range}
        return self._tensor("scatter_nd", inputs, name, **attributes)

    def scatter_along_axis(
        self,
        axis: int | Tensor,
        updates: Tensor,
        indices: Tensor,
        mode: str = "add",
        *,
        data: Tensor | None = None,
        shape: ShapeLike | None = None,
        name: str | None = None,
        out_of_range: str = "drop",
    ) -> Tensor:
        """Combine elements with a tensor along an axis, with a separate index for each element.

        result = data; result[..., indices[..., i, ...], ...] ∘= updates[..., i, ...], where ∘ is the mode.

        Args:
            axis: Axis of the indices: an int, where negative values count from the end, or an integer tensor of one
                element.
            updates: Elements, with the shape of data except along `axis`.
            indices: Integer tensor with the shape of updates.
            mode: How an update is combined with the element at its index: "add" (the default), "sub", "mul", "div",
                "min", "max", or "set".
            data: Tensor to start from, with the dtype of updates. None, the default, starts from the neutral value of
                the mode: 0, 1, or the largest or lowest value of the dtype.
            shape: Shape of the result if data is None, as ints or as an integer tensor of rank 1. Defaults to None.
            name: Name of the operation.
            out_of_range: Handling of indices outside the result: "drop" (the default) ignores the update, "clip" uses
                the nearest valid index, and "error" makes the run raise OutOfRangeError.

        Returns:
            A tensor with the shape and dtype of data, or the given shape and the dtype of updates.

        Raises:
            ShapeError: If the shapes are inconsistent with each other, or not exactly one of data and shape is given.
            DTypeError: If indices are not integers, the dtypes of data and updates differ, or mode does not support the
                dtype.
            GraphError: If mode or out_of_range has an unknown value.
            OutOfRangeError: If out_of_range is "error" and an index known at this point is out of range.

        Gradient: to data and updates, in every mode. Of several "set" updates at one index, the last gets the gradient;
        equal minima or maxima share the gradient.

        Source: MPSGraph scatterAlongAxis:withUpdatesTensor:indicesTensor:shape:mode:name:, …withDataTensor:…, and both
        with scatterAlongAxisTensor:.

        Example:
            >>> g = mg.Graph()
            >>> updates, indices = g.constant([[1, 2], [3, 4]]), g.constant([[1, 0], [1, 1]])
            >>> g.run({}, g.scatter_along_axis(0, updates, indices, shape=(2, 2))).tolist()
            [[0, 2], [4, 4]]
        """
        kind = "scatter_along_axis"
        data = self._data(kind, data, shape, updates.dtype, neutral(mode, updates.dtype))
        operands, attributes = self._tensor_attributes(kind, axis=axis)
        attributes |= {"mode": mode, "out_of_range": out_of_range}
        return self._tensor(kind, [data, updates, indices, *operands], name, **attributes)

    def _data(
        self, kind: str, data: Tensor | None, shape: ShapeLike | None, dtype: DType, start: bool | int | float
    ) -> Tensor:
        if (data is None) == (shape is None):
            raise ShapeError(
                f"[{kind}] exactly one of data and shape must be given, got {'neither' if data is None else 'both'}"
            )
        if data is not None:
            return data
        assert shape is not None
        number = self._number(kind, bool(start) if dtype.name == "bool" else start, dtype)
        return self._tensor("broadcast_to", [number, self._shape_operand(shape, kind)])


def neutral(mode: str, dtype: DType) -> int | float:
    """Return the neutral value of a mode: combining it with an element leaves the element unchanged."""
    if mode in ("mul", "div"):
        return 1
    if mode not in ("min", "max"):
        return 0
    if dtype.is_float:
        return float("inf") if mode == "min" else -float("inf")
    limits = np.iinfo(dtype.numpy)
    return int(limits.max if mode == "min" else limits.min)
