"""Lowerings of element-wise activations; softmax and similar operations are composite."""

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
    """Compute ReLU as max(x, 0)."""
    return jnp.maximum(x, _zero(x))


@lowers("relu_gradient")
def relu_gradient(_: Step, incoming: Value, x: Value) -> Value:
    """Return the gradient of ReLU: the incoming gradient where x > 0, and 0 elsewhere."""
    return jnp.where(x > 0, incoming, _zero(incoming))


@lowers("sigmoid")
def sigmoid(_: Step, x: Value) -> Value:
    """Compute the sigmoid 1 / (1 + exp(-x))."""
    return in_float32(lax.logistic)(x)


@lowers("sigmoid_gradient")
def sigmoid_gradient(_: Step, incoming: Value, x: Value) -> Value:
    """Return the gradient of the sigmoid: s (1 - s) times the incoming gradient, where s is the sigmoid of x."""

    def product(g: Value, x: Value) -> Value:
        s = lax.logistic(x)
        return g * (s * (np.ones((), x.dtype) - s))

    return in_float32(product)(incoming, x)


@lowers("leaky_relu")
def leaky_relu(_: Step, x: Value, alpha: Value) -> Value:
    """Compute leaky ReLU: x where x > 0, and alpha x elsewhere."""
    return jnp.where(x > 0, x, alpha * x)


@lowers("leaky_relu_gradient")
def leaky_relu_gradient(_: Step, incoming: Value, x: Value, alpha: Value) -> Value:
    """Return the gradient of leaky ReLU: the incoming gradient where x >= 0, and alpha times the gradient elsewhere."""
    return jnp.where(x >= 0, incoming, alpha * incoming)
