"""Lowerings of stencil windows: weighted reductions over the last four axes without boundary handling.

The stencil operation itself is composite.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ._table import Step, Value, lowers
from ._windows import put_back, seen, taps_of, windows_of
from .arithmetic import is_half


def _wide(x: Value) -> Value:
    return jnp.asarray(x).astype(np.float32) if is_half(x.dtype) else jnp.asarray(x)


@lowers("stencil_windows")
def stencil_windows(step: Step, source: Value, weights: Value) -> Value:
    """Reduce the products of source elements and weights over each window.

    For argmin and argmax, the result is the number of the first filter tap with the extremum.
    """
    windows = windows_of(step.attributes, source.shape, weights.shape)
    mode = step["reduction_mode"]
    x, w = _wide(source), _wide(weights)
    result, chosen = None, None
    for number, tap in enumerate(taps_of(windows)):
        value = seen(x, windows, tap, 0) * w[tap]
        if result is None:
            result, chosen = value, jnp.zeros(value.shape, np.int32)
        elif mode == "sum":
            result = result + value
        else:
            better = value > result if mode.endswith("maximum") else value < result
            better = better | (jnp.isnan(value) & ~jnp.isnan(result))
            result, chosen = jnp.where(better, value, result), jnp.where(better, np.int32(number), chosen)
    return chosen if mode.startswith("arg_") else result.astype(step.dtype)  # type: ignore[union-attr]


@lowers("stencil_windows_data_gradient")
def stencil_windows_data_gradient(step: Step, incoming: Value, weights: Value, _: Value) -> Value:
    """Return the gradient of a stencil with respect to its source."""
    windows = windows_of(step.attributes, step.shape, weights.shape)
    g, w = _wide(incoming), _wide(weights)
    total = jnp.zeros(step.shape, g.dtype)
    for tap in taps_of(windows):
        total = total + put_back(g * w[tap], windows, tap, step.shape)
    return total.astype(step.dtype)


@lowers("stencil_windows_weights_gradient")
def stencil_windows_weights_gradient(step: Step, incoming: Value, source: Value, _: Value) -> Value:
    """Return the gradient of a stencil with respect to its weights."""
    windows = windows_of(step.attributes, source.shape, step.shape)
    g, x = _wide(incoming), _wide(source)
    parts = [jnp.sum(g * seen(x, windows, tap, 0)) for tap in taps_of(windows)]
    return jnp.stack(parts).reshape(step.shape).astype(step.dtype)
