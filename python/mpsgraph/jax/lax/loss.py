"""Lowerings of softmax cross-entropy and its gradient.

Labels made by one_hot are read as class indices, so that the loss passes over the logits only twice.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers
from .arithmetic import is_half
from .gather import as_indices


class Labels:
    """Labels of a loss, given as an operand with the shape of the logits."""

    def __init__(self, step: Step, operand: int, labels: Value) -> None:
        self.axis, self._dense = step.axis(operand=operand), labels
        self._indices: Value = None
        shape = step.inputs[operand].shape or ()
        self._classes = shape[self.axis]
        made = step.inputs[operand].operation
        if made.kind == "one_hot" and made.attributes["axis"] % len(shape) == self.axis:
            if (float(made.attributes["on_value"]), float(made.attributes["off_value"])) == (1.0, 0.0):
                self._indices = jnp.expand_dims(as_indices(step.trace.value(made.inputs[0])), self.axis)
                self._known = (self._indices >= 0) & (self._indices < self._classes)

    def logits(self, step: Step, operand: int, value: Value) -> Value:
        """Return the logits in float32; beyond the last class, they may go on with minus infinity."""
        if self.are_indices and self.axis == value.ndim - 1:
            value = step.wide(operand, value)
        x = value.astype(np.float32) if is_half(value.dtype) else value
        return x if x.shape[self.axis] == self._classes else jnp.where(self._at(x) < self._classes, x, -np.inf)

    def sum_of(self, x: Value) -> Value:
        """Return the sum of labels times x; a label of 0 contributes nothing, even if x is infinite."""
        zero = np.zeros((), x.dtype)
        if self.are_indices:
            labelled = jnp.take_along_axis(x, jnp.clip(self._indices, 0, max(self._classes - 1, 0)), self.axis)
            return jnp.where(self._known, labelled, zero)
        parts = jnp.where(self._dense == 0, zero, self._dense.astype(x.dtype) * x)
        return jnp.sum(parts, self.axis, keepdims=True)

    def total(self, dtype: np.dtype) -> Value:
        """Return the sum of the labels."""
        if self.are_indices:
            return self._known.astype(dtype)
        return jnp.sum(self._dense.astype(dtype), self.axis, keepdims=True)

    def subtracted_from(self, x: Value) -> Value:
        """Return x minus the labels."""
        labels = self._known & (self._at(x) == self._indices) if self.are_indices else self._dense
        return x - labels.astype(x.dtype)

    def _at(self, x: Value) -> Value:
        """Return the positions of the elements of x along the axis of classes."""
        return lax.broadcasted_iota(np.int32 if self._indices is None else self._indices.dtype, x.shape, self.axis)

    @property
    def are_indices(self) -> bool:
        """Whether the labels are class indices, each of which selects one class."""
        return self._indices is not None


def _scale(step: Step, logits: Value, axis: int) -> float:
    """Return the factor of each loss in the result: 1 / (number of losses) for a mean."""
    return logits.shape[axis] / logits.size if step["reduction"] == "mean" and logits.size else 1.0


@lowers("softmax_cross_entropy")
def softmax_cross_entropy(step: Step, logits: Value, labels: Value) -> Value:
    """Compute -sum(labels * log_softmax(logits)) along an axis."""
    given = Labels(step, 1, labels)
    x = given.logits(step, 0, jnp.asarray(logits))
    largest = lax.stop_gradient(jnp.max(x, given.axis, keepdims=True))
    log_sum = jnp.log(jnp.sum(jnp.exp(x - largest), given.axis, keepdims=True))
    if given.are_indices:
        found = given.total(x.dtype) * log_sum - given.sum_of(x - largest)
    else:
        found = -given.sum_of(x - largest - log_sum)
    if step["reduction"] != "none":
        found = jnp.sum(found) * np.asarray(_scale(step, x, given.axis), x.dtype)
    return found.astype(step.dtype)


@lowers("softmax_cross_entropy_gradient")
def softmax_cross_entropy_gradient(step: Step, incoming: Value, logits: Value, labels: Value) -> Value:
    """Compute (softmax(logits) * sum(labels) - labels) times the incoming gradient."""
    given = Labels(step, 2, labels)
    x = given.logits(step, 1, jnp.asarray(logits))
    largest = jnp.max(x, given.axis, keepdims=True)
    powers = jnp.exp(x - largest)
    softmax = powers * (given.total(x.dtype) / jnp.sum(powers, given.axis, keepdims=True))
    scale = jnp.asarray(incoming).astype(x.dtype) * np.asarray(_scale(step, x, given.axis), x.dtype)
    gradient = (given.subtracted_from(softmax) * scale).astype(step.dtype)
    return gradient if gradient.shape == step.shape else step.trace.narrowed(step.outputs[0], gradient)
