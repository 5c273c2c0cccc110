"""History: the loss and metrics of every step, the results of validations, and plots of both."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from .._checks import Share, checked
from .._optional import require


@checked
class History:
    """Record of training: values of steps, epochs, and validations.

    Args:
        seed: Seed of the training. None, the default, means unknown.

    Attributes:
        seed: Seed of the training, with which Trainer(seed=...) repeats it, or None if unknown.
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

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed
        """Seed of the training, or None if unknown."""
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
        return {"steps": self.steps, "validation": self.validation, "epochs": self.epochs, "seed": self.seed}

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
        self.seed = state.get("seed", self.seed)

    def __repr__(self) -> str:
        last = {name: round(values[-1], 4) for name, values in self.steps.items() if values}
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"<History of {len(self.loss)} steps and {self.epoch} epochs{seed}, last {last}>"

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

    def plot(self, axes: Any = None, smoothing: Share = 0.9) -> Any:
        """Plot losses by step, validation losses, and, on a second axis, accuracy if recorded.

        Raw values of the steps are faint. The line through them is a mean over neighboring steps on both sides, so it
        does not lag behind the values. Each validation is drawn at the step after which it ran, on the same axis as
        this line.

        Args:
            axes: Matplotlib axes to draw into. None, the default, creates a new figure.
            smoothing: Fraction that determines the width of the mean: 0.9 (the default) averages about 10 steps to
                either side, 0 none. Fewer are averaged near the ends.

        Returns:
            The axes.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        if axes is None:
            axes = require("matplotlib.pyplot", "train", "plotting").subplots(figsize=(8, 4.5), layout="constrained")[1]
        steps = np.arange(1, len(self.loss) + 1)
        axes.plot(steps, self.loss, color="#4c72b0", alpha=0.25, linewidth=1, label="_steps")
        axes.plot(steps, smoothed(self.loss, smoothing), color="#4c72b0", linewidth=2, label="training loss")
        axes.set(xlabel="step", ylabel="loss", xlim=(0, max(2, len(self.loss))))
        lines = axes.get_legend_handles_labels()[0]
        if self.validation:
            points = [(step, values["loss"]) for step, values in self.validation]
            lines += axes.plot(
                *zip(*points, strict=True), "o", color="#1b3a6b", markersize=6, clip_on=False, label="validation loss"
            )
        axes.set(ylim=(min(0, *self.loss[:1], *smoothed(self.loss, smoothing)), None))  # After all points are drawn.
        if "accuracy" in self.steps:
            lines += self._plot_accuracy(axes.twinx(), steps, smoothing)
        axes.legend(handles=lines, loc="center right", frameon=False)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        return axes

    def _plot_accuracy(self, axes: Any, steps: np.ndarray, smoothing: float) -> list[Any]:
        accuracy = np.array(self.steps["accuracy"]) * 100
        axes.plot(steps, accuracy, color="#dd8452", alpha=0.2, linewidth=1, label="_steps")
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
    """Return means over neighbors on both sides, which follow straight lines without lag, also at the ends.

    Each value is that of the line fitted to its neighbors by weighted least squares, where weights decrease linearly
    with the distance. Steps that are not finite are skipped.
    """
    y = np.asarray(values, np.float64)
    reach = int(round(1 / (1 - min(smoothing, 0.999))))
    if reach < 2 or len(y) < 3:
        return y
    offsets = np.arange(-reach, reach + 1)
    weights = 1 - np.abs(offsets) / (reach + 1)
    known = np.isfinite(y)
    filled = np.where(known, y, 0.0)

    def sums(power: int, of: np.ndarray) -> np.ndarray:
        return np.convolve(np.pad(of, reach), (weights * offsets**power)[::-1], "valid")

    s0, s1, s2 = (sums(power, known.astype(np.float64)) for power in range(3))
    t0, t1 = (sums(power, filled) for power in range(2))
    spread = s0 * s2 - s1 * s1
    with np.errstate(divide="ignore", invalid="ignore"):
        found: np.ndarray = np.where(spread > 1e-9 * s0 * s0, (s2 * t0 - s1 * t1) / spread, t0 / s0)
    return found
