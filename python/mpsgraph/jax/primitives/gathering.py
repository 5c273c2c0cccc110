"""Translations of dynamic slices and updates, gather, and scatter.

A window of a gather or scatter is converted to index vectors, one for each of its elements along the indexed axes. The
other axes are taken whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax

from ..._core import Tensor
from ._table import Equation, primitive, shape
from .elementwise import converted
from .shapes import transposed

CLIP, DROP = lax.GatherScatterMode.CLIP, lax.GatherScatterMode.FILL_OR_DROP


def _starts(equation: Equation, starts: Sequence[Tensor], sizes: Sequence[int], taken: Sequence[int]) -> Tensor:
    """Concatenate the starts of a slice, clamped so that the slice is in range."""
    g = equation.g
    wide = [g.reshape(converted(equation, start, _index_type(start)), (1,)) for start in starts]
    # A slice of keys includes all words of each key.
    wide += [equation.constant(0, wide[0].dtype, (1,)) for _ in equation.words]
    kind = "int64" if any(start.dtype.itemsize == 8 for start in wide) else "int32"
    joined = [equation.cast(start, kind) for start in wide]
    whole = joined[0] if len(joined) == 1 else g.concat(joined, 0)
    last = np.array([size - part for size, part in zip(sizes, taken, strict=True)], kind)
    return g.maximum(g.minimum(whole, g.constant(last, dtype=kind)), equation.constant(0, kind))


def _index_type(x: Tensor) -> Any:
    from ..._dtypes import as_dtype

    return as_dtype("int64" if x.dtype.itemsize == 8 or x.dtype.name == "uint32" else "int32")


@primitive("dynamic_slice")
def dynamic_slice(equation: Equation, x: Tensor, *starts: Tensor, slice_sizes: Any) -> Tensor:
    sizes = [*(int(size) for size in slice_sizes), *equation.words]
    if not sizes or tuple(sizes) == shape(x):
        return x
    return equation.g.slice(x, _starts(equation, starts, shape(x), sizes), sizes=sizes)


@primitive("dynamic_update_slice")
def dynamic_update_slice(equation: Equation, x: Tensor, update: Tensor, *starts: Tensor) -> Tensor:
    sizes = list(shape(update))
    if not sizes:
        return update
    if 0 in sizes:
        return x
    return equation.g.slice_update_data(x, update, _starts(equation, starts, shape(x), sizes), sizes=sizes)


class _Windows:
    """The windows of a gather or scatter, converted to index vectors of single elements, and a mask of the windows that
    are in range.

    The operand's axes are reordered: first batch axes, then indexed axes, then all others.
    """

    def __init__(
        self,
        equation: Equation,
        sizes: Sequence[int],
        indices: Tensor,
        batch_axes: Sequence[int],
        indices_batch_axes: Sequence[int],
        index_map: Sequence[int],
        taken: Sequence[int],
        clip: bool,
    ) -> None:
        g = equation.g
        self.batch = list(batch_axes)
        # Along an axis without an index, a window that is narrower than the axis starts at the first element.
        narrow = [
            axis
            for axis in range(len(sizes))
            if axis not in index_map and axis not in batch_axes and taken[axis] < sizes[axis]
        ]
        self.indexed = [*index_map, *narrow]
        self.rest = [axis for axis in range(len(sizes)) if axis not in self.batch and axis not in self.indexed]
        self.permutation = [*self.batch, *self.indexed, *self.rest]
        count = len(shape(indices)) - 1
        outer = [axis for axis in range(count) if axis not in indices_batch_axes]
        indices = transposed(equation, indices, [*indices_batch_axes, *outer, count])
        # Where the axes of `indices` appear in a gather's result or a scatter's updates, not counting window axes.
        self.order = [*indices_batch_axes, *outer]
        kind = "int64" if indices.dtype.itemsize == 8 or indices.dtype.name == "uint32" else "int32"
        indices = equation.cast(indices, kind) if indices.dtype.is_signed else self._signed(equation, indices, kind)
        places = list(shape(indices)[:-1])
        last = [sizes[axis] - taken[axis] for axis in index_map]
        self.inside: Tensor | None = None
        limit, zero = g.constant(np.array(last, kind), dtype=kind), equation.constant(0, kind)
        if index_map:
            clamped = g.maximum(g.minimum(indices, limit), zero)
            if not clip:
                self.inside = g.reshape(g.reduction_and(g.equal(clamped, indices), -1), places)
            indices = clamped
        if narrow:
            first = equation.constant(0, kind, [*places, len(narrow)])
            indices = g.concat([indices, first], len(places)) if index_map else first
        # Add one axis per indexed axis of the window, in front of the axis of the index vectors.
        windows = [taken[axis] for axis in self.indexed]
        self.windows, self.places = windows, places
        shaped = g.reshape(indices, [*places, *[1] * len(windows), len(windows)])
        if math.prod(windows) > 1:
            steps = np.stack(np.meshgrid(*[np.arange(w) for w in windows], indexing="ij"), -1).astype(kind)
            shaped = g.addition(shaped, g.constant(steps, dtype=kind))
        self.indices = shaped
        self.kind = kind

    @staticmethod
    def _signed(equation: Equation, indices: Tensor, kind: str) -> Tensor:
        """Convert unsigned indices to signed indices. Large 64-bit indices saturate, so that they stay out of range."""
        g = equation.g
        if indices.dtype.itemsize < 8:
            return g.cast(indices, kind)
        top = equation.constant(np.iinfo(np.int64).max, indices.dtype)
        return g.cast(g.minimum(indices, top), kind)


def _axes(axes: Any) -> list[int]:
    return [int(axis) for axis in axes]


@primitive("gather")
def gather(
    equation: Equation,
    x: Tensor,
    indices: Tensor,
    *,
    dimension_numbers: Any,
    slice_sizes: Any,
    mode: Any,
    fill_value: Any = None,
    **_: Any,
) -> Tensor:
    g, numbers = equation.g, dimension_numbers
    taken = [*(int(size) for size in slice_sizes), *equation.words]
    fill = lax.GatherScatterMode.from_any(mode) == DROP
    batch, collapsed = _axes(numbers.operand_batching_dims), _axes(numbers.collapsed_slice_dims)
    windows = _Windows(
        equation, shape(x), indices, batch, _axes(numbers.start_indices_batching_dims),
        _axes(numbers.start_index_map), taken, clip=not fill,
    )  # fmt: skip
    if not windows.indexed:
        found = transposed(equation, x, windows.permutation)
        sizes = [1] * len(windows.places) + [shape(x)[axis] for axis in windows.rest]
        for place in range(len(batch)):
            sizes[place] = windows.places[place]
        found = g.broadcast_to(g.reshape(found, sizes), [*windows.places, *sizes[len(windows.places) :]])
    else:
        found = g.gather_nd(transposed(equation, x, windows.permutation), windows.indices, len(batch))
    if fill and windows.inside is not None:
        mask = g.reshape(windows.inside, [*windows.places, *[1] * (len(shape(found)) - len(windows.places))])
        found = g.select(mask, found, equation.constant(_fill(x, fill_value), x.dtype))
    # The result has the index axes, the window axes that are indexed, and all other axes. Drop collapsed axes, then
    # permute.
    behind = [*windows.indexed, *windows.rest]
    kept = [axis for axis in behind if axis not in collapsed]
    sizes = [*windows.places, *[taken[axis] for axis in kept]]
    found = g.reshape(found, sizes)
    offsets = [*_axes(numbers.offset_dims), *range(len(sizes) - len(equation.words), len(sizes))]
    wanted = sorted(kept)
    outer = [axis for axis in range(len(sizes)) if axis not in offsets]
    permutation = [0] * len(sizes)
    for place, axis in enumerate(offsets):
        permutation[axis] = len(windows.places) + kept.index(wanted[place])
    for place, axis in enumerate(outer):
        permutation[axis] = windows.order.index(place)
    return transposed(equation, found, permutation)


def _fill(x: Tensor, value: Any) -> Any:
    """Return the value that a gather returns for out-of-range indices: `value`, or JAX's default if it is None."""
    if value is not None:
        return value
    if x.dtype.is_float or x.dtype.is_complex:
        return np.nan
    if x.dtype.name == "bool":
        return True
    limits = np.iinfo(x.dtype.numpy)
    return limits.min if x.dtype.is_signed else limits.max


