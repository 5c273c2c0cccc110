"""Lowerings of image resizing, one axis at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers
from ._windows import adjoint
from .arithmetic import is_half


def _resized_axes(layout: str, rank: int) -> list[int]:
    if not layout:
        return list(range(rank))
    return [layout.index("H"), layout.index("W")]


def _rounded(place: Value, mode: str) -> Value:
    half = np.asarray(0.5, place.dtype)
    if mode == "round_prefer_ceil":
        return jnp.floor(place + half)
    if mode == "round_prefer_floor":
        return jnp.ceil(place - half)
    if mode == "ceil":
        return jnp.ceil(place)
    if mode == "floor":
        return jnp.floor(place)
    even = lax.round(place, lax.RoundingMethod.TO_NEAREST_EVEN)
    if mode == "round_to_even":
        return even
    below = jnp.floor(place)
    return jnp.where(place - below == half, below + (below % 2 == 0), jnp.floor(place + half))


class _Resize:
    """The resizing of an image. It computes the input coordinates that the output elements read along each axis."""

    def __init__(self, step: Step, images: Sequence[int], result: Sequence[int], given: Sequence[Value]) -> None:
        self.step, self.images, self.result = step, images, result
        self.axes = _resized_axes(step["layout"], len(images))
        self.given = given
        self.nearest = step.attributes.get("nearest_rounding_mode")

    def places(self, number: int) -> Value:
        """Return the input coordinate of each output element along a resized axis.

        The result is a float64 NumPy array unless scale and offset are computed at run time.
        """
        axis = self.axes[number]
        size, count = self.images[axis], self.result[axis]
        at = np.arange(count, dtype=np.float64)
        if self.given:
            scale, offset = (np.asarray(x)[number] if isinstance(x, np.ndarray) else x[number] for x in self.given)
            fed = not all(isinstance(x, np.ndarray) for x in self.given)
            kind = np.float32 if fed and not jax.config.jax_enable_x64 else np.float64
            return (at.astype(kind) - offset.astype(kind)) / scale.astype(kind)
        if self.step["align_corners"]:
            return at * (size - 1) / (count - 1) if count > 1 else at * 0
        if self.step["center_result"]:
            return (at + 0.5) * size / count - 0.5
        return at * size / count

    def run(self, x: Value) -> Value:
        """Interpolate the images at the input coordinates of the output elements."""
        for number, axis in enumerate(self.axes):
            if self.given or self.images[axis] != self.result[axis]:
                x = self._along(x, number, axis)
        return x

    def _along(self, x: Value, number: int, axis: int) -> Value:
        place, last = self.places(number), self.images[axis] - 1
        module = np if isinstance(place, np.ndarray) else jnp
        if self.nearest:
            rounded = _exactly(place, self.nearest)
            index = module.clip(module.nan_to_num(rounded), 0, last).astype(np.int32)
            return jnp.take(x, index, axis)
        inside = module.clip(module.where(place > 0, place, 0), 0, last)
        low = inside.astype(np.int32)
        weight = inside - low
        shape = [-1 if i == axis else 1 for i in range(x.ndim)]
        weight = weight.astype(x.dtype).reshape(shape)
        one = np.ones((), x.dtype)
        above = jnp.take(x, module.minimum(low + 1, last), axis)
        return jnp.take(x, low, axis) * (one - weight) + above * weight


def _exactly(place: Value, mode: str) -> Value:
    """Round input coordinates to integers in a given mode.

    NumPy arrays are rounded by NumPy in float64, whether or not 64-bit types are enabled in JAX.
    """
    if not isinstance(place, np.ndarray):
        return _rounded(place, mode)
    floor, ceil = np.floor(place), np.ceil(place)
    if mode == "round_to_odd":
        return np.where(place - floor == 0.5, floor + (floor % 2 == 0), np.floor(place + 0.5))
    return {
        "round_prefer_ceil": np.floor(place + 0.5),
        "round_prefer_floor": np.ceil(place - 0.5),
        "ceil": ceil,
        "floor": floor,
        "round_to_even": np.rint(place),
    }[mode]


@lowers("resize_nearest", "resize_bilinear")
def resize(step: Step, images: Value, _: Value, *given: Value) -> Value:
    """Resize images."""
    if 0 in step.shape:
        return jnp.zeros(step.shape, step.dtype)
    wide = np.dtype(np.float32) if is_half(step.dtype) else step.dtype
    resized = _Resize(step, images.shape, step.shape, given).run(jnp.asarray(images).astype(wide))
    return resized.astype(step.dtype)


@lowers("resize_nearest_gradient", "resize_bilinear_gradient")
def resize_gradient(step: Step, incoming: Value, _: Value, *given: Value) -> Value:
    """Return the gradient of resizing with respect to the images."""
    if 0 in incoming.shape or math.prod(step.shape) == 0:
        return jnp.zeros(step.shape, step.dtype)
    wide = np.dtype(np.float32) if is_half(step.dtype) or step.dtype.kind in "iu" else step.dtype
    form = _Resize(step, step.shape, incoming.shape, given)
    return adjoint(form.run, step.shape, jnp.asarray(incoming).astype(wide)).astype(step.dtype)
