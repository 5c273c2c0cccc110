"""Lowerings of maximum pooling, with and without indices, average pooling, and sum pooling over two or four axes.

The gradient of a maximum goes to the first maximum of each window, where NaN counts as larger than every number.
Operations that select a position in each window are computed for one tap after another, and XLA fuses these steps into
one loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers
from ._windows import Window, adjoint, put_back, seen, spatial_axes, taps_of, windows_of
from .arithmetic import is_half


def _windows(step: Step, source: Sequence[int]) -> list[Window]:
    return windows_of(step.attributes, source, step["kernel"])


def _reduced(x: Value, windows: Sequence[Window], start: float, reducer: object) -> Value:
    rank = x.ndim
    dimensions, strides, dilation, padding = [1] * rank, [1] * rank, [1] * rank, [(0, 0)] * rank
    for window in windows:
        dimensions[window.axis], strides[window.axis] = window.kernel, window.stride
        dilation[window.axis], padding[window.axis] = window.dilation, window.padding
    return lax.reduce_window(
        x, jnp.asarray(start, x.dtype), reducer, dimensions, strides, padding, window_dilation=dilation
    )


def _first_maxima(x: Value, windows: Sequence[Window]) -> tuple[Value, Value]:
    """Return the maximum of each window and its tap number, which is -1 if the window contains only padding."""
    inside = jnp.ones(x.shape, np.bool_)
    best = place = None
    for number, tap in enumerate(taps_of(windows)):
        value, sees = seen(x, windows, tap, -np.inf), seen(inside, windows, tap, False)
        if best is None or place is None:
            best, place = value, jnp.where(sees, 0, -1).astype(np.int32)
            continue
        better = sees & ((value > best) | (jnp.isnan(value) & ~jnp.isnan(best)) | (place < 0))
        best, place = jnp.where(better, value, best), jnp.where(better, np.int32(number), place)
    assert best is not None and place is not None  # A window has at least one tap, so the loop has set both.
    return best, place


@lowers("max_pooling2d", "max_pooling4d")
def max_pooling(step: Step, x: Value) -> Value:
    """Return the maximum of each window, ignoring padding."""
    if 0 in step.shape or 0 in x.shape:
        return jnp.full(step.shape, -np.inf, step.dtype)
    return _reduced(jnp.asarray(x), _windows(step, x.shape), -np.inf, lax.max)


@lowers("max_pooling2d_gradient", "max_pooling4d_gradient")
def max_pooling_gradient(step: Step, incoming: Value, x: Value) -> Value:
    """Return the gradient of max pooling: the incoming gradient, added at the first maximum of each window."""
    windows = _windows(step, x.shape)
    place = _first_maxima(jnp.asarray(x), windows)[1]
    return _put_at(step, jnp.asarray(incoming), place, windows)


def _put_at(step: Step, incoming: Value, place: Value, windows: Sequence[Window]) -> Value:
    """Add one value per window at the window's selected filter tap, given by its number."""
    wide = np.float32 if is_half(incoming.dtype) else incoming.dtype
    total = jnp.zeros(step.shape, wide)
    zero = jnp.zeros((), incoming.dtype)
    for number, tap in enumerate(taps_of(windows)):
        part = jnp.where(place == number, incoming, zero).astype(wide)
        total = total + put_back(part, windows, tap, step.shape)
    return total.astype(step.dtype)


@lowers("max_pooling2d_at_maxima", "max_pooling4d_at_maxima")
def max_pooling_at_maxima(step: Step, values: Value, x: Value) -> Value:
    """Gather one value per window, at the position of the first maximum of x in that window."""
    windows = _windows(step, x.shape)
    return _values_at(jnp.asarray(values), _first_maxima(jnp.asarray(x), windows)[1], windows)


def _values_at(values: Value, place: Value, windows: Sequence[Window]) -> Value:
    total = jnp.zeros(place.shape, values.dtype)
    for number, tap in enumerate(taps_of(windows)):
        total = jnp.where(place == number, seen(values, windows, tap, 0), total)
    return total


# --- averages and sums ------------------------------------------------------------------------------------------------


