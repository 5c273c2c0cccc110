"""The progress bar, which tqdm draws: as a widget in notebooks, as text elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._optional import require
from ..trainer_type import Trainer
from .callback import Callback


class ProgressBar(Callback):
    """Show a progress bar over all steps, with the values of the last step and the last validation.

    Args:
        total: Total number of steps. None, the default, means unknown.

    Raises:
        ImportError: At the start of a fit, if tqdm is not installed.

    Example:
        >>> x = np.ones((8, 1), np.float32)
        >>> bar = mg.training.callbacks.ProgressBar()
        >>> history = mg.Trainer(mg.nn.Linear(1), "mse").fit(x, x, callbacks=[bar], progress=False)
        >>> history.epoch
        1
    """

    first_process_only = True

    def __init__(self, total: int | None = None) -> None:
        self.total = total
        self._bar: Any = None
        self._validation: dict[str, str] = {}

    def on_fit_begin(self, trainer: Trainer) -> None:
        tqdm = require("tqdm.auto", "train", "the progress bar (progress=False turns it off)")
        self._bar = tqdm.tqdm(total=self.total, unit="step")

    def on_step_end(self, trainer: Trainer, step: int, values: Mapping[str, float]) -> None:
        self._bar.update()
        shown = {name: f"{value:.4f}" for name, value in values.items()}
        self._bar.set_postfix(shown | self._validation, refresh=False)

    def on_epoch_end(self, trainer: Trainer, epoch: int, values: Mapping[str, float]) -> None:
        self._validation = {name: f"{value:.4f}" for name, value in values.items() if name.startswith("val_")}
        if self._validation:
            now = {name: f"{value:.4f}" for name, value in values.items()}
            self._bar.set_postfix(now, refresh=True)

    def on_fit_end(self, trainer: Trainer) -> None:
        if self._bar is not None:
            self._bar.close()
