"""Lowerings of softmax cross-entropy and its gradient.

Labels made by one_hot are read as class indices, so that the loss passes over the logits only twice.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers
from .arithmetic import in_float32
from .gather import as_indices


class Labels:
    """Labels of a loss, given as an operand with the shape of the logits."""

    def __init__(self, step: Step, operand: int, labels: Value) -> None:
        self.axis, self._dense = step.axis(operand=operand), labels
        self._classes: Value = None
        self._known: Value = None
        made = step.inputs[operand].operation
        rank = len(step.inputs[operand].shape or ())
        if made.kind == "one_hot" and made.attributes["axis"] % rank == self.axis:
            if (float(made.attributes["on_value"]), float(made.attributes["off_value"])) == (1.0, 0.0):
                indices = jnp.expand_dims(as_indices(step.trace.value(made.inputs[0])), self.axis)
                shape = tuple(step.inputs[operand].shape or ())
                self._known = (indices >= 0) & (indices < shape[self.axis])
                self._classes = lax.broadcasted_iota(indices.dtype, shape, self.axis) == indices

    def sum_of(self, x: Value) -> Value:
        """Return the sum of labels times x; a label of 0 contributes nothing, even if x is infinite."""
        zero = np.zeros((), x.dtype)
        if self._classes is not None:
            parts = jnp.where(self._classes, x, zero)
        else:
            parts = jnp.where(self._dense == 0, zero, self._dense.astype(x.dtype) * x)
        return jnp.sum(parts, self.axis, keepdims=True)

    def total(self, dtype: np.dtype) -> Value:
        """Return the sum of the labels."""
        if self._classes is not None:
            return self._known.astype(dtype)
        return jnp.sum(self._dense.astype(dtype), self.axis, keepdims=True)

    def subtracted_from(self, x: Value) -> Value:
        """Return x minus the labels."""
        return x - (self._dense if self._classes is None else self._classes).astype(x.dtype)

    @property
    def are_indices(self) -> bool:
        """Whether the labels are class indices, each of which selects one class."""
        return self._classes is not None


def _scale(step: Step, logits: Value, axis: int) -> float:
    """Return the factor of each loss in the result: 1 / (number of losses) for a mean."""
    return logits.shape[axis] / logits.size if step["reduction"] == "mean" and logits.size else 1.0


@lowers("softmax_cross_entropy")
def softmax_cross_entropy(step: Step, logits: Value, labels: Value) -> Value:
    """Compute -sum(labels * log_softmax(logits)) along an axis."""
    given = Labels(step, 1, labels)

    def losses(x: Value) -> Value:
        largest = lax.stop_gradient(jnp.max(x, given.axis, keepdims=True))
        shifted = x - largest
        log_sum = jnp.log(jnp.sum(jnp.exp(shifted), given.axis, keepdims=True))
        if given.are_indices:
            found = given.total(x.dtype) * log_sum - given.sum_of(shifted)
        else:
            found = -given.sum_of(shifted - log_sum)
        if step["reduction"] == "none":
            return found
        return jnp.sum(found) * np.asarray(_scale(step, x, given.axis), x.dtype)

    return in_float32(losses)(jnp.asarray(logits))


@lowers("softmax_cross_entropy_gradient")
def softmax_cross_entropy_gradient(step: Step, incoming: Value, logits: Value, labels: Value) -> Value:
    """Compute (softmax(logits) * sum(labels) - labels) times the incoming gradient."""
    given = Labels(step, 2, labels)

    def gradient(x: Value, g: Value) -> Value:
        largest = jnp.max(x, given.axis, keepdims=True)
        powers = jnp.exp(x - largest)
        softmax = powers * (given.total(x.dtype) / jnp.sum(powers, given.axis, keepdims=True))
        return given.subtracted_from(softmax) * (g * np.asarray(_scale(step, x, given.axis), x.dtype))

    return in_float32(gradient)(jnp.asarray(logits), jnp.asarray(incoming))
