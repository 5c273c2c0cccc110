"""Callback, the base class of callbacks, and Watching, the base class of callbacks that monitor one value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from ..._checks import checked
from ...errors import GraphError
from ..roles import Trains


class Callback:
    """Base class of callbacks. Override the methods you need.

    `trainer.stop(reason)` ends the fit. `values` maps names to numbers: "loss", metrics, and, at the end of an epoch,
    validation results such as "val_loss". The result of `state_dict` is saved with the trainer. In the first fit after
    `Trainer.load`, this result is passed to `load_state_dict` of a callback of the same class.

    Attributes:
        saves: Whether the callback saves the trainer. Callbacks that do are called last, so that the saved state
            includes the effects of the others.
        first_process_only: Whether only the first process calls the callback in distributed training.

    Example:
        >>> class Shout(mg.training.callbacks.Callback):
        ...     def on_epoch_end(self, trainer, epoch, values):
        ...         print("epoch", epoch, sorted(values))
        >>> x = np.ones((8, 1), np.float32)
        >>> _ = mg.Trainer(mg.nn.Linear(1), "mse").fit(x, x, callbacks=[Shout()], progress=False)
        epoch 0 ['loss']
    """

    saves = False
    """Whether the callback saves the trainer.

    Callbacks that do are called last, so that the saved state includes the effects of the others.
    """

    first_process_only = False
    """Whether only the first process calls the callback in distributed training.

    Set it for callbacks that write files or print, not for those that change the trainer.
    """

    def state_dict(self) -> dict[str, Any]:
        """Return the state that the callback needs to resume: numbers, strings, arrays, and lists and dicts of them."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state. A resumed fit calls this after `on_fit_begin`.

        Args:
            state: Result of `state_dict`, in which tuples have become lists.
        """

    def on_fit_begin(self, trainer: Trains) -> None:
        """Called before the first epoch of a fit.

        Args:
            trainer: The trainer.
        """

    def on_epoch_begin(self, trainer: Trains, epoch: int) -> None:
        """Called before the first step of an epoch.

        Args:
            trainer: The trainer.
            epoch: Index of the epoch, counted from 0 over all fits of the trainer.
        """

    def on_step_end(self, trainer: Trains, step: int, values: Mapping[str, float]) -> None:
        """Called when the values of a step are available.

        Args:
            trainer: The trainer.
            step: Number of the step, counted from 1.
            values: Dict of the step's loss and metrics, keyed by name.
        """

    def on_epoch_end(self, trainer: Trains, epoch: int, values: Mapping[str, float]) -> None:
        """Called after an epoch and its validation.

        Args:
            trainer: The trainer.
            epoch: Index of the epoch, counted from 0 over all fits of the trainer.
            values: Dict of means over the steps of the epoch and of validation results, keyed by name.
        """

    def on_fit_end(self, trainer: Trains) -> None:
        """Called after the last epoch, also if an error ends the fit.

        Args:
            trainer: The trainer.
        """


class Watching(Callback):
    """Base class of the callbacks that monitor one value and check after each epoch whether it has improved."""

    @checked
    def __init__(self, monitor: str = "val_loss", mode: Literal["auto", "min", "max"] = "auto", min_delta: float = 0.0):
        if not 0 <= min_delta < math.inf:
            raise GraphError(f"{type(self).__name__}: min_delta must be finite and at least 0, got {min_delta}")
        lower = "loss" in monitor or "error" in monitor or "perplexity" in monitor
        self.monitor, self.min_delta = monitor, min_delta
        self.mode = ("min" if lower else "max") if mode == "auto" else mode
        self.best: float | None = None

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best = state["best"]

    def value_of(self, values: Mapping[str, float]) -> float:
        """Return the monitored value of an epoch.

        Args:
            values: Dict of the epoch's results, keyed by name, as in the history.

        Returns:
            The value of `monitor`.

        Raises:
            GraphError: If the epoch has no such value; the message lists the available names.
        """
        if self.monitor not in values:
            raise GraphError(
                f"{type(self).__name__}: monitor must be one of the epoch's values ({', '.join(values)}), got "
                f"'{self.monitor}': pass validation data to fit, or another monitor"
            )
        return values[self.monitor]

    def improves(self, value: float) -> bool:
        """Return whether a value exceeds the best so far by more than min_delta, and if so, record it as the best.

        Args:
            value: The monitored value of an epoch; NaN never improves.

        Returns:
            Whether the value is the new best.
        """
        if math.isnan(value):
            return False
        gain = math.inf if self.best is None else (self.best - value if self.mode == "min" else value - self.best)
        if gain > self.min_delta:
            self.best = value
            return True
        return False