def _sums(x: Value, windows: Sequence[Window]) -> Value:
    if is_half(x.dtype):
        return _reduced(x.astype(np.float32), windows, 0, lax.add)
    return _reduced(x, windows, 0, lax.add)


def _spread(incoming: Value, windows: Sequence[Window], source: Sequence[int]) -> Value:
    """Add the incoming gradient of each window to all source elements in that window."""
    total = jnp.zeros(tuple(source), incoming.dtype)
    for tap in taps_of(windows):
        total = total + put_back(incoming, windows, tap, source)
    return total


def _divisors(windows: Sequence[Window], rank: int, includes_padding: bool) -> np.ndarray:
    """Return, for each window, the number of elements by which the sum of the window is divided."""
    result = np.ones((1,) * rank)
    for w in windows:
        places = np.arange(w.output)[:, None] * w.stride + np.arange(w.kernel)[None] * w.dilation - w.begin
        counts = places < w.input + w.end if includes_padding else (places >= 0) & (places < w.input)
        shape = [1] * rank
        shape[w.axis] = w.output
        result = result * counts.sum(1).reshape(shape)
    return np.maximum(result, 1)


@lowers("avg_pooling2d", "avg_pooling4d")
def avg_pooling(step: Step, x: Value) -> Value:
    """Return the mean of each window."""
    if 0 in step.shape or 0 in x.shape:
        return jnp.zeros(step.shape, step.dtype)
    windows = _windows(step, x.shape)
    sums = _sums(jnp.asarray(x), windows)
    divisors = _divisors(windows, x.ndim, bool(step["include_zero_pad_to_average"]))
    return (sums / divisors.astype(sums.dtype)).astype(step.dtype)


@lowers("avg_pooling2d_gradient", "avg_pooling4d_gradient")
def avg_pooling_gradient(step: Step, incoming: Value, _: Value) -> Value:
    """Return the gradient of average pooling: the incoming gradient, divided evenly among the elements of each
    window.
    """
    if 0 in step.shape or 0 in incoming.shape:
        return jnp.zeros(step.shape, step.dtype)
    windows = _windows(step, step.shape)
    divisors = _divisors(windows, incoming.ndim, bool(step["include_zero_pad_to_average"]))
    wide = np.dtype(np.float32) if is_half(incoming.dtype) else incoming.dtype
    share = jnp.asarray(incoming).astype(wide) / divisors.astype(wide)
    return _spread(share, windows, step.shape).astype(step.dtype)


@lowers("sum_pooling4d")
def sum_pooling(step: Step, x: Value) -> Value:
    """Return the sum of each window."""
    if 0 in step.shape or 0 in x.shape:
        return jnp.zeros(step.shape, step.dtype)
    return _sums(jnp.asarray(x), _windows(step, x.shape)).astype(step.dtype)


@lowers("sum_pooling4d_gradient")
def sum_pooling_gradient(step: Step, incoming: Value, _: Value) -> Value:
    """Return the gradient of sum pooling: the incoming gradient of each window, added to all elements in that
    window.
    """
    if 0 in step.shape or 0 in incoming.shape:
        return jnp.zeros(step.shape, step.dtype)
    windows = _windows(step, step.shape)
    return _spread(jnp.asarray(incoming), windows, step.shape)


# --- with indices -----------------------------------------------------------------------------------------------------


class _Indices:
    """Converts filter tap numbers to max pooling's indices, in the form that a return_indices_mode specifies."""

    def __init__(self, step: Step, windows: Sequence[Window], source: Sequence[int]) -> None:
        mode = step["return_indices_mode"]
        self.is_global, self.axes = mode.startswith("global"), int(mode[-2])
        self.windows, self.source, self.rank = windows, source, len(source)
        counted = [axis for axis in range(self.rank) if axis >= self.rank - self.axes]
        self.strides = {axis: math.prod(source[axis + 1 :]) for axis in counted}
        self.spatial = set(spatial_axes(step.attributes, self.rank))

    def of_tap(self, tap: Sequence[int], shape: Sequence[int]) -> Value:
        """Return, for each window, the index of the source element at the given filter tap."""
        if not self.is_global:
            index = 0
            for window, place in zip(self.windows, tap, strict=True):
                if window.axis >= self.rank - self.axes:
                    index = index * window.kernel + place
            return jnp.full(shape, index, np.int32)
        total = jnp.zeros(shape, np.int32)
        moved = {w.axis: (w, place) for w, place in zip(self.windows, tap, strict=True)}
        for axis, stride in self.strides.items():
            at = lax.broadcasted_iota(np.int32, tuple(shape), axis)
            if axis in moved:
                window, place = moved[axis]
                at = at * window.stride + np.int32(place * window.dilation - window.begin)
            total = total + at * np.int32(stride)
        return total


