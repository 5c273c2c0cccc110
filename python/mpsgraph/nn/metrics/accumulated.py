"""Accumulated, the base class of metrics that are updated with each batch and return one value for all batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._checks import check_methods, checked
from ..._display import ShowsArguments
from ...errors import DTypeError, GraphError, OutOfRangeError, ShapeError


@checked
class Accumulated(ShowsArguments):
    """Base class of metrics that accumulate over batches.

    Call `update` with the outputs and labels of each batch, then `result`; `reset` starts over. Trainers accept such
    objects in `metrics`, and use them over the steps of an epoch and in evaluations. Subclasses define `reset`,
    `_update(outputs, labels)`, and `result`.

    Args:
        name: Name under which the metric is reported.

    Example:
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
        """Discard everything accumulated so far."""
        raise NotImplementedError(f"{type(self).__name__} must define reset()")

    def update(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        """Add a batch.

        Args:
            outputs: Outputs of the model.
            labels: Labels of the batch.

        Raises:
            DTypeError: If an array is not numeric.
            ShapeError: If the shapes do not match.
            OutOfRangeError: If a label is not a class index, for metrics of classes.
        """
        for what, array in (("outputs", outputs), ("labels", labels)):
            if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
                raise DTypeError(f"{self.name}: {what} must be numeric, got an array of {array.dtype}")
        self._update(outputs, labels)

    def _update(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _update(outputs, labels)")

    def result(self) -> Any:
        """Return the value over all batches since the last reset.

        Raises:
            GraphError: If there has been no update, for metrics that need one.
        """
        raise NotImplementedError(f"{type(self).__name__} must define result()")


NO_CLASS = int(np.iinfo(np.int64).min)  # Predicted class of a sample with a NaN output, true class of a NaN label.


def per_class(outputs: np.ndarray, labels: np.ndarray) -> bool:
    """Return whether labels have a number for each class: their shape is that of outputs, (..., classes)."""
    return outputs.shape == labels.shape and outputs.ndim > 1 and outputs.shape[-1] > 1


def several_per_row(labels: np.ndarray) -> bool:
    """Return whether labels with a number for each class are independent and so mark any number of classes per sample.

    Otherwise, each row is a one-hot vector or the probabilities of the classes. Integer rows are one-hot if they have
    exactly one 1 and are 0 elsewhere. In rows with NaN, the other labels are compared with these rules.
    """
    known = labels == labels
    binary = bool(((labels == 0) | (labels == 1) | ~known).all())
    ones = np.count_nonzero(known & (labels != 0), axis=-1)
    one_each = bool(((ones == 1) | ((ones == 0) & ~known.all(axis=-1))).all())
    return not one_each if binary else labels.dtype.kind != "f" and labels.dtype.name != "bfloat16"


def largest(outputs: np.ndarray) -> np.ndarray:
    """Return the index of the largest output or label of each sample, or NO_CLASS if one of them is NaN."""
    outputs = outputs.reshape(-1, outputs.shape[-1])
    return np.where((outputs != outputs).any(axis=-1), NO_CLASS, outputs.argmax(axis=-1)).astype(np.int64)


def above(scores: np.ndarray, threshold: float) -> np.ndarray:
    """Return 1 for each score above a threshold, 0 for others, and NO_CLASS for NaN."""
    return np.where(scores != scores, NO_CLASS, scores > threshold).astype(np.int64)


def binary_numbers(labels: np.ndarray, ignored: int | None) -> np.ndarray:
    """Return 1 for each label above 0.5, 0 for others, NO_CLASS for NaN, and the ignored label unchanged."""
    numbers = above(labels, 0.5)
    return numbers if ignored is None else np.where(labels == ignored, ignored, numbers)


def class_indices(labels: np.ndarray, name: str) -> np.ndarray:
    """Return labels as int64 class indices, with NO_CLASS for NaN. Raise OutOfRangeError for other non-integers."""
    if labels.dtype.kind in "biu":
        return labels.astype(np.int64)
    known = labels == labels
    with np.errstate(invalid="ignore"):
        numbers = np.where(known, labels, 0).astype(np.int64)
    if (wrong := known & (numbers != labels)).any():
        raise OutOfRangeError(
            f"{name}: labels must be class indices, which are integers, got {float(labels[wrong][0])}: one-hot vectors "
            "and probabilities must have the shape of the outputs"
        )
    return np.where(known, numbers, NO_CLASS)


def scores_of(outputs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and labels as 1-D arrays of equal length. Raise ShapeError if the lengths differ."""
    outputs, labels = np.asarray(outputs), np.asarray(labels)
    squeezed = outputs[..., 0] if outputs.ndim == labels.ndim + 1 and outputs.shape[-1] == 1 else outputs
    if squeezed.shape != labels.shape:
        raise ShapeError(
            f"labels must have the shape of outputs, got labels of shape {labels.shape} and outputs of shape "
            f"{outputs.shape}"
        )
    return squeezed.astype(np.float64).ravel(), labels.astype(np.float64).ravel()


def require_some(count: Any, name: str) -> None:
    """Raise GraphError if nothing has been accumulated."""
    if not count:
        raise GraphError(f"{name}: there is no result yet: call update(outputs, labels) first")
