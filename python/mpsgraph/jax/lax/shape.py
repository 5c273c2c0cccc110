"""Lowerings of reshape, transpose, broadcast, bit casts, padding, tiling, and coordinates."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers
from ._windows import adjoint


@lowers("reshape")
def reshape(step: Step, x: Value, _: Value) -> Value:
    """Reshape x."""
    return x.reshape(step.shape)


@lowers("transpose")
def transpose(step: Step, x: Value) -> Value:
    """Permute axes."""
    return jnp.transpose(x, step.axes("permutation"))


@lowers("broadcast_to")
def broadcast_to(step: Step, x: Value, _: Value) -> Value:
    """Repeat x along new axes and axes of size 1."""
    return jnp.broadcast_to(x, step.shape)


@lowers("coordinate_along_axis")
def coordinate_along_axis(step: Step, _: Value) -> Value:
    """Return a tensor in which each element is its own index along the given axis."""
    axis = int(step["axis"]) % max(len(step.shape), 1)
    return lax.broadcasted_iota(np.int32, step.shape, axis)


@lowers("reinterpret_cast")
def reinterpret_cast(step: Step, x: Value) -> Value:
    """Reinterpret bits as another dtype. The size of the last axis changes if the element sizes differ."""
    x, to = jnp.asarray(x), step.dtype
    if x.dtype == to:
        return x
    x = _as_integers(x)
    width = np.dtype(f"u{to.itemsize}") if to.kind in "cb" else to
    if to.kind == "c":
        width = np.dtype(f"f{to.itemsize // 2}")
        parts = _recast(x, width)
        pairs = parts.reshape((*parts.shape[:-1], -1, 2)) if x.ndim else parts.reshape(2)
        return lax.complex(pairs[..., 0], pairs[..., 1]).reshape(step.shape)
    made = _recast(x, width).reshape(step.shape)
    return made != 0 if to == np.bool_ else made


def _as_integers(x: Value) -> Value:
    """Convert complex numbers to pairs of floats and bools to bytes, so that their bits can be reinterpreted."""
    if x.dtype.kind == "c":
        pairs = jnp.stack([x.real, x.imag], -1)
        return pairs.reshape((*x.shape[:-1], -1)) if x.ndim else pairs
    return x.astype(np.uint8) if x.dtype == np.bool_ else x


def _recast(x: Value, to: np.dtype) -> Value:
    size, wanted = x.dtype.itemsize, to.itemsize
    if size < wanted:
        return lax.bitcast_convert_type(x.reshape((*x.shape[:-1], -1, wanted // size)), to)
    made = lax.bitcast_convert_type(x, to)
    return made if size == wanted else made.reshape((*x.shape[:-1], -1))


# --- padding and tiling -----------------------------------------------------------------------------------------------


def _sources(mode: str, size: int, left: int, right: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of the source element that each element of a padded axis copies, and the sign of the copy."""
    place = np.arange(-left, size + right)
    sign = np.ones(len(place), np.int8)
    if mode == "clamp_to_edge":
        return np.clip(place, 0, size - 1), sign
    if mode == "periodic":
        return place % size, sign
    if mode == "anti_periodic":
        return place % size, np.where(place % (2 * size) >= size, np.int8(-1), np.int8(1))
    if mode == "symmetric":
        turned = place % (2 * size)
        return np.where(turned < size, turned, 2 * size - 1 - turned), sign
    if size == 1:
        return np.zeros(len(place), np.int64), sign
    turned = place % (2 * size - 2)
    return np.where(turned < size, turned, 2 * size - 2 - turned), sign


def _padded(x: Value, left: Sequence[int], right: Sequence[int], mode: str, value: object) -> Value:
    if mode in ("constant", "zero"):
        fill = jnp.asarray(value if mode == "constant" else 0).astype(x.dtype)
        return lax.pad(x, fill, [(a, b, 0) for a, b in zip(left, right, strict=True)])
    for axis, (before, after) in enumerate(zip(left, right, strict=True)):
        if not before and not after:
            continue
        index, sign = _sources(mode, x.shape[axis], before, after)
        x = jnp.take(x, index, axis)
        if (sign < 0).any():
            shape = [-1 if i == axis else 1 for i in range(x.ndim)]
            x = x * sign.astype(x.dtype).reshape(shape)
    return x


@lowers("pad")
def pad(step: Step, x: Value) -> Value:
    """Pad x."""
    return _padded(jnp.asarray(x), step["left"], step["right"], step["mode"], step["value"])


@lowers("pad_gradient")
def pad_gradient(step: Step, incoming: Value, _: Value) -> Value:
    """Return the gradient of padding: for each source element, the sum of the gradients of all its copies."""
    left, right, mode = step["left"], step["right"], step["mode"]
    incoming = jnp.asarray(incoming)
    if 0 in step.shape:
        return jnp.zeros(step.shape, step.dtype)
    if mode in ("constant", "zero"):
        return lax.pad(incoming, jnp.zeros((), incoming.dtype), [(-a, -b, 0) for a, b in zip(left, right, strict=True)])
    if incoming.dtype.kind in "iu":
        return _integer_pad_gradient(step, incoming)
    return adjoint(lambda x: _padded(x, left, right, mode, 0), step.shape, incoming)


def _integer_pad_gradient(step: Step, incoming: Value) -> Value:
    """Compute the gradient of padding for integer types one axis at a time, because JAX does not differentiate
    integers.
    """
    for axis, (before, after) in enumerate(zip(step["left"], step["right"], strict=True)):
        index, sign = _sources(step["mode"], step.shape[axis], before, after)
        moved = jnp.moveaxis(incoming, axis, 0)
        moved = moved * sign.astype(moved.dtype).reshape(-1, *[1] * (moved.ndim - 1))
        total = jnp.zeros((step.shape[axis], *moved.shape[1:]), moved.dtype).at[index].add(moved)
        incoming = jnp.moveaxis(total, 0, axis)
    return incoming


@lowers("tile")
def tile(step: Step, x: Value) -> Value:
    """Repeat x along each axis."""
    return jnp.tile(x, tuple(step["multiplier"]))
