"""History: loss and metrics of every step, validation results, and a picture of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks import checked
from .._optional import require


@checked
class History:
    """What training has recorded. `steps[name][i]` belongs to step i; `validation` holds (step, results) pairs.

    >>> history = mg.History()
    >>> history.append({"loss": 2.0})
    >>> history.loss
    [2.0]
    """

    def __init__(self) -> None:
        self.steps: dict[str, list[float]] = {"loss": []}
        self.validation: list[tuple[int, dict[str, float]]] = []

    @property
    def loss(self) -> list[float]:
        """The mean loss of each step's batch."""
        return self.steps["loss"]

    def append(self, values: dict[str, float]) -> None:
        """Records one step."""
        for name, value in values.items():
            self.steps.setdefault(name, []).append(value)

    def append_validation(self, step: int, values: dict[str, float]) -> None:
        """Records an evaluation made after `step` steps."""
        self.validation.append((step, values))

    def plot(self, axes: Any = None, smoothing: float = 0.9) -> Any:
        """Draws the loss by step, smoothed over the raw values, and validation points; accuracy on a second scale.

        Args: axes of matplotlib, None: a new figure; smoothing, of the running mean, 0 for none. Result: the axes.
        Errors: ImportError without matplotlib.
        """
        if axes is None:
            axes = require("matplotlib.pyplot", "train", "plotting").subplots(figsize=(8, 4.5), layout="constrained")[1]
        steps = np.arange(1, len(self.loss) + 1)
        axes.plot(steps, self.loss, color="#4c72b0", alpha=0.25, linewidth=1)
        axes.plot(steps, smoothed(self.loss, smoothing), color="#4c72b0", linewidth=2, label="training loss")
        axes.set(xlabel="step", ylabel="loss", xlim=(0, max(2, len(self.loss))))
        lines = axes.get_legend_handles_labels()[0]
        if self.validation:
            points = [(step, values["loss"]) for step, values in self.validation]
            lines += axes.plot(
                *zip(*points, strict=True), "o", color="#1b3a6b", markersize=6, clip_on=False, label="validation loss"
            )
        axes.set(ylim=(0, None))  # after all points, which it has to hold
        if "accuracy" in self.steps:
            lines += self._plot_accuracy(axes.twinx(), steps, smoothing)
        axes.legend(handles=lines, loc="center right", frameon=False)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        return axes

    def _plot_accuracy(self, axes: Any, steps: np.ndarray, smoothing: float) -> list[Any]:
        accuracy = np.array(self.steps["accuracy"]) * 100
        lines = axes.plot(steps, smoothed(accuracy, smoothing), color="#dd8452", linewidth=2, label="training accuracy")
        points = [(step, 100 * values["accuracy"]) for step, values in self.validation if "accuracy" in values]
        if points:
            lines += axes.plot(
                *zip(*points, strict=True),
                "o",
                color="#a4491d",
                markersize=6,
                clip_on=False,
                label="validation accuracy",
            )
        axes.set(ylabel="accuracy, %", ylim=(0, 102))
        axes.spines["top"].set_visible(False)
        return list(lines)


def smoothed(values: Any, smoothing: float) -> np.ndarray:
    """The running mean s = smoothing * s + (1 - smoothing) * value, corrected for its start."""
    result, mean, weight = np.empty(len(values)), 0.0, 0.0
    for i, value in enumerate(values):
        mean = smoothing * mean + (1 - smoothing) * value
        weight = smoothing * weight + (1 - smoothing)
        result[i] = mean / weight
    return result
