"""Accumulated classification metrics; all but Perplexity and TopKAccuracy are computed from one confusion matrix.

Conventions and values are scikit-learn's. A quotient with denominator 0 is 0, as with zero_division=0. A sample with a
NaN output has no predicted class, and a sample with a NaN label no true class, so neither ever counts as correct.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..._checks import Size
from ..._display import shown
from ...errors import GraphError, OutOfRangeError, ShapeError
from .accumulated import (
    NO_CLASS,
    Accumulated,
    above,
    binary_numbers,
    class_indices,
    largest,
    per_class,
    require_some,
    scores_of,
    several_per_row,
)

Average = Literal["binary", "macro", "micro", "weighted", "none"]


class Confusion(Accumulated):
    """Base class of metrics computed from a confusion matrix, counts[true, predicted].

    For outputs (..., classes), labels may be class indices (...), and the prediction is the class with the largest
    output. For outputs (...) or (..., 1), with one score per sample, labels are 0 or 1 (...). Labels with the outputs'
    shape (..., classes) are taken as one-hot vectors, whatever their dtype, if every row so far has exactly one 1 and
    is 0 elsewhere; as probabilities, of which the largest counts, if they are other floating-point numbers; and
    otherwise as independent labels, for which each output is a separate score.

    Args:
        name: Name under which the metric is reported.
        num_classes: Number of classes. None, the default, means as many as occur.
        threshold: Score above which a sample counts as class 1, if outputs has one score per sample: 0.5 (the default)
            for probabilities, 0 for logits.
        ignore_index: Label whose samples are not counted. Defaults to none.

    Attributes:
        counts: int64 (classes, classes). It grows to the largest class seen if num_classes is None.
        missed: int64 (classes,). For each class, the number of its samples that have a NaN output.
        unlabelled: int64 (classes,). For each class, the number of samples predicted as it that have a NaN label.
    """

    def __init__(
        self, name: str, num_classes: Size | None = None, threshold: float = 0.5, ignore_index: int | None = None
    ) -> None:
        self.num_classes, self.threshold, self.ignore_index = num_classes, threshold, ignore_index
        super().__init__(name)

    def reset(self) -> None:
        # Counts by true and predicted class. The first row is for NaN labels, the first column for NaN outputs.
        self._table = np.zeros([(self.num_classes or 2) + 1] * 2, np.int64)
        # The same counts with one-hot vectors taken as independent labels, in case a later batch has rows with a
        # different number of ones.
        self._independent: np.ndarray | None = np.zeros((3, 3), np.int64)

    @property
    def counts(self) -> np.ndarray:
        return self._table[1:, 1:]

    @property
    def missed(self) -> np.ndarray:
        return self._table[1:, 0]

    @property
    def unlabelled(self) -> np.ndarray:
        return self._table[0, 1:]

    def _update(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        outputs, labels = np.asarray(outputs), np.asarray(labels)
        if outputs.ndim == labels.ndim + 1 and outputs.shape[:-1] == labels.shape and outputs.shape[-1] > 1:
            self._count(largest(outputs), class_indices(labels.ravel(), self.name), outputs.shape[-1])
            return
        scores, _ = scores_of(outputs, labels)
        each = above(scores, self.threshold), binary_numbers(labels.ravel(), self.ignore_index)
        if not per_class(outputs, labels):
            self._count(*each, 2)
            return
        marked = self.ignore_index not in (None, 0, 1) and bool((labels == self.ignore_index).any())
        if self._independent is not None and (marked or several_per_row(labels)):
            self._table = self._resized(self._independent, self.num_classes or 2)
            self._independent = None
        if self._independent is None:
            self._count(*each, 2)
            return
        add(self._independent, *self._counted(*each))
        self._count(largest(outputs), largest(labels), labels.shape[-1])

    def _counted(self, predicted: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return predicted and true classes of the samples that are not ignored."""
        if self.ignore_index is None:
            return predicted, true
        counted = true != self.ignore_index
        return predicted[counted], true[counted]

    def _count(self, predicted: np.ndarray, true: np.ndarray, classes: int) -> None:
        """Add samples to the table, which grows to at least the given number of classes."""
        predicted, true = self._counted(predicted, true)
        if not len(true):
            return
        known = true[true != NO_CLASS]
        if len(known) and known.min() < 0:
            raise OutOfRangeError(f"{self.name}: labels must be class indices of at least 0, got {known.min()}")
        found = max(int(predicted.max()), int(true.max()), -1) + 1
        if self.num_classes is not None and found > self.num_classes:
            raise OutOfRangeError(
                f"{self.name}: class indices must be below num_classes={self.num_classes}, got {found - 1}"
            )
        self._table = self._resized(self._table, self.num_classes or max(found, classes, len(self.counts)))
        add(self._table, predicted, true)

    def _resized(self, table: np.ndarray, classes: int) -> np.ndarray:
        """Return a table with zeros for further classes."""
        return np.pad(table, [(0, max(classes + 1 - n, 0)) for n in table.shape])

    def _parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the numbers of correctly predicted samples, actual samples, and predicted samples of each class."""
        require_some(self._table.sum(), self.name)
        return self.counts.diagonal().astype(float), self._table[1:].sum(axis=1), self._table[:, 1:].sum(axis=0)


def add(table: np.ndarray, predicted: np.ndarray, true: np.ndarray) -> None:
    """Add samples to a table of counts, whose first row and column are for samples without a class."""
    rows, columns = (np.where(each == NO_CLASS, 0, each + 1) for each in (true, predicted))
    size = len(table)
    table += np.bincount(rows * size + columns, minlength=size * size).reshape(size, size)


class ConfusionMatrix(Confusion):
    """Confusion matrix: the number of samples of class i predicted as class j at [i, j].

    The result is an int64 array (classes, classes). Samples with a NaN output or label are in no cell; `missed` and
    `unlabelled` count them.

    Args:
        num_classes: Number of classes. None, the default, means as many as occur.
        threshold: Score above which a sample counts as class 1, if outputs has one score per sample: 0.5 (the default)
            for probabilities, 0 for logits.
        ignore_index: Label whose samples are not counted. Defaults to none.
        name: Name under which the metric is reported. Defaults to "confusion_matrix".

    Raises:
        OutOfRangeError: If a class index is negative or at least num_classes.
        ShapeError: If outputs and labels do not match.

    Example:
        >>> matrix = mg.nn.metrics.ConfusionMatrix()
        >>> matrix.update(np.float32([[2, 1], [3, 0], [0, 3]]), np.int32([0, 1, 1]))
        >>> matrix.result().tolist()
        [[1, 0], [1, 1]]
    """

    def __init__(
        self,
        num_classes: int | None = None,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        name: str = "confusion_matrix",
    ) -> None:
        super().__init__(name, num_classes, threshold, ignore_index)

    def result(self) -> Any:
        return self.counts.copy()


class Accuracy(Confusion):
    """Fraction of correctly classified samples.

    Args:
        threshold: Score above which a sample counts as class 1, if outputs has one score per sample: 0.5 (the default)
            for probabilities, 0 for logits.
        ignore_index: Label whose samples are not counted. Defaults to none.
        name: Name under which the metric is reported. Defaults to "accuracy".

    Raises:
        GraphError: If there was no update before `result`.
        OutOfRangeError: If a label is negative.
        ShapeError: If outputs and labels do not match.

    Example:
        >>> accuracy = mg.nn.metrics.Accuracy(threshold=0.0)
        >>> accuracy.update(np.float32([[-1], [2], [3]]), np.int32([[0], [1], [0]]))
        >>> round(accuracy.result(), 3)
        0.667
    """

    def __init__(self, threshold: float = 0.5, ignore_index: int | None = None, name: str = "accuracy") -> None:
        super().__init__(name, None, threshold, ignore_index)

    def result(self) -> float:
        right, _, _ = self._parts()
        return float(right.sum() / self._table.sum())


class _OfClasses(Confusion):
    """Base class of the metrics with one value per class, which can be averaged over classes."""

    def __init__(
        self,
        average: Average = "binary",
        num_classes: int | None = None,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        name: str | None = None,
    ) -> None:
        if not isinstance(average, str) or average not in ("binary", "macro", "micro", "weighted", "none"):
            raise GraphError(f"average must be one of binary, macro, micro, weighted, none, got {shown(average)}")
        self.average = average
        super().__init__(name or type(self).__name__.lower(), num_classes, threshold, ignore_index)

    def _of_parts(self, right: Any, true: Any, taken: Any) -> Any:
        """Compute the metric of a class from its numbers of correctly predicted, actual, and predicted samples.

        Arrays with the counts of all classes give an array of values.
        """
        raise NotImplementedError

    def result(self) -> Any:
        right, true, taken = self._parts()
        if self.average == "binary":
            if len(self.counts) > 2:
                raise GraphError(
                    f"{self.name}: average='binary' needs two classes, got {len(self.counts)}: pass average='macro', "
                    "'micro' or 'weighted'"
                )
            return float(self._of_parts(right[1], true[1], taken[1]))
        if self.average == "micro":
            return float(self._of_parts(right.sum(), true.sum(), taken.sum()))
        each = self._of_parts(right, true, taken)
        seen = (true + taken > 0) if self.num_classes is None else np.ones(len(true), bool)
        if self.average == "macro":
            return float(each[seen].mean()) if seen.any() else 0.0
        return each if self.average == "none" else float(_quotient((each * true).sum(), true.sum()))


def _quotient(above: Any, below: Any) -> Any:
    return np.divide(above, below, out=np.zeros_like(np.asarray(above, float)), where=np.asarray(below) > 0)


class Precision(_OfClasses):
    """Precision: the fraction of samples predicted as a class that belong to it.

    Args:
        average: "binary" (the default) for class 1 of two; "macro" for the mean over classes; "micro" for all samples
            together; "weighted" for the mean weighted by class size; "none" for an array with one value per class.
        num_classes: Number of classes. None, the default, means as many as occur.
        threshold: Score above which a sample counts as class 1, if outputs has one score per sample: 0.5 (the default)
            for probabilities, 0 for logits.
        ignore_index: Label whose samples are not counted. Defaults to none.
        name: Name under which the metric is reported. Defaults to "precision".

    Raises:
        GraphError: If average is unknown, or "binary" with more than two classes, or there was no update before
            `result`.
        OutOfRangeError: If a class index is negative or at least num_classes.
        ShapeError: If outputs and labels do not match.

    Example:
        >>> precision = mg.nn.metrics.Precision()
        >>> precision.update(np.float32([0.9, 0.8, 0.3, 0.6]), np.int32([1, 0, 1, 1]))
        >>> round(precision.result(), 3)
        0.667
    """

    def _of_parts(self, right: Any, true: Any, taken: Any) -> Any:
        return _quotient(right, taken)


class Recall(_OfClasses):
    """Recall: the fraction of the samples of a class that are predicted to be of this class.

    Args:
        average: "binary" (the default) for class 1 of two; "macro" for the mean over classes; "micro" for all samples
            together; "weighted" for the mean weighted by class size; "none" for an array with one value per class.
        num_classes: Number of classes. None, the default, means as many as occur.
        threshold: Score above which a sample counts as class 1, if outputs has one score per sample: 0.5 (the default)
            for probabilities, 0 for logits.
        ignore_index: Label whose samples are not counted. Defaults to none.
        name: Name under which the metric is reported. Defaults to "recall".

    Raises:
        GraphError: If average is unknown, or "binary" with more than two classes, or there was no update before
            `result`.
        OutOfRangeError: If a class index is negative or at least num_classes.
        ShapeError: If outputs and labels do not match.

    Example:
        >>> recall = mg.nn.metrics.Recall()
        >>> recall.update(np.float32([0.9, 0.8, 0.3, 0.6]), np.int32([1, 0, 1, 1]))
        >>> round(recall.result(), 3)
        0.667
    """

    def _of_parts(self, right: Any, true: Any, taken: Any) -> Any:
        return _quotient(right, true)


class F1(_OfClasses):
    """F1 score: the harmonic mean of precision and recall.

    Args:
        average: "binary" (the default) for class 1 of two; "macro" for the mean over classes; "micro" for all samples
            together; "weighted" for the mean weighted by class size; "none" for an array with one value per class.
        num_classes: Number of classes. None, the default, means as many as occur.
        threshold: Score above which a sample counts as class 1, if outputs has one score per sample: 0.5 (the default)
            for probabilities, 0 for logits.
        ignore_index: Label whose samples are not counted. Defaults to none.
        name: Name under which the metric is reported. Defaults to "f1".

    Raises:
        GraphError: If average is unknown, or "binary" with more than two classes, or there was no update before
            `result`.
        OutOfRangeError: If a class index is negative or at least num_classes.
        ShapeError: If outputs and labels do not match.

    Example:
        >>> f1 = mg.nn.metrics.F1("macro")
        >>> f1.update(np.float32([[2, 1], [3, 0], [0, 3]]), np.int32([0, 1, 1]))
        >>> round(f1.result(), 3)
        0.667
    """

    def _of_parts(self, right: Any, true: Any, taken: Any) -> Any:
        return _quotient(2 * np.asarray(right, float), np.asarray(true) + np.asarray(taken))


class IoU(_OfClasses):
    """Intersection over union (Jaccard index) of the true and the predicted samples of a class.

    Args:
        average: "binary" (the default) for class 1 of two; "macro" for the mean over classes; "micro" for all samples
            together; "weighted" for the mean weighted by class size; "none" for an array with one value per class.
        num_classes: Number of classes. None, the default, means as many as occur.
        threshold: Score above which a sample counts as class 1, if outputs has one score per sample: 0.5 (the default)
            for probabilities, 0 for logits.
        ignore_index: Label whose samples are not counted. Defaults to none.
        name: Name under which the metric is reported. Defaults to "iou".

    Raises:
        GraphError: If average is unknown, or "binary" with more than two classes, or there was no update before
            `result`.
        OutOfRangeError: If a class index is negative or at least num_classes.
        ShapeError: If outputs and labels do not match.

    Example:
        >>> iou = mg.nn.metrics.IoU()
        >>> iou.update(np.float32([0.9, 0.8, 0.3, 0.6]), np.int32([1, 0, 1, 1]))
        >>> iou.result()
        0.5
    """

    def _of_parts(self, right: Any, true: Any, taken: Any) -> Any:
        return _quotient(right, np.asarray(true) + np.asarray(taken) - right)


class MeanIoU(IoU):
    """Mean over classes of the intersection over union.

    Args:
        num_classes: Number of classes. None, the default, means as many as occur.
        ignore_index: Label whose samples are not counted. Defaults to none.
        name: Name under which the metric is reported. Defaults to "mean_iou".

    Raises:
        GraphError: If there was no update before `result`.
        OutOfRangeError: If a class index is negative or at least num_classes.
        ShapeError: If outputs and labels do not match.

    Example:
        >>> iou = mg.nn.metrics.MeanIoU()
        >>> iou.update(np.float32([[2, 1], [3, 0], [0, 3]]), np.int32([0, 1, 1]))
        >>> iou.result()
        0.5
    """

    def __init__(self, num_classes: int | None = None, ignore_index: int | None = None, name: str = "mean_iou") -> None:
        super().__init__("macro", num_classes, 0.5, ignore_index, name)


class TopKAccuracy(Accumulated):
    """Fraction of samples whose class is among the k largest outputs.

    Among equal outputs, the one with the smaller class index ranks first. A sample with a NaN output or label counts as
    wrong. Labels are class indices (...), or one-hot vectors or probabilities (..., classes).

    Args:
        k: Number of outputs to consider. Defaults to 5.
        name: Name under which the metric is reported. None, the default, means "top_<k>_accuracy".
        ignore_index: Class index whose samples are not counted. Defaults to none.

    Raises:
        GraphError: If there was no update before `result`.
        OutOfRangeError: If a label is not a class index.
        ShapeError: If outputs and labels do not match.

    Example:
        >>> top = mg.nn.metrics.TopKAccuracy(2)
        >>> top.update(np.float32([[0.1, 0.2, 0.3], [0.1, 0.2, 0.3]]), np.int32([1, 0]))
        >>> top.result()
        0.5
    """

    def __init__(self, k: Size = 5, name: str | None = None, ignore_index: int | None = None) -> None:
        self.k, self.ignore_index = k, ignore_index
        super().__init__(name or f"top_{k}_accuracy")

    def reset(self) -> None:
        self.right = self.total = 0

    def _update(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        outputs, labels = np.asarray(outputs), np.asarray(labels)
        if outputs.ndim > 1 and outputs.shape == labels.shape:
            require_one_per_row(labels, self.name)
            outputs, numbers = outputs.reshape(-1, outputs.shape[-1]), largest(labels)
        else:
            outputs, numbers = counted_indices(outputs, labels, self.ignore_index, self.name)
        own = np.take_along_axis(outputs, np.maximum(numbers, 0)[:, None], -1)
        before = np.arange(outputs.shape[-1]) < numbers[:, None]
        ahead = (outputs > own) | ((outputs == own) & before)
        known = (outputs == outputs).all(axis=-1) & (numbers != NO_CLASS)
        self.right += int(((ahead.sum(axis=-1) < self.k) & known).sum())
        self.total += len(numbers)

    def result(self) -> float:
        require_some(self.total, self.name)
        return self.right / self.total


def require_one_per_row(labels: np.ndarray, name: str) -> None:
    """Raise ShapeError if labels with a number for each class mark any number of classes per sample."""
    if several_per_row(labels):
        raise ShapeError(
            f"{name}: labels with the shape of the outputs, {labels.shape}, must be one-hot vectors or probabilities, "
            "got rows with any number of ones"
        )


def counted_indices(
    outputs: np.ndarray, labels: np.ndarray, ignored: int | None, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return outputs (samples, classes) and class indices (samples,), or NO_CLASS, of the samples not ignored."""
    if outputs.shape[:-1] != labels.shape or not outputs.ndim:
        raise ShapeError(
            f"{name}: labels must have shape {outputs.shape[:-1]} for outputs of shape {outputs.shape}, got "
            f"{labels.shape}"
        )
    outputs, numbers = outputs.reshape(-1, outputs.shape[-1]), class_indices(labels.ravel(), name)
    if ignored is not None:
        outputs, numbers = outputs[numbers != ignored], numbers[numbers != ignored]
    known = numbers[numbers != NO_CLASS]
    if len(known) and not 0 <= known.min() <= known.max() < outputs.shape[1]:
        raise OutOfRangeError(
            f"{name}: labels must be class indices from 0 to {outputs.shape[1] - 1}, got values from {known.min()} to "
            f"{known.max()}"
        )
    return outputs, numbers


