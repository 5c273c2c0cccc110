"""Lowerings of matmul and Hamming distance; attention and integer matmul are composite."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers
from .arithmetic import is_half, is_padded


def product(a: Value, b: Value, precision: object) -> Value:
    """Multiply matrices, broadcasting leading axes.

    Products of float16 and bfloat16 are accumulated in float32. Products of bools are combined with "or".
    """
    if a.dtype == np.bool_:
        return jnp.matmul(a.astype(np.int32), b.astype(np.int32)) != 0
    if not is_half(a.dtype):
        return jnp.matmul(a, b, precision=precision)

    def widened(a: Value, b: Value) -> Value:
        return jnp.matmul(a, b, preferred_element_type=np.float32).astype(a.dtype)

    return lax.platform_dependent(a, b, cuda=lambda a, b: on_tensor_cores(a, b)[..., : b.shape[-1]], default=widened)


def on_tensor_cores(a: Value, b: Value) -> Value:
    """Multiply half-precision matrices on an NVIDIA GPU, which sums in float32 before it rounds the result.

    Large sizes that are not multiples of 8, such as the vocabulary of GPT-2, are rounded up to multiples of 64, because
    the tensor cores are several times slower otherwise. Leading axes are joined where possible, so that XLA merges
    equal paddings. The last axis of the result stays rounded up, with zeros, and that of `a` may be.
    """

    def rounded(x: Value, axis: int) -> Value:
        short = -x.shape[axis] % 64 if is_padded(x.shape[axis]) else 0
        return widened_to(x, x.shape[axis] + short, axis)

    rows = a.shape[:-1]
    if b.ndim == 2 and a.ndim > 2 and a.size:
        a = a.reshape(-1, a.shape[-1])
    count = a.shape[-2]
    b = widened_to(b, a.shape[-1], -2)
    result = jnp.matmul(rounded(rounded(a, -1), -2), rounded(rounded(b, -1), -2))[..., :count, :]
    return result.reshape(*rows, result.shape[-1]) if b.ndim == 2 else result


def widened_to(x: Value, size: int, axis: int, filler: float = 0.0) -> Value:
    """Append elements to an axis until it has the given size."""
    widths = [(0, size - x.shape[axis]) if i == axis % x.ndim else (0, 0) for i in range(x.ndim)]
    return jnp.pad(x, widths, constant_values=filler) if size > x.shape[axis] else x


@lowers("matrix_multiplication")
def matrix_multiplication(step: Step, a: Value, b: Value) -> Value:
    """Compute the matrix product of a and b."""
    a, b = jnp.asarray(a), jnp.asarray(b)
    if not step.trace.tensor_cores or not is_half(a.dtype):
        return product(a, b, step.trace.precision)
    wide = on_tensor_cores(step.wide(0, a), step.wide(1, b))
    return step.trace.narrowed(step.outputs[0], wide)


@lowers("hamming_distance")
def hamming_distance(step: Step, a: Value, b: Value) -> Value:
    """Return the Hamming distance, the number of differing bits, between each row of a and each row of b."""
    differing = lax.population_count(jnp.expand_dims(a, -2) ^ jnp.expand_dims(b, -3))
    return jnp.sum(differing.astype(step.dtype), -1, dtype=step.dtype)
