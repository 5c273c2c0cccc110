"""Lowerings of image resizing, one axis at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ._table import Step, Value, lowers
from ._windows import adjoint
from .arithmetic import is_half


def _resized_axes(layout: str, rank: int) -> list[int]:
    if not layout:
        return list(range(rank))
    return [layout.index("H"), layout.index("W")]


def _rounded(place: Value, mode: str) -> Value:
    """Round input coordinates to integers in a given mode.

    NumPy arrays are rounded by NumPy in float64, whether or not 64-bit types are enabled in JAX.
    """
    module = np if isinstance(place, np.ndarray) else jnp
    half, floor = np.asarray(0.5, place.dtype), module.floor(place)
    match mode:
        case "round_prefer_ceil":
            return module.floor(place + half)
        case "round_prefer_floor":
            return module.ceil(place - half)
        case "round_to_odd":
            return module.where(place - floor == half, floor + (floor % 2 == 0), module.floor(place + half))
    return {"ceil": module.ceil, "floor": module.floor, "round_to_even": module.rint}[mode](place)


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
            rounded = _rounded(place, self.nearest)
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
