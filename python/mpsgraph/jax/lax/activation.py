"""Family activation: what is element-wise. softmax and its like are composites."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers
from .arithmetic import in_float32


def _zero(x: Value) -> Value:
    return jnp.zeros((), x.dtype)


@lowers("relu")
def relu(_: Step, x: Value) -> Value:
    """max(x, 0)."""
    return jnp.maximum(x, _zero(x))


@lowers("relu_gradient")
def relu_gradient(_: Step, incoming: Value, x: Value) -> Value:
    """What comes in where x > 0."""
    return jnp.where(x > 0, incoming, _zero(incoming))


@lowers("sigmoid")
def sigmoid(_: Step, x: Value) -> Value:
    """1 / (1 + exp(-x))."""
    return in_float32(lax.logistic)(x)


@lowers("sigmoid_gradient")
def sigmoid_gradient(_: Step, incoming: Value, x: Value) -> Value:
    """s (1 - s) times what comes in."""

    def product(g: Value, x: Value) -> Value:
        s = lax.logistic(x)
        return g * (s * (np.ones((), x.dtype) - s))

    return in_float32(product)(incoming, x)


@lowers("leaky_relu")
def leaky_relu(_: Step, x: Value, alpha: Value) -> Value:
    """x where x > 0, else alpha x."""
    return jnp.where(x > 0, x, alpha * x)


@lowers("leaky_relu_gradient")
def leaky_relu_gradient(_: Step, incoming: Value, x: Value, alpha: Value) -> Value:
    """What comes in where x >= 0, else alpha times it."""
    return jnp.where(x >= 0, incoming, alpha * incoming)
