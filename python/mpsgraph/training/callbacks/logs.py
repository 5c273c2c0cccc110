"""Callbacks that log training: CSV tables and TensorBoard events."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ..._checks import checked
from ..._optional import require
from ..roles import Trains
from .callback import Callback


class CSVLog(Callback):
    """Write a CSV file with a row for each epoch: epoch, step, learning_rate, and the epoch's values.

    If a later epoch has a value with a new name, the table is rewritten with an additional column. Rows are saved with
    the trainer: after Trainer.load, the table continues from the checkpoint.

    Args:
        path: Path of the file.
        append: Whether to keep the rows of an existing file. Defaults to False.

    Example:
        >>> import tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "log.csv")
        >>> x = np.ones((8, 1), np.float32)
        >>> trainer = mg.Trainer(mg.nn.Linear(1), "mse")
        >>> _ = trainer.fit(x, x, epochs=2, callbacks=[mg.training.callbacks.CSVLog(path)], progress=False)
        >>> with open(path) as file:
        ...     lines = file.read().splitlines()
        >>> lines[0], len(lines)
        ('epoch,step,learning_rate,loss', 3)
    """

    first_process_only = True

    @checked
    def __init__(self, path: str | os.PathLike[str], append: bool = False) -> None:
        self.path, self.append = os.fspath(path), append
        self._rows: list[dict[str, Any]] = []

    def state_dict(self) -> dict[str, Any]:
        return {"rows": self._rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._rows = [dict(row) for row in state["rows"]]
        self._write()

    def on_fit_begin(self, trainer: Trains) -> None:
        self._rows = []
        if self.append and os.path.exists(self.path):
            with open(self.path, newline="") as file:
                self._rows = list(csv.DictReader(file))
        self._write()

    def on_epoch_end(self, trainer: Trains, epoch: int, values: Mapping[str, float]) -> None:
        row = {"epoch": epoch, "step": trainer.step, "learning_rate": trainer.learning_rate}
        self._rows.append(row | dict(values))
        self._write()

    def _write(self) -> None:
        names = list(dict.fromkeys(name for row in self._rows for name in row)) or ["epoch", "step", "learning_rate"]
        with open(self.path, "w", newline="") as file:
            table = csv.DictWriter(file, names)
            table.writeheader()
            table.writerows(self._rows)


class TensorBoard(Callback):
    """Write events for TensorBoard with tensorboardX, or with PyTorch's writer if tensorboard is installed.

    The tags are "train/loss", "epoch/loss", "validation/loss", and "learning_rate". Events of an epoch and its
    validation are recorded at the number of steps made by the end of that epoch. If training continues from a
    checkpoint, TensorBoard hides events that the folder already contains for later steps.

    Args:
        folder: Folder of the events.
        every: Number of steps between "train" events. Defaults to 1.

    Raises:
        ImportError: At the start of a fit, if neither tensorboardX nor PyTorch's writer is available.

    Example:
        >>> import tempfile
        >>> log = mg.training.callbacks.TensorBoard(tempfile.mkdtemp())
        >>> isinstance(log, mg.training.callbacks.Callback)
        True
    """

    first_process_only = True

    @checked
    def __init__(self, folder: str | os.PathLike[str], every: int = 1) -> None:
        self.folder, self.every = os.fspath(folder), every
        self._writer: Any = None

    def on_fit_begin(self, trainer: Trains) -> None:
        self._writer = _writer(self.folder, trainer.step)

    def on_step_end(self, trainer: Trains, step: int, values: Mapping[str, float]) -> None:
        if step % self.every == 0:
            for name, value in values.items():
                self._writer.add_scalar(f"train/{name}", value, step)

    def on_epoch_end(self, trainer: Trains, epoch: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            tag = f"validation/{name[4:]}" if name.startswith("val_") else f"epoch/{name}"
            self._writer.add_scalar(tag, value, trainer.step)
        self._writer.add_scalar("learning_rate", trainer.learning_rate, trainer.step)
        self._writer.flush()

    def on_fit_end(self, trainer: Trains) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _writer(folder: str, step: int) -> Any:
    """Create a writer for the events after a step.

    The name of its file includes the step, so that writers created within the same second use different files.
    """
    try:
        module = import_module("torch.utils.tensorboard")
    except ImportError:
        module = require("tensorboardX", "tensorboard", "the TensorBoard callback")
    return module.SummaryWriter(folder, purge_step=step + 1 if step else None, filename_suffix=f".{step:09}")