@lowers("max_pooling2d_return_indices", "max_pooling4d_return_indices")
def max_pooling_return_indices(step: Step, x: Value) -> tuple[Value, Value]:
    """Return the maximum of each window and its index."""
    windows = _windows(step, x.shape)
    indices = _Indices(step, windows, x.shape)
    best, place = _first_maxima(jnp.asarray(x), windows)
    where = jnp.full(place.shape, -1, np.int32)
    for number, tap in enumerate(taps_of(windows)):
        where = jnp.where(place == number, indices.of_tap(tap, place.shape), where)
    return best, where


def _places(step: Step, indices: Value, source: Sequence[int], windows: Sequence[Window]) -> Value:
    """Return, for each index from max pooling, the number of the first filter tap that it refers to, or -1 if none."""
    counted = _Indices(step, windows, source)
    inside = jnp.ones(source, np.bool_)
    place = jnp.full(indices.shape, -1, np.int32)
    for number, tap in reversed(list(enumerate(taps_of(windows)))):
        points = (counted.of_tap(tap, indices.shape) == indices) & seen(inside, windows, tap, False)
        place = jnp.where(points, np.int32(number), place)
    return place


@lowers("max_pooling2d_gradient_from_indices", "max_pooling4d_gradient_from_indices")
def max_pooling_gradient_from_indices(step: Step, incoming: Value, indices: Value, _: Value) -> Value:
    """Return the gradient of max pooling, given its indices: the incoming gradient, added to the elements that the
    indices refer to.
    """
    if _points_anywhere(step):
        return adjoint(lambda x: _read_at(step, x, indices), step.shape, jnp.asarray(incoming))
    windows = _windows(step, step.shape)
    return _put_at(step, jnp.asarray(incoming), _places(step, indices, step.shape, windows), windows)


@lowers("max_pooling2d_at_indices", "max_pooling4d_at_indices")
def max_pooling_at_indices(step: Step, values: Value, indices: Value) -> Value:
    """Gather the values at the indices that max pooling returned."""
    if _points_anywhere(step):
        return _read_at(step, jnp.asarray(values), indices)
    windows = _windows(step, values.shape)
    return _values_at(jnp.asarray(values), _places(step, indices, values.shape, windows), windows)


def _points_anywhere(step: Step) -> bool:
    """Return whether max pooling's indices are global, so that they may refer to elements outside their own windows."""
    return bool(step["return_indices_mode"].startswith("global"))


def _read_at(step: Step, values: Value, indices: Value) -> Value:
    """Gather values at global indices from max pooling.

    Along axes that the indices do not cover, a value is read at the position of its window.
    """
    axes, rank = int(step["return_indices_mode"][-2]), values.ndim
    counted = range(rank - min(axes, rank), rank)
    windows = {w.axis: w for w in _windows(step, values.shape)}
    rest = jnp.asarray(indices).astype(np.int32)
    total = math.prod(values.shape[axis] for axis in counted)
    valid = (rest >= 0) & (rest < total)
    places = {}
    for axis in reversed(counted):
        places[axis] = rest % np.int32(max(values.shape[axis], 1))
        rest = rest // np.int32(max(values.shape[axis], 1))
    for axis in range(rank):
        if axis not in places:
            at = lax.broadcasted_iota(np.int32, indices.shape, axis)
            window = windows.get(axis)
            places[axis] = at if window is None else at * np.int32(window.stride) - np.int32(window.begin)
        elif axis not in windows:
            valid &= places[axis] == lax.broadcasted_iota(np.int32, indices.shape, axis)
    found = values.at[tuple(places[axis] for axis in range(rank))].get(mode="fill", fill_value=0)
    return jnp.where(valid, found, jnp.zeros((), values.dtype))
