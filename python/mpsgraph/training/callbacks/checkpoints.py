"""Callbacks that save checkpoints, from which `Trainer.load` continues training bit for bit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from ..._checks import Size, checked
from ...errors import GraphError
from ..roles import SavesWithOptions, Trains
from .callback import Callback, Watching


class BestCheckpoint(Watching):
    """Save the trainer after each epoch whose monitored value is the best so far.

    Corresponds to Keras's ModelCheckpoint(save_best_only=True).

    Args:
        path: Path of the checkpoint, which may contain {epoch} and {value}.
        monitor: Name of the value to monitor. Defaults to "val_loss".
        mode: "min", "max", or "auto", the default, which means "min" for losses, errors, and perplexity, and "max"
            otherwise.

    Raises:
        GraphError: At the end of an epoch, if the epoch has no value named `monitor`.

    Example:
        >>> import tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "best.safetensors")
        >>> x = np.ones((8, 1), np.float32)
        >>> best = mg.training.callbacks.BestCheckpoint(path, "loss")
        >>> _ = mg.Trainer(mg.nn.Linear(1), "mse").fit(x, x, epochs=2, callbacks=[best], progress=False)
        >>> trainer = mg.Trainer(mg.nn.Linear(1), "mse")
        >>> _ = trainer.load(path)
        >>> trainer.step
        2
    """

    saves = True

    def __init__(
        self, path: str | os.PathLike[str], monitor: str = "val_loss", mode: Literal["auto", "min", "max"] = "auto"
    ) -> None:
        super().__init__(monitor, mode)
        self.path = os.fspath(path)

    def on_epoch_end(self, trainer: Trains, epoch: int, values: Mapping[str, float]) -> None:
        value = self.value_of(values)
        if self.improves(value):
            trainer.save(self.path.format(epoch=epoch, value=value))


class PeriodicCheckpoint(Callback):
    """Save the trainer every few epochs or steps, and optionally keep only the latest files.

    A checkpoint saved at the end of a step includes the updates of up to two later steps that have already started.

    Args:
        path: Path of the checkpoints, which may contain {step} and {epoch}, and must contain one of them if keep is
            given.
        every_epochs: Number of epochs between checkpoints. Defaults to 1 if every_steps is not given.
        every_steps: Number of steps between checkpoints, instead of epochs.
        keep: Number of files to keep. None, the default, keeps all.
        frozen: Whether to include frozen parameters; see Trainer.save. Defaults to True.
        sharded: Whether to write folders with a file of each process; see Trainer.save. Defaults to False.
        background: Whether to write while training continues; see Trainer.save. Defaults to False.

    Raises:
        GraphError: If both every_epochs and every_steps are given, or if keep is given and path contains neither {step}
            nor {epoch}.

    Example:
        >>> import tempfile, os
        >>> folder = tempfile.mkdtemp()
        >>> x = np.ones((8, 1), np.float32)
        >>> save = mg.training.callbacks.PeriodicCheckpoint(os.path.join(folder, "{epoch}.safetensors"), keep=2)
        >>> _ = mg.Trainer(mg.nn.Linear(1), "mse").fit(x, x, epochs=4, callbacks=[save], progress=False)
        >>> sorted(os.listdir(folder))
        ['2.safetensors', '3.safetensors']
    """

    saves = True

    @checked
    def __init__(
        self,
        path: str | os.PathLike[str],
        every_epochs: Size | None = None,
        every_steps: Size | None = None,
        keep: Size | None = None,
        frozen: bool = True,
        sharded: bool = False,
        background: bool = False,
    ) -> None:
        self.path, self.keep = os.fspath(path), keep
        options = {"frozen": (frozen, True), "sharded": (sharded, False), "background": (background, False)}
        self._options = {name: value for name, (value, default) in options.items() if value != default}
        if every_epochs is not None and every_steps is not None:
            raise GraphError("PeriodicCheckpoint: pass only one of every_epochs and every_steps")
        if keep is not None and "{epoch" not in self.path and "{step" not in self.path:
            raise GraphError(
                "PeriodicCheckpoint: with keep, path must contain {epoch} or {step}, so that each file has a different "
                "name"
            )
        self.every_epochs = 1 if every_steps is None and every_epochs is None else every_epochs
        self.every_steps = every_steps
        self._written: list[str] = []

    def state_dict(self) -> dict[str, Any]:
        return {"written": self._written}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._written = list(state["written"])

    def on_step_end(self, trainer: Trains, step: int, values: Mapping[str, float]) -> None:
        if self.every_steps and step % self.every_steps == 0:
            self._save(trainer, trainer.history.epoch)

    def on_epoch_end(self, trainer: Trains, epoch: int, values: Mapping[str, float]) -> None:
        if self.every_epochs and (epoch + 1) % self.every_epochs == 0:
            self._save(trainer, epoch)

    def _save(self, trainer: Trains, epoch: int) -> None:
        trainer.state.writer.wait()
        self._delete_old()
        path = self.path.format(step=trainer.step, epoch=epoch)
        self._written = [*(p for p in self._written if p != path), path]
        # A package has no options, so the trainer is a Trainer if there are any.
        cast("SavesWithOptions", trainer).save(path, **self._options)
        if "background" not in self._options:
            self._delete_old()

    def on_fit_end(self, trainer: Trains) -> None:
        trainer.state.writer.wait()
        self._delete_old()

    def _delete_old(self) -> None:
        """Delete the oldest of the complete checkpoints. All processes try to, so a file may be missing."""
        while self.keep is not None and len(self._written) > self.keep:
            path = Path(self._written.pop(0))
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
