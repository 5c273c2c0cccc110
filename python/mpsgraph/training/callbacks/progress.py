"""One line per epoch with its results and, on terminals and in notebooks, a bar over the steps of the current epoch."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from numbers import Number
from typing import Any

from ..roles import Trains
from .callback import Callback


class ProgressBar(Callback):
    """Print a line at the end of each epoch: its number, steps, time, mean results, and validation results.

    On terminals and in notebooks, a bar of tqdm shows the steps within the epoch, if tqdm is installed. Output to files
    and in continuous integration consists of these lines only.

    Args:
        total: Total number of steps. None, the default, means unknown.
        epochs: Number of epochs of the fit. None, the default, means unknown.
        steps: Number of steps of an epoch. None, the default, means unknown.

    Example:
        >>> x = np.ones((8, 1), np.float32)
        >>> trainer = mg.Trainer(mg.nn.Linear(1, weight_initialiser=mg.nn.initialisers.ones), "mse")
        >>> history = trainer.fit(x, x, epochs=2)   # doctest: +ELLIPSIS
        epoch 1/2 - 1 step - ...s - loss: 0
        epoch 2/2 - 1 step - ...s - loss: 0
    """

    first_process_only = True

    def __init__(self, total: int | None = None, *, epochs: int | None = None, steps: int | None = None) -> None:
        self.total, self.epochs, self.steps = total, epochs, steps
        self._bar: Any = None
        self._first = self._made = self._all = 0
        self._began = 0.0
        self._last: Mapping[str, float] = {}

    def on_fit_begin(self, trainer: Trains) -> None:
        self._first, self._made, self._all = trainer.history.epoch, 0, 0
        self._began = time.perf_counter()

    def on_epoch_begin(self, trainer: Trains, epoch: int) -> None:
        self._made, self._began = 0, time.perf_counter()
        if _has_bars():
            from tqdm.auto import tqdm

            left = None if self.total is None else self.total - self._all
            length = self.steps if left is None else left if self.steps is None else min(self.steps, left)
            self._bar = tqdm(total=length, unit="step", leave=False, desc=self._name(epoch))

    def on_step_end(self, trainer: Trains, step: int, values: Mapping[str, float]) -> None:
        self._made, self._all, self._last = self._made + 1, self._all + 1, values
        if self._bar is not None:
            self._bar.update()
            self._bar.set_postfix({name: _number(value) for name, value in values.items()}, refresh=False)

    def on_epoch_end(self, trainer: Trains, epoch: int, values: Mapping[str, float]) -> None:
        self._close()
        self._print(self._name(epoch), values)
        self._made = 0

    def on_fit_end(self, trainer: Trains) -> None:
        self._close()
        if self._made:  # The fit ended within an epoch.
            self._print(f"{self._name(trainer.history.epoch)}, not completed", self._last)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _name(self, epoch: int) -> str:
        """Return the number of an epoch, counted from 1 over all fits, and that of the last epoch of the fit."""
        return f"epoch {epoch + 1}" + (f"/{self._first + self.epochs}" if self.epochs else "")

    def _print(self, name: str, values: Mapping[str, float]) -> None:
        seconds = time.perf_counter() - self._began
        parts = [name, f"{self._made} step{'' if self._made == 1 else 's'}", f"{seconds:.{1 if seconds > 1 else 2}f}s"]
        parts += [f"{key}: {_number(value)}" for key, value in values.items() if isinstance(value, Number)]
        print(" - ".join(parts), flush=True)


def _number(value: Any) -> str:
    return f"{value:.4g}"


def _has_bars() -> bool:
    """Return whether to show a bar: tqdm is installed, and the output is a terminal or a notebook."""
    if os.environ.get("CI") or not (_is_notebook() or getattr(sys.stderr, "isatty", bool)()):
        return False
    try:
        import tqdm.auto  # noqa: F401
    except ImportError:
        return False
    return True


def _is_notebook() -> bool:
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"
