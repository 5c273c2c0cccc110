"""Metrics of classes that accumulate: all but perplexity are read off one matrix of true and predicted classes.

Conventions and numbers are scikit-learn's; where a value is a quotient by nothing it is 0, as there with
zero_division=0.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..._checks import Size
from ..._display import shown
from ...errors import GraphError, OutOfRangeError, ShapeError
from .accumulated import Accumulated, class_numbers_of, require_some

Average = Literal["binary", "macro", "micro", "weighted", "none"]


class Confusion(Accumulated):
    """The base: `counts[true, predicted]`, as large as the largest class that came, or as `num_classes`.

    Args: num_classes, None: as many as come; threshold, of outputs that are one number a sample, 0.5 for probabilities
    and 0 for logits; ignore_index, labels that do not count.
    """

    def __init__(
        self, name: str, num_classes: Size | None = None, threshold: float = 0.5, ignore_index: int | None = None
    ) -> None:
        self.num_classes, self.threshold, self.ignore_index = num_classes, threshold, ignore_index
        super().__init__(name)

    def reset(self) -> None:
        size = self.num_classes or 2
        self.counts: np.ndarray = np.zeros((size, size), np.int64)

    def _update(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        predicted, true = class_numbers_of(outputs, labels, self.threshold)
        if self.ignore_index is not None:
            counted = true != self.ignore_index
            predicted, true = predicted[counted], true[counted]
        if not len(true):
            return
        if true.min() < 0:
            raise OutOfRangeError(f"{self.name}: a label is {true.min()}, class numbers begin with 0")
        several = np.ndim(outputs) and np.shape(outputs)[-1] > 1 and np.shape(outputs) != np.shape(labels)
        classes = int(max(predicted.max(), true.max())) + 1
        size = max(classes, np.shape(outputs)[-1] if several else 0, len(self.counts))
        if self.num_classes is not None and classes > self.num_classes:
            raise OutOfRangeError(f"{self.name}: a class is {classes - 1}, there are {self.num_classes}")
        size = self.num_classes or size
        if size > len(self.counts):
            grown = np.zeros((size, size), np.int64)
            grown[: len(self.counts), : len(self.counts)] = self.counts
            self.counts = grown
        self.counts += np.bincount(true * size + predicted, minlength=size * size).reshape(size, size)

    def _parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each class: the right ones, how many are of it, how many were taken for it."""
        require_some(self.counts.sum(), self.name)
        return self.counts.diagonal().astype(float), self.counts.sum(axis=1), self.counts.sum(axis=0)


