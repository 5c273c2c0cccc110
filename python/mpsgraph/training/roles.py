"""Protocols of a trainer and its builder, as fits, evaluations, and callbacks use them.

`Trainer`, `TrainableModel`, which is the package of a trainer, and `mpsgraph.torch.Trainer` implement them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from .._core import NDArray, Tensor
from .batch import Batch
from .history import History
from .objective import Objective, Part, Term
from .sizes import Sizes
from .state import TrainingState
from .step import Built
from .step_result import StepResult


class Runs(Protocol):
    """Protocol of a graph on a device or an engine."""

    def run(self, feeds: dict[Tensor, Any], targets: list[Tensor]) -> list[NDArray]:
        """Compute targets for a batch."""


class Evaluates(Protocol):
    """Protocol of builders: the operations with which a model is evaluated."""

    sizes: Sizes

    @property
    def last_built(self) -> Built | None:
        """The operations of the last step."""

    def all_built(self) -> list[Built]:
        """Return the operations built for the different forms of batches."""

    def require_model(self) -> None:
        """Raise an error if the model cannot be used."""

    def follow_settings(self) -> None:
        """Build the operations again if a setting has changed."""

    def undone_by_errors(self) -> AbstractContextManager[None]:
        """Within a `with` block, undo what was built if an error occurs."""

    def converted(self, batch: Batch) -> Batch:
        """Return a batch in the dtypes of the model."""

    def built_for(self, batch: Batch) -> Built:
        """Return the operations for a batch."""

    def evaluation_of(self, built: Built, objective: Objective | None = None) -> tuple[list[Term], list[Part]]:
        """Return the losses and metrics in inference mode."""

    def prediction_inputs_for(self, inputs: Any) -> Any:
        """Return placeholders for the inputs of predictions."""

    def inference(self, inputs: Any) -> Any:
        """Return the outputs of the model in inference mode."""

    def remember_predictor(self, inputs: np.ndarray, placeholder: Tensor, output: Tensor, batch_size: int) -> None:
        """Keep the executable for a single array of inputs."""

    def runner(self) -> Runs:
        """Return the object that runs the graph."""


class SavesWithOptions(Protocol):
    """Protocol of trainers that can leave out frozen parameters, and write shards and in the background."""

    def save(
        self, path: str | os.PathLike[str], *, frozen: bool = True, sharded: bool = False, background: bool = False
    ) -> None:
        """Write a checkpoint; see Trainer.save."""


class Trains(Protocol):
    """Protocol of trainers, which callbacks receive: a Trainer, a TrainableModel, or a trainer of PyTorch modules."""

    stopped: str | None
    history: History

    @property
    def state(self) -> TrainingState:
        """The state of training."""

    @property
    def builder(self) -> Evaluates:
        """The builder of the operations."""

    @property
    def step(self) -> int:
        """Number of training steps made."""

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next step."""

    @property
    def optimizer(self) -> Any:
        """The optimizer. A package has none, and raises UnsupportedError."""

    def train_step(self, x: Any, y: Any = None, sample_weight: Any = None, /, *, copy: bool = False) -> StepResult:
        """Train on one batch."""

    def evaluate(self, data: Any) -> dict[str, float]:
        """Return the mean loss and metrics over data."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint, or the package."""

    def weights(self) -> dict[str, np.ndarray]:
        """Return copies of the values of the model's parameters and buffers."""

    def set_weights(self, values: Mapping[str, np.ndarray]) -> None:
        """Set the values of the model's parameters and buffers."""

    def wait(self) -> None:
        """Wait for all steps that have been started."""

    def stop(self, reason: str = "asked to") -> None:
        """Stop the current fit after the current step."""
