"""History: the loss and metrics of every step, the results of validations, and plots of both."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from .._checks import checked
from .._optional import require


@checked
class History:
    """Record of training: values of steps, epochs, and validations.

    Attributes:
        steps: Dict of lists, keyed by the name of a value: steps[name][i] is the value at step i.
        validation: (step, results) pairs.
        epochs: For each epoch, a dict of values, keyed by name: means over its samples, accumulated metrics, and
            "val_..." results.

    Example:
        >>> history = mg.History()
        >>> history.append({"loss": 2.0})
        >>> history.loss
        [2.0]
    """

    def __init__(self) -> None:
        self.steps: dict[str, list[float]] = {"loss": []}
        self.validation: list[tuple[int, dict[str, float]]] = []
        self.epochs: list[dict[str, float]] = []
        """For each epoch, means over its samples, accumulated metrics, and "val_..." results of the validation."""

    @property
    def loss(self) -> list[float]:
        """Mean loss over the batch, for each step."""
        return self.steps["loss"]

    def append(self, values: dict[str, float]) -> None:
        """Record the values of a step.

        Args:
            values: Dict of values, keyed by name.
        """
        for name, value in values.items():
            self.steps.setdefault(name, []).append(value)

    def append_validation(self, step: int, values: dict[str, float]) -> None:
        """Record the results of a validation.

        Args:
            step: Number of steps made before the validation.
            values: Dict of results, keyed by name.
        """
        self.validation.append((step, values))

    @property
    def epoch(self) -> int:
        """Number of epochs completed."""
        return len(self.epochs)

    def append_epoch(self, values: dict[str, float]) -> None:
        """Record the values of an epoch.

        Args:
            values: Dict of values, keyed by name.
        """
        self.epochs.append(dict(values))

    def state_dict(self) -> dict[str, Any]:
        """Return the history as JSON types, for checkpoints."""
        return {"steps": self.steps, "validation": self.validation, "epochs": self.epochs}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Replace the record by a stored one.

        Args:
            state: Result of `state_dict`.

        Example:
            >>> history, other = mg.History(), mg.History()
            >>> history.append({"loss": 2.0})
            >>> other.load_state_dict(history.state_dict())
            >>> other.loss
            [2.0]
        """
        self.steps = {name: list(values) for name, values in state.get("steps", {"loss": []}).items()}
        self.steps.setdefault("loss", [])
        self.validation = [(int(step), dict(values)) for step, values in state.get("validation", [])]
        self.epochs = [dict(values) for values in state.get("epochs", [])]

    def __repr__(self) -> str:
        last = {name: round(values[-1], 4) for name, values in self.steps.items() if values}
        return f"<History of {len(self.loss)} steps and {self.epoch} epochs, last {last}>"

    def _repr_html_(self) -> str:
        """Return a table of the epochs for notebooks."""
        names = list(dict.fromkeys(name for epoch in self.epochs for name in epoch))
        head = "".join(f"<th>{escape(name)}</th>" for name in ["epoch", *names])
        rows = "".join(
            f"<tr><td>{i + 1}</td>"
            + "".join(f"<td>{epoch.get(name, float('nan')):.4g}</td>" for name in names)
            + "</tr>"
            for i, epoch in enumerate(self.epochs)
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"

    def plot(self, axes: Any = None, smoothing: float = 0.9) -> Any:
        """Plot raw and smoothed losses by step, validation losses, and, on a second axis, accuracy if recorded.

        Args:
            axes: Matplotlib axes to draw into. None, the default, creates a new figure.
            smoothing: Weight of the past in the running mean, or 0 for no smoothing. Defaults to 0.9.

        Returns:
            The axes.

        Raises:
            ImportError: If matplotlib is not installed.
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
        axes.set(ylim=(0, None))  # Set the limit after all points are drawn, so that it includes them.
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
    """Return the running mean s = smoothing * s + (1 - smoothing) * value, corrected for starting at zero."""
    result, mean, weight = np.empty(len(values)), 0.0, 0.0
    for i, value in enumerate(values):
        mean = smoothing * mean + (1 - smoothing) * value
        weight = smoothing * weight + (1 - smoothing)
        result[i] = mean / weight
    return result
