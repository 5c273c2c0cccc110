"""Updates put into a tensor where indices say, in one of seven modes.

result = data, then for each update in turn result[place] ∘= update, where ∘ is "add", "sub", "mul", "div", "min", "max"
or "set". `out_of_range` says what becomes of an index outside of the result: "drop", its update is dropped and gets no
gradient; "clip", it stands for the nearest one inside; "error", the run raises OutOfRangeError, as of a gather. Without
`data` a `shape` says the result's, and it begins with zeros, or for scatter_along_axis with what is neutral for the
mode.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._family import DType, Family, ShapeError, ShapeLike, Tensor


class ScatterND(Family):
    """scatter, scatter_nd and scatter_along_axis."""

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
        """Slices put at indices along an axis.

        result = data; result[..., indices[i], ...] ∘= updates[..., i, ...].
        Args: updates, shaped as data with the number of indices at `axis`; indices, integers of rank 1; axis, negative
        counts from the end; mode, "add", "sub", "mul", "div", "min", "max" or "set"; data, updates' dtype, or shape,
        ints or an int tensor, for zeros; out_of_range, "drop", "clip" or "error". Result: data's type. Errors:
        ShapeError, DTypeError, GraphError, OutOfRangeError.
        Gradient: to data and updates, in every mode; of several "set" in one place to the last, extrema share ties.
        Source: MPSGraph scatterWithUpdatesTensor:indicesTensor:shape:axis:mode:name: and scatterWithDataTensor:….

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
        """Slices put at index vectors.

        result = data; result[b..., indices[b..., i..., 0], indices[b..., i..., 1], ..., r...] ∘= updates[b..., i...,
        r...].
        Args: updates, as the formula says; indices, integers, their last axis the vectors; batch_dimensions, leading
        axes that all have in common; mode, "add", "sub", "mul", "div", "min", "max" or "set"; data, updates' dtype, or
        shape, ints or an int tensor, for zeros; out_of_range, "drop", "clip" or "error". Result: data's type. Errors:
        ShapeError, DTypeError, GraphError, OutOfRangeError.
        Gradient: to data and updates, in every mode; of several "set" in one place to the last, extrema share ties.
        Source: MPSGraph scatterNDWithUpdatesTensor:indicesTensor:shape:batchDimensions:mode:name:, the same without
        mode, and scatterNDWithDataTensor:updatesTensor:indicesTensor:batchDimensions:mode:name:.

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
        """Elements put at indices along an axis.

        result = data; result[..., indices[..., i, ...], ...] ∘= updates[..., i, ...].
        Args: axis, an int, negative counts from the end, or one in an int tensor; updates and indices (integers),
        shaped as data but for `axis`; mode, "add", "sub", "mul", "div", "min", "max" or "set"; data, updates' dtype, or
        shape, ints or an int tensor, for a start with what is neutral: 0, 1, the largest or the lowest value;
        out_of_range, "drop", "clip" or "error". Result: data's type. Errors: ShapeError, DTypeError, GraphError,
        OutOfRangeError.
        Gradient: to data and updates, in every mode; of several "set" in one place to the last, extrema share ties.
        Source: MPSGraph scatterAlongAxis:withUpdatesTensor:indicesTensor:shape:mode:name:, …withDataTensor:…, and both
        with scatterAlongAxisTensor:.

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
            raise ShapeError(f"[{kind}] takes either data or a shape")
        if data is not None:
            return data
        assert shape is not None
        number = self._number(kind, bool(start) if dtype.name == "bool" else start, dtype)
        return self._tensor("broadcast_to", [number, self._shape_operand(shape, kind)])


def neutral(mode: str, dtype: DType) -> int | float:
    """What changes nothing when it is combined with."""
    if mode in ("mul", "div"):
        return 1
    if mode not in ("min", "max"):
        return 0
    if dtype.is_float:
        return float("inf") if mode == "min" else -float("inf")
    limits = np.iinfo(dtype.numpy)
    return int(limits.max if mode == "min" else limits.min)
