"""Accumulated: the base of metrics that take in batch after batch and give one value of them all."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._checks import check_methods, checked
from ..._display import ShowsArguments
from ...errors import DTypeError, GraphError, ShapeError


@checked
class Accumulated(ShowsArguments):
    """A metric that accumulates: `update` with each batch's outputs and labels, then `result`; `reset` begins anew.

    A trainer takes such in `metrics`, over the steps of an epoch and over evaluations. One of your own defines `reset`,
    `_update(outputs, labels)` and `result`. Args: name, under which it is reported.

    >>> accuracy = mg.nn.metrics.Accuracy()
    >>> accuracy.update(np.float32([[2, 1], [0, 3]]), np.int32([0, 1]))
    >>> accuracy.update(np.float32([[2, 1]]), np.int32([1]))
    >>> round(accuracy.result(), 3)
    0.667
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        check_methods(cls)

    def __init__(self, name: str) -> None:
        self.name = name
        self.reset()

    def reset(self) -> None:
        """Forgets what came."""
        raise NotImplementedError(f"{type(self).__name__} must define reset()")

    def update(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        """Takes in a batch. Errors: DTypeError for what is no number, ShapeError for shapes that do not go together."""
        for what, array in (("outputs", outputs), ("labels", labels)):
            if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
                raise DTypeError(f"{self.name}: {what} are numbers, got an array of {array.dtype}")
        self._update(outputs, labels)

    def _update(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _update(outputs, labels)")

    def result(self) -> Any:
        """The value of all that came since the reset."""
        raise NotImplementedError(f"{type(self).__name__} must define result()")


def class_numbers_of(outputs: np.ndarray, labels: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Predicted and true classes, one axis each: of the largest output, or, of one number a sample, above a threshold.

    Args: outputs (..., classes) with labels (...) or of the outputs' shape, one number for each class; or outputs and
    labels of one shape, or outputs (..., 1) with labels (...), for two classes. Errors: ShapeError.
    """
    outputs, labels = np.asarray(outputs), np.asarray(labels)
    if outputs.ndim == labels.ndim + 1 and outputs.shape[:-1] == labels.shape and outputs.shape[-1] > 1:
        return outputs.argmax(axis=-1).ravel(), labels.astype(np.int64).ravel()
    if outputs.shape == labels.shape and outputs.ndim > 1 and outputs.shape[-1] > 1 and labels.dtype.kind == "f":
        return outputs.argmax(axis=-1).ravel(), labels.argmax(axis=-1).ravel()
    return (scores_of(outputs, labels)[0] > threshold).astype(np.int64), (labels.ravel() > 0.5).astype(np.int64)


def scores_of(outputs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One number for each label, both with one axis. ShapeError where there are other numbers of them."""
    outputs, labels = np.asarray(outputs), np.asarray(labels)
    squeezed = outputs[..., 0] if outputs.ndim == labels.ndim + 1 and outputs.shape[-1] == 1 else outputs
    if squeezed.shape != labels.shape:
        raise ShapeError(f"outputs {outputs.shape} and labels {labels.shape} must have one shape")
    return squeezed.astype(np.float64).ravel(), labels.astype(np.float64).ravel()


def require_some(count: Any, name: str) -> None:
    """GraphError for the result of nothing."""
    if not count:
        raise GraphError(f"{name}: there is no result before the first update")
