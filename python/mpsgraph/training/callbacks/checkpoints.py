"""Callbacks that save checkpoints, from which `Trainer.load` continues training bit for bit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from ..._checks import Size, checked
from ...errors import GraphError
from ..roles import SavesWithoutFrozen, Trains
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
        >>> trainer.load(path)
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
    ) -> None:
        self.path, self.keep, self.frozen = os.fspath(path), keep, frozen
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
        path = self.path.format(step=trainer.step, epoch=epoch)
        self._written = [*(p for p in self._written if p != path), path]
        if self.frozen:
            trainer.save(path)
        else:  # A package cannot leave frozen parameters out, so the trainer is a Trainer.
            cast("SavesWithoutFrozen", trainer).save(path, frozen=False)
        while self.keep is not None and len(self._written) > self.keep:
            Path(self._written.pop(0)).unlink(missing_ok=True)
