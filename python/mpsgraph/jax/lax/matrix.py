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

    return lax.platform_dependent(a, b, cuda=_on_tensor_cores, default=widened)


def _on_tensor_cores(a: Value, b: Value) -> Value:
    """Multiply half-precision matrices on an NVIDIA GPU, which sums in float32 before it rounds the result.

    Large sizes that are not multiples of 8, such as the vocabulary of GPT-2, are rounded up to multiples of 64, because
    the tensor cores are several times slower otherwise. Leading axes are joined where possible, so that XLA merges
    equal paddings.
    """

    def rounded(x: Value, axis: int) -> Value:
        short = -x.shape[axis] % 64 if is_padded(x.shape[axis]) else 0
        widths = [(0, short) if i == axis % x.ndim else (0, 0) for i in range(x.ndim)]
        return jnp.pad(x, widths) if short else x

    rows, columns = a.shape[:-1], b.shape[-1]
    if b.ndim == 2 and a.ndim > 2 and a.size:
        a = a.reshape(-1, a.shape[-1])
    count = a.shape[-2]
    result = jnp.matmul(rounded(rounded(a, -1), -2), rounded(rounded(b, -1), -2))[..., :count, :columns]
    return result.reshape(*rows, columns) if b.ndim == 2 else result


@lowers("matrix_multiplication")
def matrix_multiplication(step: Step, a: Value, b: Value) -> Value:
    """Compute the matrix product of a and b."""
    return product(jnp.asarray(a), jnp.asarray(b), step.trace.precision)


@lowers("hamming_distance")
def hamming_distance(step: Step, a: Value, b: Value) -> Value:
    """Return the Hamming distance, the number of differing bits, between each row of a and each row of b."""
    differing = lax.population_count(jnp.expand_dims(a, -2) ^ jnp.expand_dims(b, -3))
    return jnp.sum(differing.astype(step.dtype), -1, dtype=step.dtype)