def _log_sum(logits: np.ndarray) -> np.ndarray:
    """Return the logarithm of the sum of exponentials over the last axis."""
    with np.errstate(invalid="ignore"):
        highest = logits.max(axis=-1)
        return np.asarray(highest + np.log(np.exp(logits - highest[..., None]).sum(axis=-1)))


class Perplexity(Accumulated):
    """Perplexity: e to the power of the mean cross-entropy of logits (..., classes) and labels (...).

    Labels are class indices, or one-hot vectors or probabilities (..., classes). If a logit or the label of a counted
    sample is NaN, so is the result.

    Args:
        ignore_index: Label whose samples are not counted. Defaults to none.
        name: Name under which the metric is reported. Defaults to "perplexity".

    Raises:
        GraphError: If there was no update before `result`.
        OutOfRangeError: If a label is not a class index.
        ShapeError: If outputs and labels do not match.

    Example:
        >>> perplexity = mg.nn.metrics.Perplexity()
        >>> perplexity.update(np.zeros((2, 3, 4), np.float32), np.zeros((2, 3), np.int32))
        >>> round(perplexity.result(), 6)
        4.0
    """

    def __init__(self, ignore_index: int | None = None, name: str = "perplexity") -> None:
        self.ignore_index = ignore_index
        super().__init__(name)

    def reset(self) -> None:
        self.sum, self.total = 0.0, 0

    def _update(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        logits, labels = np.asarray(outputs, np.float64), np.asarray(labels)
        if per_class(logits, labels):
            require_one_per_row(labels, self.name)
            parts = np.where(labels == 0, 0.0, labels.astype(np.float64) * (_log_sum(logits)[..., None] - logits))
            self.sum += float(parts.sum())
            self.total += labels[..., 0].size
            return
        logits, numbers = counted_indices(logits, labels, self.ignore_index, self.name)
        if not len(numbers):
            return
        own = np.take_along_axis(logits, np.maximum(numbers, 0)[:, None], -1)[:, 0]
        self.sum += float(np.where(numbers == NO_CLASS, np.nan, _log_sum(logits) - own).sum())
        self.total += len(numbers)

    def result(self) -> float:
        require_some(self.total, self.name)
        return float(np.exp(self.sum / self.total))
