"""Metrics of how well scores rank the samples of two classes. All scores are kept, so the values are exact."""

from __future__ import annotations

import numpy as np

from ...errors import GraphError
from .accumulated import Accumulated, require_some, scores_of


class _Scores(Accumulated):
    """Base class of the ranking metrics. It stores all scores, and for each whether the sample belongs to class 1."""

    def reset(self) -> None:
        self._scores: list[np.ndarray] = []
        self._labels: list[np.ndarray] = []

    def _update(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        outputs = np.asarray(outputs)
        if outputs.ndim == np.ndim(labels) + 1 and outputs.shape[-1] == 2:
            outputs = outputs[..., 1].astype(np.float64) - outputs[..., 0]
        scores, true = scores_of(outputs, labels)
        if np.isnan(scores).any():
            raise GraphError(f"{self.name}: outputs must not be NaN, because NaN scores cannot be ranked")
        self._scores.append(scores)
        self._labels.append(true > 0.5)

    def _ordered(self) -> tuple[np.ndarray, np.ndarray]:
        """Return, for each distinct score in descending order, the cumulative numbers of samples of class 1 and 0."""
        require_some(self._scores, self.name)
        scores, labels = np.concatenate(self._scores), np.concatenate(self._labels)
        order = np.argsort(-scores, kind="stable")
        scores, labels = scores[order], labels[order]
        last = np.r_[np.flatnonzero(np.diff(scores)), len(scores) - 1]
        return np.cumsum(labels)[last], np.cumsum(~labels)[last]


class AUC(_Scores):
    """Area under the ROC curve: the probability that a sample of class 1 scores above one of class 0.

    Outputs are probabilities or logits of class 1, or two numbers per sample, whose difference is the score. The result
    is NaN if one of the classes has no samples. Equivalent to scikit-learn's roc_auc_score.

    Args:
        name: Name under which the metric is reported. Defaults to "auc".

    Raises:
        GraphError: If an output is NaN, or there was no update before `result`.
        ShapeError: If outputs and labels do not match.

    Example:
        >>> auc = mg.nn.metrics.AUC()
        >>> auc.update(np.float32([0.1, 0.4, 0.35, 0.8]), np.int32([0, 0, 1, 1]))
        >>> auc.result()
        0.75
    """

    def __init__(self, name: str = "auc") -> None:
        super().__init__(name)

    def result(self) -> float:
        ones, zeros = self._ordered()
        if not ones[-1] or not zeros[-1]:
            return float("nan")
        high, wide = np.r_[0, ones] / ones[-1], np.r_[0, zeros] / zeros[-1]
        return float((np.diff(wide) * (high[1:] + high[:-1]) / 2).sum())


class AveragePrecision(_Scores):
    """Average precision: the precision at each recall reached, weighted by the increase in recall.

    Outputs are probabilities or logits of class 1, or two numbers per sample, whose difference is the score.
    Equivalent to scikit-learn's average_precision_score.

    Args:
        name: Name under which the metric is reported. Defaults to "average_precision".

    Raises:
        GraphError: If an output is NaN, or there was no update before `result`.
        ShapeError: If outputs and labels do not match.

    Example:
        >>> precision = mg.nn.metrics.AveragePrecision()
        >>> precision.update(np.float32([0.1, 0.4, 0.35, 0.8]), np.int32([0, 0, 1, 1]))
        >>> round(precision.result(), 4)
        0.8333
    """

    def __init__(self, name: str = "average_precision") -> None:
        super().__init__(name)

    def result(self) -> float:
        ones, zeros = self._ordered()
        if not ones[-1]:
            return 0.0
        return float((np.diff(np.r_[0, ones]) / ones[-1] * (ones / (ones + zeros))).sum())
