"""Lowerings of Fourier transforms between complex tensors, and between real and Hermitian tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from ._table import Step, Value, lowers
from .arithmetic import is_complex


def _scaled(step: Step, values: Value, full: Sequence[int], axes: Sequence[int], done: bool) -> Value:
    """Apply the scale factor of a transform.

    `done` means that jax.lax has already divided the values by the size of the transform.
    """
    size = math.prod(full[axis] for axis in axes)
    scale = {"size": 1 / size, "unitary": 1 / math.sqrt(size)}.get(step["scaling"], 1.0) * (size if done else 1)
    return values if scale == 1 else values * np.asarray(scale, values.real.dtype)


def _complex(x: Value, step: Step) -> Value:
    return x if is_complex(x.dtype) else jnp.asarray(x).astype(step.dtype)


@lowers("fast_fourier_transform")
def fast_fourier_transform(step: Step, x: Value) -> Value:
    """Compute the discrete Fourier transform Σ_k exp(∓ 2πi j k / n) x_k along each of the axes."""
    axes = sorted(step.axes())
    x = _complex(jnp.asarray(x), step)
    if x.size == 0:
        return jnp.zeros(step.shape, step.dtype)
    inverse = bool(step["inverse"])
    y = (jnp.fft.ifftn if inverse else jnp.fft.fftn)(x, axes=axes)
    return _scaled(step, y, step.shape, axes, inverse).astype(step.dtype)


@lowers("real_to_hermitean_fft")
def real_to_hermitean_fft(step: Step, x: Value) -> Value:
    """Compute the Fourier transform of a real signal, of which only the first half is returned.

    The other half follows by conjugation.
    """
    axes = sorted(step.axes())
    if 0 in step.shape:
        return jnp.zeros(step.shape, step.dtype)
    y = jnp.fft.rfftn(jnp.asarray(x), axes=axes)
    y = jnp.conj(y) if step["inverse"] else y
    return _scaled(step, y, x.shape, axes, False).astype(step.dtype)


@lowers("hermitean_to_real_fft")
def hermitean_to_real_fft(step: Step, x: Value) -> Value:
    """Return the real signal whose transform has the given first half."""
    axes = sorted(step.axes())
    if 0 in step.shape:
        return jnp.zeros(step.shape, step.dtype)
    x = x if step["inverse"] else jnp.conj(x)
    y = jnp.fft.irfftn(x, s=[step.shape[axis] for axis in axes], axes=axes)
    return _scaled(step, y, step.shape, axes, True).astype(step.dtype)
