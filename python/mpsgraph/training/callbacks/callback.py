"""Callback: the protocol, and what those that watch one number share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from ..._checks import checked
from ...errors import GraphError
from ..trainer_type import Trainer


class Callback:
    """What is told of a fit; override what you need.

    `trainer.stop(reason)` ends the fit. `values` are by name: "loss", metrics, and behind an epoch "val_loss" and
    others of the validation. What `state_dict` gives is saved with the trainer, and `load_state_dict` gets it in the
    first fit behind `Trainer.load`, where a callback of the same class is given.

    >>> class Shout(mg.training.callbacks.Callback):
    ...     def on_epoch_end(self, trainer, epoch, values):
    ...         print("epoch", epoch, sorted(values))
    >>> x = np.ones((8, 1), np.float32)
    >>> _ = mg.Trainer(mg.nn.Linear(1), "mse").fit(x, x, callbacks=[Shout()], progress=False)
    epoch 0 ['loss']
    """

    saves = False
    """Does it save the trainer? Such are told last, so that what they save has what the others made of an epoch."""

    first_process_only = False
    """Of several processes that train together, is only the first told? For those that write files or print; not for
    those that call the trainer."""

    def state_dict(self) -> dict[str, Any]:
        """What the callback has to know after a resume: numbers, strings, arrays, and lists and dicts of them."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes what state_dict gave, behind on_fit_begin; a tuple has become a list."""

    def on_fit_begin(self, trainer: Trainer) -> None:
        """Before the first epoch of a fit."""

    def on_epoch_begin(self, trainer: Trainer, epoch: int) -> None:
        """Before the first step of an epoch; epochs count from 0, over all fits of the trainer."""

    def on_step_end(self, trainer: Trainer, step: int, values: Mapping[str, float]) -> None:
        """When a step's values are known; steps count from 1."""

    def on_epoch_end(self, trainer: Trainer, epoch: int, values: Mapping[str, float]) -> None:
        """Behind an epoch and its validation; values are the means over its steps, and those of the validation."""

    def on_fit_end(self, trainer: Trainer) -> None:
        """Behind the last epoch, also where an error ends the fit."""


class Watching(Callback):
    """The base of those that watch one of an epoch's values, and whether it gets better."""

    @checked
    def __init__(self, monitor: str = "val_loss", mode: Literal["auto", "min", "max"] = "auto", min_delta: float = 0.0):
        if not 0 <= min_delta < math.inf:
            raise GraphError(f"{type(self).__name__}: min_delta must be at least 0, got {min_delta}")
        lower = "loss" in monitor or "error" in monitor or "perplexity" in monitor
        self.monitor, self.min_delta = monitor, min_delta
        self.mode = ("min" if lower else "max") if mode == "auto" else mode
        self.best: float | None = None

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best = state["best"]

    def value_of(self, values: Mapping[str, float]) -> float:
        """The watched number. GraphError that lists the names."""
        if self.monitor not in values:
            raise GraphError(
                f"{type(self).__name__} watches '{self.monitor}', an epoch has {', '.join(values)}: give fit "
                "validation data, or another monitor"
            )
        return values[self.monitor]

    def improves(self, value: float) -> bool:
        """Is it better than the best so far, by min_delta at least? Then it is the best from now on."""
        if math.isnan(value):
            return False
        gain = math.inf if self.best is None else (self.best - value if self.mode == "min" else value - self.best)
        if gain > self.min_delta:
            self.best = value
            return True
        return False