SCATTERS = {
    "scatter": "set",
    "scatter-add": "add",
    "scatter-sub": "sub",
    "scatter_sub": "sub",
    "scatter-mul": "mul",
    "scatter-min": "min",
    "scatter-max": "max",
    "scatter_add": "add",
    "scatter_mul": "mul",
    "scatter_min": "min",
    "scatter_max": "max",
}


@primitive(*SCATTERS)
def scatter(
    equation: Equation, x: Tensor, indices: Tensor, updates: Tensor, *, dimension_numbers: Any, mode: Any, **_: Any
) -> Tensor:
    g, numbers = equation.g, dimension_numbers
    if 0 in shape(updates) or 0 in shape(x):
        return x
    how = SCATTERS[equation.name]
    window_axes = _axes(numbers.update_window_dims)
    inserted, batch = _axes(numbers.inserted_window_dims), _axes(numbers.operand_batching_dims)
    windowed = [axis for axis in range(len(shape(x))) if axis not in inserted and axis not in batch]
    taken = [1] * len(shape(x))
    for axis, place in zip(windowed, window_axes, strict=True):
        taken[axis] = shape(updates)[place]
    clip = lax.GatherScatterMode.from_any(mode) == CLIP
    windows = _Windows(
        equation, shape(x), indices, batch, _axes(numbers.scatter_indices_batching_dims),
        _axes(numbers.scatter_dims_to_operand_dims), taken, clip,
    )  # fmt: skip
    # Reorder the axes of the updates: index axes, then window axes that are indexed, then all other axes.
    outer = [axis for axis in range(len(shape(updates))) if axis not in window_axes]
    behind = [axis for axis in [*windows.indexed, *windows.rest] if axis in windowed]
    order = [outer[place] for place in windows.order] + [window_axes[windowed.index(axis)] for axis in behind]
    updates = transposed(equation, updates, order)
    rest = [shape(x)[axis] for axis in windows.rest]
    updates = g.reshape(updates, [*windows.places, *windows.windows, *rest])
    operand, found = transposed(equation, x, windows.permutation), windows.indices
    if not windows.indexed:
        # If no axis is indexed, add an axis of size 1 to index, so that every update covers the whole operand.
        operand = g.reshape(operand, [*shape(operand)[: len(batch)], 1, *rest])
        found = equation.constant(0, "int32", [*windows.places, 1])
    if windows.inside is not None:
        mask = g.reshape(windows.inside, [*windows.places, *[1] * (len(shape(found)) - len(windows.places))])
        found = g.select(mask, found, equation.constant(-1, windows.kind))
    boolean = x.dtype.name == "bool"
    if boolean and how != "set":
        operand, updates = g.cast(operand, "uint8"), g.cast(updates, "uint8")
        how = {"add": "max", "mul": "min"}.get(how, how)
    if how in ("min", "max") and x.dtype.is_complex:
        equation.refuse("minimum and maximum of complex numbers are not supported")
    result = g.scatter_nd(updates, found, len(batch), how, data=operand)
    if boolean and how != "set":
        result = g.cast(result, "bool")
    result = g.reshape(result, [shape(x)[axis] for axis in windows.permutation])
    return transposed(equation, result, [windows.permutation.index(axis) for axis in range(len(shape(x)))])
