"""Settings: the protocol of a trainer's public attributes from which the operations of a step are built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from .._core import DType, Tensor
from ..model import Model
from ..nn.module import Module
from ..optim import Optimizer
from .objective import Objective


class Settings(Protocol):
    """Protocol of a trainer's settings; see Trainer."""

    model: Module | Model
    objective: Objective
    optimizer: Optimizer
    dtype: DType
    precision: str
    precision_error: float
    ema_decay: float | None
    checkpoint_layers: bool | tuple[str, ...]
    low_precision_weights: str | None
    check_finite: bool

    def training_step(self, inputs: Any, labels: Any, weights: Any = None) -> Mapping[str, Tensor]:
        """Build a training step; see Trainer.training_step."""
