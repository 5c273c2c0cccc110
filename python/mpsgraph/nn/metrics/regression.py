"""Accumulated regression metrics, computed in float64."""

from __future__ import annotations

import numpy as np

from .accumulated import Accumulated, require_some, scores_of


class MAE(Accumulated):
    """Mean absolute error over all elements.

    Args:
        name: Name under which the metric is reported. Defaults to "mae".

    Raises:
        GraphError: If there was no update before `result`.
        ShapeError: If outputs and labels differ in shape.

    Example:
        >>> error = mg.nn.metrics.MAE()
        >>> error.update(np.float32([1, 2]), np.float32([0, 4]))
        >>> error.result()
        1.5
    """

    def __init__(self, name: str = "mae") -> None:
        super().__init__(name)

    def reset(self) -> None:
        self.sum, self.total = 0.0, 0

    def _update(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        found, true = scores_of(outputs, labels)
        self.sum += float(self._of(found - true).sum())
        self.total += len(true)

    def _of(self, errors: np.ndarray) -> np.ndarray:
        """Return the terms to sum, such as absolute errors, from the signed errors."""
        return np.asarray(np.abs(errors))

    def result(self) -> float:
        require_some(self.total, self.name)
        return self.sum / self.total


class RMSE(MAE):
    """Root mean squared error over all elements.

    Args:
        name: Name under which the metric is reported. Defaults to "rmse".

    Raises:
        GraphError: If there was no update before `result`.
        ShapeError: If outputs and labels differ in shape.

    Example:
        >>> error = mg.nn.metrics.RMSE()
        >>> error.update(np.float32([1, 2]), np.float32([1, 4]))
        >>> round(error.result(), 4)
        1.4142
    """

    def __init__(self, name: str = "rmse") -> None:
        super().__init__(name)

    def _of(self, errors: np.ndarray) -> np.ndarray:
        return np.asarray(errors * errors)

    def result(self) -> float:
        return float(np.sqrt(super().result()))


class R2(Accumulated):
    """Coefficient of determination: 1 - (sum of squared errors) / (sum of squared deviations from the labels' mean).

    If all labels are equal, the result is 1 if there is no error and 0 otherwise, as in scikit-learn's r2_score.
    Several columns are treated as one set of numbers.

    Args:
        name: Name under which the metric is reported. Defaults to "r2".

    Raises:
        GraphError: If there was no update before `result`.
        ShapeError: If outputs and labels differ in shape.

    Example:
        >>> r2 = mg.nn.metrics.R2()
        >>> r2.update(np.float32([2.5, 0.0, 2, 8]), np.float32([3, -0.5, 2, 7]))
        >>> round(r2.result(), 4)
        0.9486
    """

    def __init__(self, name: str = "r2") -> None:
        super().__init__(name)

    def reset(self) -> None:
        self.errors, self.total, self.mean, self.spread = 0.0, 0, 0.0, 0.0

    def _update(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        found, true = scores_of(outputs, labels)
        if not len(true):
            return
        self.errors += float(((found - true) ** 2).sum())
        mean, count = float(true.mean()), self.total + len(true)
        # Combine sums of squared deviations, because subtracting sums of squares of large numbers would cancel.
        shift = mean - self.mean
        self.spread += float(((true - mean) ** 2).sum()) + shift**2 * self.total * len(true) / count
        self.mean += shift * len(true) / count
        self.total = count

    def result(self) -> float:
        require_some(self.total, self.name)
        if self.spread == 0 and not np.isnan(self.errors):
            return 1.0 if self.errors == 0 else 0.0
        return 1 - self.errors / self.spread if self.spread else float("nan")
