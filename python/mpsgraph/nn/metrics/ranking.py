"""Metrics of how well scores rank the samples of two classes. All scores are kept, so the values are exact."""

from __future__ import annotations

import numpy as np

from .accumulated import Accumulated, per_class, require_some, scores_of


class _Scores(Accumulated):
    """Base class of the ranking metrics. It stores all scores and, for each score, whether its sample belongs to class
    1.

    Two outputs with two labels per sample are kept as pairs: they are two classes if all pairs of labels are one-hot
    vectors, and otherwise independent.
    """

    def reset(self) -> None:
        self._scores: list[np.ndarray] = []
        self._labels: list[np.ndarray] = []

    def _update(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        outputs, labels = np.asarray(outputs), np.asarray(labels)
        if per_class(outputs, labels) and outputs.shape[-1] == 2:
            scores, true = outputs.reshape(-1, 2).astype(np.float64), labels.reshape(-1, 2)
        else:
            if outputs.ndim == labels.ndim + 1 and outputs.shape[-1] == 2:
                outputs = _difference(outputs.astype(np.float64))
            scores, true = scores_of(outputs, labels)
        self._scores.append(np.where(true == true, scores, np.nan))
        self._labels.append(true > 0.5)

    def _all(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all scores and whether their samples belong to class 1."""
        require_some(sum(map(len, self._scores)), self.name)
        pairs = [labels for labels in self._labels if labels.ndim == 2]
        if pairs and all((labels[:, 0] != labels[:, 1]).all() for labels in pairs):
            scores = [_difference(each) if each.ndim == 2 else each for each in self._scores]
            labels = [each[:, 1] if each.ndim == 2 else each for each in self._labels]
        else:
            scores, labels = [each.ravel() for each in self._scores], [each.ravel() for each in self._labels]
        return np.concatenate(scores), np.concatenate(labels)

    def result(self) -> float:
        scores, labels = self._all()
        if np.isnan(scores).any():
            return float("nan")
        order = np.argsort(-scores, kind="stable")
        scores, labels = scores[order], labels[order]
        last = np.r_[np.flatnonzero(scores[1:] != scores[:-1]), len(scores) - 1]
        return self._of(np.cumsum(labels)[last], np.cumsum(~labels)[last])

    def _of(self, ones: np.ndarray, zeros: np.ndarray) -> float:
        """Compute the metric from cumulative counts of the samples of classes 1 and 0, by descending score."""
        raise NotImplementedError


def _difference(outputs: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.asarray(outputs[..., 1] - outputs[..., 0])


class AUC(_Scores):
    """Area under the ROC curve: the probability that a sample of class 1 scores above one of class 0.

    Outputs are probabilities or logits of class 1, or two numbers per sample, whose difference is the score. The result
    is NaN if one of the classes has no samples, or an output or label is NaN. Labels are 0 or 1, one for each score;
    for two outputs, they may also be one-hot vectors. If there are more than two columns, all columns form one set of
    scores. Equivalent to scikit-learn's roc_auc_score.

    Args:
        name: Name under which the metric is reported. Defaults to "auc".

    Raises:
        GraphError: If there was no update before `result`.
        ShapeError: If outputs and labels do not match.

    Example:
        >>> auc = mg.nn.metrics.AUC()
        >>> auc.update(np.float32([0.1, 0.4, 0.35, 0.8]), np.int32([0, 0, 1, 1]))
        >>> auc.result()
        0.75
    """

    def __init__(self, name: str = "auc") -> None:
        super().__init__(name)

    def _of(self, ones: np.ndarray, zeros: np.ndarray) -> float:
        if not ones[-1] or not zeros[-1]:
            return float("nan")
        high, wide = np.r_[0, ones] / ones[-1], np.r_[0, zeros] / zeros[-1]
        return float((np.diff(wide) * (high[1:] + high[:-1]) / 2).sum())


class AveragePrecision(_Scores):
    """Average precision: the precision at each recall reached, weighted by the increase in recall.

    Outputs are probabilities or logits of class 1, or two numbers per sample, whose difference is the score. The result
    is NaN if an output or label is NaN. Labels are 0 or 1, one for each score; for two outputs, they may also be
    one-hot vectors. If there are more than two columns, all columns form one set of scores. Equivalent to
    scikit-learn's average_precision_score.

    Args:
        name: Name under which the metric is reported. Defaults to "average_precision".

    Raises:
        GraphError: If there was no update before `result`.
        ShapeError: If outputs and labels do not match.

    Example:
        >>> precision = mg.nn.metrics.AveragePrecision()
        >>> precision.update(np.float32([0.1, 0.4, 0.35, 0.8]), np.int32([0, 0, 1, 1]))
        >>> round(precision.result(), 4)
        0.8333
    """

    def __init__(self, name: str = "average_precision") -> None:
        super().__init__(name)

    def _of(self, ones: np.ndarray, zeros: np.ndarray) -> float:
        if not ones[-1]:
            return 0.0
        return float((np.diff(np.r_[0, ones]) / ones[-1] * (ones / (ones + zeros))).sum())
