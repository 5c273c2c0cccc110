"""History: loss and metrics of every step, validation results, and a picture of them."""

from __future__ import annotations

from html import escape
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
        self.epochs: list[dict[str, float]] = []
        """Of each epoch the means over its steps, metrics that accumulate, and "val_..." of validation."""

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

    @property
    def epoch(self) -> int:
        """How many epochs have ended."""
        return len(self.epochs)

    def append_epoch(self, values: dict[str, float]) -> None:
        """Records an epoch."""
        self.epochs.append(dict(values))

    def state_dict(self) -> dict[str, Any]:
        """All of it, in what JSON can hold; checkpoints keep it."""
        return {"steps": self.steps, "validation": self.validation, "epochs": self.epochs}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes what state_dict gave.

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
        """A table of the epochs, for notebooks."""
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
