"""Callbacks that stop a fit or lower its learning rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Literal

from ..._checks import NotNegative, Share, Size, checked
from ..roles import Trains
from .callback import Callback, Watching


class EarlyStopping(Watching):
    """Stop the fit when a monitored value has not improved for a number of epochs, and restore the best weights.

    The restored weights are those for which the monitored value was measured. For validation results of a trainer with
    `ema_decay`, these are the moving averages, which then become both the weights and the start of further averages.

    Until the callback has stopped a fit, the best value, the best weights, and the number of epochs without improvement
    are saved with the trainer. Corresponds to Keras's EarlyStopping.

    Args:
        monitor: Name of the value. Defaults to "val_loss".
        patience: Number of epochs without improvement after which to stop. Defaults to 10.
        min_delta: Change that an improvement must exceed. Defaults to 0.
        mode: "min", "max", or "auto", the default, which means "min" for losses, errors, and perplexity, and "max"
            otherwise.
        restore_best_weights: Whether to restore the weights of the best epoch at the end of the fit. Defaults to True.

    Raises:
        GraphError: At the end of an epoch, if the epoch has no value of that name.

    Example:
        >>> x = np.ones((8, 1), np.float32)
        >>> stopping = mg.training.callbacks.EarlyStopping("loss", patience=2, min_delta=10.0)
        >>> trainer = mg.Trainer(mg.nn.Linear(1), "mse")
        >>> trainer.fit(x, x, epochs=50, callbacks=[stopping], progress=False).epoch, trainer.stopped
        (3, 'loss has not improved for 2 epochs')
    """

    @checked
    def __init__(
        self,
        monitor: str = "val_loss",
        patience: Size = 10,
        min_delta: NotNegative = 0.0,
        mode: Literal["auto", "min", "max"] = "auto",
        restore_best_weights: bool = True,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        self.patience, self.restore_best_weights = patience, restore_best_weights
        self.waited = 0
        self._forget()

    def _forget(self) -> None:
        self.waited, self.best = 0, None
        self._weights: dict[str, Any] | None = None
        self._averages: dict[str, Any] = {}

    def state_dict(self) -> dict[str, Any]:
        own = {"waited": self.waited, "weights": self._weights, "averages": self._averages}
        return super().state_dict() | own

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.waited = state["waited"]
        if self.restore_best_weights:
            self._weights, self._averages = state["weights"], state.get("averages", {})

    def on_fit_begin(self, trainer: Trains) -> None:
        self._forget()

    def on_epoch_end(self, trainer: Trains, epoch: int, values: Mapping[str, float]) -> None:
        if self.improves(self.value_of(values)):
            self.waited = 0
            if self.restore_best_weights:
                self._averages = trainer.state.average_values()
                # Validation uses the moving averages of the weights.
                measured = bool(self._averages) and self.monitor.startswith("val_")
                with trainer.state.averages_in_place() if measured else nullcontext():
                    self._weights = trainer.weights()
            return
        self.waited += 1
        if self.waited >= self.patience:
            trainer.stop(f"{self.monitor} has not improved for {self.patience} epochs")

    def on_fit_end(self, trainer: Trains) -> None:
        if self._weights is not None:
            trainer.wait()
            trainer.set_weights(self._weights)
            trainer.state.set_average_values(self._averages)
        if self.waited >= self.patience:
            self._forget()


class ReduceRateOnPlateau(Watching):
    """Multiply all learning rates by a factor when a monitored value has not improved for a number of epochs.

    Schedules continue, with their rates multiplied by the factor. The state of the callback and the changed rates are
    saved with the trainer. Corresponds to ReduceLROnPlateau in Keras and PyTorch. `patience` counts as in Keras:
    patience=p in PyTorch is patience=p + 1 here.

    Args:
        monitor: Name of the value. Defaults to "val_loss".
        factor: Number to multiply the rates by, from 0 to 1. Defaults to 0.1.
        patience: Number of epochs without improvement after which to lower the rates. Defaults to 10.
        min_delta: Change that an improvement must exceed. Defaults to 1e-4.
        mode: "min", "max", or "auto", the default, which means "min" for losses, errors, and perplexity, and "max"
            otherwise.
        cooldown: Number of epochs after a reduction that do not count towards `patience`. Defaults to 0.
        min_rate: Lower bound of the trainer's learning rate. Defaults to 0.

    Raises:
        GraphError: At the end of an epoch, if the epoch has no value of that name.

    Example:
        >>> x = np.ones((8, 1), np.float32)
        >>> plateau = mg.training.callbacks.ReduceRateOnPlateau("loss", factor=0.5, patience=1, min_delta=10.0)
        >>> trainer = mg.Trainer(mg.nn.Linear(1), "mse", mg.optim.SGD(0.25))
        >>> _ = trainer.fit(x, x, epochs=3, callbacks=[plateau], progress=False)
        >>> trainer.learning_rate
        0.0625
    """

    @checked
    def __init__(
        self,
        monitor: str = "val_loss",
        factor: Share = 0.1,
        patience: Size = 10,
        min_delta: NotNegative = 1e-4,
        mode: Literal["auto", "min", "max"] = "auto",
        cooldown: int = 0,
        min_rate: NotNegative = 0.0,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        self.factor, self.patience, self.cooldown, self.min_rate = factor, patience, cooldown, min_rate
        self.waited = self.cooling = 0

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"waited": self.waited, "cooling": self.cooling}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.waited, self.cooling = state["waited"], state["cooling"]

    def on_epoch_end(self, trainer: Trains, epoch: int, values: Mapping[str, float]) -> None:
        better = self.improves(self.value_of(values))
        if self.cooling > 0:
            self.cooling -= 1
            self.waited = 0
            return
        if better:
            self.waited = 0
            return
        self.waited += 1
        rate = trainer.learning_rate
        if self.waited >= self.patience and rate > self.min_rate:
            trainer.optimizer.scale_learning_rate(max(self.factor, self.min_rate / rate))
            self.waited, self.cooling = 0, self.cooldown


class TerminateOnNaN(Callback):
    """Stop the fit when the loss of a step is NaN or infinite.

    Example:
        >>> x = np.full((8, 1), np.nan, np.float32)
        >>> trainer = mg.Trainer(mg.nn.Linear(1), "mse")
        >>> _ = trainer.fit(x, x, epochs=9, callbacks=[mg.training.callbacks.TerminateOnNaN()], progress=False)
        >>> trainer.stopped
        'the loss of step 1 is nan'
    """

    def on_step_end(self, trainer: Trains, step: int, values: Mapping[str, float]) -> None:
        loss = values.get("loss", 0.0)
        if not math.isfinite(loss) and trainer.stopped is None:
            trainer.stop(f"the loss of step {step} is {loss}")