class ConfusionMatrix(Confusion):
    """How many samples of class i were taken for class j, at [i, j]: an int64 array (classes, classes).

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
    """The share of samples that were taken for what they are.

    >>> accuracy = mg.nn.metrics.Accuracy(threshold=0.0)
    >>> accuracy.update(np.float32([[-1], [2], [3]]), np.int32([[0], [1], [0]]))
    >>> round(accuracy.result(), 3)
    0.667
    """

    def __init__(self, threshold: float = 0.5, ignore_index: int | None = None, name: str = "accuracy") -> None:
        super().__init__(name, None, threshold, ignore_index)

    def result(self) -> float:
        right, true, _ = self._parts()
        return float(right.sum() / true.sum())


class _OfClasses(Confusion):
    """The base of what each class has a value of, and of which there is an average."""

    def __init__(
        self,
        average: Average = "binary",
        num_classes: int | None = None,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        name: str | None = None,
    ) -> None:
        if not isinstance(average, str) or average not in ("binary", "macro", "micro", "weighted", "none"):
            raise GraphError(f"an average is binary, macro, micro, weighted or none, got {shown(average)}")
        self.average = average
        super().__init__(name or type(self).__name__.lower(), num_classes, threshold, ignore_index)

    def _of_parts(self, right: Any, true: Any, taken: Any) -> Any:
        """The value, of counts of one class or of each."""
        raise NotImplementedError

    def result(self) -> Any:
        right, true, taken = self._parts()
        if self.average == "binary":
            if len(self.counts) > 2:
                raise GraphError(
                    f"{self.name}: there are {len(self.counts)} classes: choose average='macro', 'micro' or 'weighted'"
                )
            return float(self._of_parts(right[1], true[1], taken[1]))
        if self.average == "micro":
            return float(self._of_parts(right.sum(), true.sum(), taken.sum()))
        each = self._of_parts(right, true, taken)
        seen = (true + taken > 0) if self.num_classes is None else np.ones(len(true), bool)
        if self.average == "macro":
            return float(each[seen].mean())
        return each if self.average == "none" else float((each * true).sum() / true.sum())


def _quotient(above: Any, below: Any) -> Any:
    return np.divide(above, below, out=np.zeros_like(np.asarray(above, float)), where=np.asarray(below) > 0)


class Precision(_OfClasses):
    """Of those taken for a class, the share that is of it.

    Args: average, "binary": of class 1; "macro": the mean of all classes; "micro": of all samples together; "weighted":
    by their sizes; "none": an array, one for each class.

    >>> precision = mg.nn.metrics.Precision()
    >>> precision.update(np.float32([0.9, 0.8, 0.3, 0.6]), np.int32([1, 0, 1, 1]))
    >>> round(precision.result(), 3)
    0.667
    """

    def _of_parts(self, right: Any, true: Any, taken: Any) -> Any:
        return _quotient(right, taken)


class Recall(_OfClasses):
    """Of those of a class, the share that was taken for it. Args: as Precision's.

    >>> recall = mg.nn.metrics.Recall()
    >>> recall.update(np.float32([0.9, 0.8, 0.3, 0.6]), np.int32([1, 0, 1, 1]))
    >>> round(recall.result(), 3)
    0.667
    """

    def _of_parts(self, right: Any, true: Any, taken: Any) -> Any:
        return _quotient(right, true)


class F1(_OfClasses):
    """The harmonic mean of precision and recall. Args: as Precision's.

    >>> f1 = mg.nn.metrics.F1("macro")
    >>> f1.update(np.float32([[2, 1], [3, 0], [0, 3]]), np.int32([0, 1, 1]))
    >>> round(f1.result(), 3)
    0.667
    """

    def _of_parts(self, right: Any, true: Any, taken: Any) -> Any:
        return _quotient(2 * np.asarray(right, float), np.asarray(true) + np.asarray(taken))


class IoU(_OfClasses):
    """Intersection over union of what is of a class and what was taken for it: Jaccard's index. Args: as Precision's.

    >>> iou = mg.nn.metrics.IoU()
    >>> iou.update(np.float32([0.9, 0.8, 0.3, 0.6]), np.int32([1, 0, 1, 1]))
    >>> iou.result()
    0.5
    """

    def _of_parts(self, right: Any, true: Any, taken: Any) -> Any:
        return _quotient(right, np.asarray(true) + np.asarray(taken) - right)


class MeanIoU(IoU):
    """The mean of IoU over the classes.

    >>> iou = mg.nn.metrics.MeanIoU()
    >>> iou.update(np.float32([[2, 1], [3, 0], [0, 3]]), np.int32([0, 1, 1]))
    >>> iou.result()
    0.5
    """

    def __init__(self, num_classes: int | None = None, ignore_index: int | None = None, name: str = "mean_iou") -> None:
        super().__init__("macro", num_classes, 0.5, ignore_index, name)


class TopKAccuracy(Accumulated):
    """The share of samples whose class is among the k largest outputs.

    An output that equals the class's counts against it where its number is smaller.

    >>> top = mg.nn.metrics.TopKAccuracy(2)
    >>> top.update(np.float32([[0.1, 0.2, 0.3], [0.1, 0.2, 0.3]]), np.int32([1, 0]))
    >>> top.result()
    0.5
    """

    def __init__(self, k: Size = 5, name: str | None = None) -> None:
        self.k = k
        super().__init__(name or f"top_{k}_accuracy")

    def reset(self) -> None:
        self.right = self.total = 0

    def _update(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        outputs, labels = np.asarray(outputs), np.asarray(labels)
        if outputs.shape == labels.shape:
            labels = labels.argmax(axis=-1)
        if outputs.shape[:-1] != labels.shape:
            raise ShapeError(
                f"{self.name}: outputs {outputs.shape} need labels {outputs.shape[:-1]}, got {labels.shape}"
            )
        own = np.take_along_axis(outputs, labels[..., None].astype(np.int64), -1)
        before = np.arange(outputs.shape[-1]) < labels[..., None]
        above = (outputs > own) | ((outputs == own) & before)
        self.right += int((above.sum(axis=-1) < self.k).sum())
        self.total += labels.size

    def result(self) -> float:
        require_some(self.total, self.name)
        return self.right / self.total


class Perplexity(Accumulated):
    """e to the mean cross entropy of logits (..., classes) and labels (...).

    Args: ignore_index, labels that do not count.

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
        logits, numbers = np.asarray(outputs, np.float64), np.asarray(labels).astype(np.int64)
        if logits.shape[:-1] != numbers.shape:
            raise ShapeError(f"{self.name}: logits {logits.shape} need labels {logits.shape[:-1]}, got {numbers.shape}")
        logits, numbers = logits.reshape(-1, logits.shape[-1]), numbers.ravel()
        if self.ignore_index is not None:
            counted = numbers != self.ignore_index
            logits, numbers = logits[counted], numbers[counted]
        if not len(numbers):
            return
        if not 0 <= numbers.min() <= numbers.max() < logits.shape[1]:
            raise OutOfRangeError(f"{self.name}: labels are from {numbers.min()} to {numbers.max()}")
        highest = logits.max(axis=1)
        logs = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
        self.sum += float((logs - logits[np.arange(len(numbers)), numbers]).sum())
        self.total += len(numbers)

    def result(self) -> float:
        require_some(self.total, self.name)
        return float(np.exp(self.sum / self.total))
