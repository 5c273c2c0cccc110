"""Callbacks that end a fit or lower its rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from ..._checks import NotNegative, Share, Size
from ..trainer_type import Trainer
from .callback import Callback, Watching


class EarlyStopping(Watching):
    """Ends the fit when a value has not got better for so many epochs, and gives the model its best weights back.

    Args: monitor, such as "val_loss"; patience in epochs; min_delta, what counts as better; mode, "min", "max" or
    "auto": "min" for losses, errors and perplexity; restore_best_weights. The best value and weights and the epochs
    without a better one are saved with the trainer, until it has ended a fit. Keras's EarlyStopping. Errors: GraphError
    for a monitor that epochs do not have.

    >>> x = np.ones((8, 1), np.float32)
    >>> stopping = mg.training.callbacks.EarlyStopping("loss", patience=2, min_delta=10.0)
    >>> trainer = mg.Trainer(mg.nn.Linear(1), "mse")
    >>> trainer.fit(x, x, epochs=50, callbacks=[stopping], progress=False).epoch, trainer.stopped
    (3, 'loss has not got better for 2 epochs')
    """

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
        self._weights: dict[str, Any] | None = None

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"waited": self.waited, "weights": self._weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.waited, self._weights = state["waited"], state["weights"] if self.restore_best_weights else None

    def on_fit_begin(self, trainer: Trainer) -> None:
        self.waited, self.best, self._weights = 0, None, None

    def on_epoch_end(self, trainer: Trainer, epoch: int, values: Mapping[str, float]) -> None:
        if self.improves(self.value_of(values)):
            self.waited = 0
            if self.restore_best_weights:
                self._weights = trainer.weights()
            return
        self.waited += 1
        if self.waited >= self.patience:
            trainer.stop(f"{self.monitor} has not got better for {self.patience} epochs")

    def on_fit_end(self, trainer: Trainer) -> None:
        if self._weights is not None:
            trainer.wait()
            trainer.set_weights(self._weights)
        if self.waited >= self.patience:
            self.waited, self.best, self._weights = 0, None, None


class ReduceRateOnPlateau(Watching):
    """Multiplies all learning rates by a factor when a value has not got better for so many epochs.

    Schedules go on beneath it. Args: monitor, factor, patience in epochs, min_delta, mode as EarlyStopping's; cooldown,
    epochs after a change in which it does not wait; min_rate, below which it does not bring the trainer's learning
    rate. What it has seen and the rates that it made are saved with the trainer. Keras's and PyTorch's
    ReduceLROnPlateau, whose patience of p lets p epochs pass: it is patience=p + 1 here, as in Keras.

    >>> x = np.ones((8, 1), np.float32)
    >>> plateau = mg.training.callbacks.ReduceRateOnPlateau("loss", factor=0.5, patience=1, min_delta=10.0)
    >>> trainer = mg.Trainer(mg.nn.Linear(1), "mse", mg.optim.SGD(0.25))
    >>> _ = trainer.fit(x, x, epochs=3, callbacks=[plateau], progress=False)
    >>> trainer.learning_rate
    0.0625
    """

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

    def on_epoch_end(self, trainer: Trainer, epoch: int, values: Mapping[str, float]) -> None:
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
    """Ends the fit when a step's loss is NaN or infinite.

    >>> x = np.full((8, 1), np.nan, np.float32)
    >>> trainer = mg.Trainer(mg.nn.Linear(1), "mse")
    >>> _ = trainer.fit(x, x, epochs=9, callbacks=[mg.training.callbacks.TerminateOnNaN()], progress=False)
    >>> trainer.stopped
    'the loss of step 1 is nan'
    """

    def on_step_end(self, trainer: Trainer, step: int, values: Mapping[str, float]) -> None:
        loss = values.get("loss", 0.0)
        if not math.isfinite(loss) and trainer.stopped is None:
            trainer.stop(f"the loss of step {step} is {loss}")
