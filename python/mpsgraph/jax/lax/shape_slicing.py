"""Lowerings of slices, with constant and computed starts, concat, and split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers
from .gather import as_indices


def _ranges(attributes: Mapping[str, Any], full: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return the start, element count, and stride for each axis, like slice_range in src/core/ops/shape_slicing.cpp."""
    made = []
    for axis, size in enumerate(full):
        start, end, stride = (attributes[key][axis] for key in ("starts", "ends", "strides"))

        def masked(mask: str, axis: int = axis) -> bool:
            return bool(attributes[mask] >> axis & 1)

        def inside(place: int, size: int = size, stride: int = stride) -> int:
            low, high = (0, size) if stride > 0 else (-1, size - 1)
            return min(max(place + size if place < 0 else place, low), high)

        if masked("squeeze_mask"):
            made.append((start + size if start < 0 else start, 1, 1))
            continue
        low, high = (0, size) if stride > 0 else (-1, size - 1)
        first = (low if stride > 0 else high) if masked("start_mask") else inside(start)
        last = (high if stride > 0 else low) if masked("end_mask") else inside(end)
        span = last - first if stride > 0 else first - last
        made.append((first, (span - 1) // abs(stride) + 1 if span > 0 else 0, stride))
    return made


def _taken(x: Value, ranges: Sequence[tuple[int, int, int]]) -> Value:
    """Slice x, given the start, element count, and stride of each axis. No axis is removed."""
    low, high, steps, turned = [], [], [], []
    for axis, (start, count, stride) in enumerate(ranges):
        end = start + (count - 1) * stride
        low.append(min(start, end) if count else 0)
        high.append(max(start, end) + 1 if count else 0)
        steps.append(abs(stride))
        if stride < 0:
            turned.append(axis)
    return lax.rev(lax.slice(x, low, high, steps), turned) if turned else lax.slice(x, low, high, steps)


def _placed(x: Value, ranges: Sequence[tuple[int, int, int]], full: Sequence[int], fill: Value) -> Value:
    """Place x in a larger tensor at the positions that a slice would read, and set all other elements to `fill`."""
    turned = [axis for axis, (_, _, stride) in enumerate(ranges) if stride < 0]
    edges = []
    for (start, count, stride), size in zip(ranges, full, strict=True):
        end = start + (count - 1) * stride
        first, last = (min(start, end), max(start, end)) if count else (size, size - 1)
        edges.append((first, size - 1 - last, abs(stride) - 1) if count else (size, 0, 0))
    return lax.pad(lax.rev(x, turned) if turned else x, fill, edges)


@lowers("slice")
def slice_(step: Step, x: Value) -> Value:
    """Return a slice of x with constant bounds."""
    return _taken(jnp.asarray(x), _ranges(step.attributes, x.shape)).reshape(step.shape)


@lowers("slice_gradient")
def slice_gradient(step: Step, incoming: Value, _: Value) -> Value:
    """Return the gradient of a slice: the incoming gradient at the positions of the slice, and zeros elsewhere."""
    ranges = _ranges(step.attributes, step.shape)
    parts = jnp.asarray(incoming).reshape([count for _, count, _ in ranges])
    return _placed(parts, ranges, step.shape, jnp.zeros((), parts.dtype))


@lowers("slice_update_data")
def slice_update_data(step: Step, data: Value, update: Value) -> Value:
    """Return the data with a slice replaced with an update."""
    ranges = _ranges(step.attributes, data.shape)
    counts = [count for _, count, _ in ranges]
    update = jnp.asarray(update).reshape(counts)
    if all(stride == 1 for _, _, stride in ranges):
        return lax.dynamic_update_slice(jnp.asarray(data), update, [start for start, _, _ in ranges])
    there = _placed(jnp.ones(counts, np.bool_), ranges, data.shape, jnp.zeros((), np.bool_))
    return jnp.where(there, _placed(update, ranges, data.shape, jnp.zeros((), update.dtype)), data)


# --- computed starts --------------------------------------------------------------------------------------------------


def _window(step: Step, starts: Value, full: Sequence[int], sizes: Sequence[int]) -> tuple[list[Value], list[int]]:
    """Return the start and stride of a slice along each axis. Negative starts, which count from the end, are made
    non-negative.
    """
    strides = list(step["strides"]) or [1] * len(full)
    places = as_indices(starts)
    begins = []
    for axis, size in enumerate(full):
        begin = places[axis]
        begins.append(jnp.where(begin < 0, begin + np.asarray(size, begin.dtype), begin))
    return [jnp.zeros_like(b) if sizes[axis] == 0 else b for axis, b in enumerate(begins)], strides


def _indices(begins: Sequence[Value], sizes: Sequence[int], strides: Sequence[int]) -> tuple[Value, ...]:
    grids = [b + np.arange(n, dtype=np.int32) * np.int32(s) for b, n, s in zip(begins, sizes, strides, strict=True)]
    return tuple(jnp.meshgrid(*grids, indexing="ij")) if grids else ()


@lowers("dynamic_slice")
def dynamic_slice(step: Step, x: Value, starts: Value) -> Value:
    """Return a slice whose sizes are constant and whose starts are computed at run time."""
    x, sizes = jnp.asarray(x), step.shape
    if not sizes:
        return x
    begins, strides = _window(step, starts, x.shape, sizes)
    if all(stride == 1 for stride in strides):
        return lax.dynamic_slice(x, begins, sizes)
    return x[_indices(begins, sizes, strides)]


@lowers("dynamic_slice_update_data")
def dynamic_slice_update_data(step: Step, data: Value, update: Value, starts: Value) -> Value:
    """Return the data with one slice, whose starts are computed at run time, replaced with an update."""
    data, update = jnp.asarray(data), jnp.asarray(update)
    if not update.shape:
        return update
    begins, strides = _window(step, starts, data.shape, update.shape)
    if all(stride == 1 for stride in strides):
        return lax.dynamic_update_slice(data, update, begins)
    return data.at[_indices(begins, update.shape, strides)].set(update)


# --- concat and split -------------------------------------------------------------------------------------------------


@lowers("concat")
def concat(step: Step, *parts: Value) -> Value:
    """Concatenate along an axis, or interleave the elements of the operands along it."""
    axis = step.axis()
    if step["interleave"]:
        return jnp.stack(parts, axis + 1).reshape(step.shape)
    return jnp.concatenate([jnp.asarray(part) for part in parts], axis)


@lowers("split")
def split(step: Step, x: Value) -> tuple[Value, ...]:
    """Split x along an axis into parts of given sizes."""
    axis, made, at = step.axis(), [], 0
    for output in step.outputs:
        size = (output.shape or ())[axis]
        made.append(lax.slice_in_dim(jnp.asarray(x), at, at + size, axis=axis))
        at += size
    return tuple(made)
