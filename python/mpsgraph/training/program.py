"""Program: the operations that a trainer has built for one combination of settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .._core import Executable, Tensor
from ..nn.metrics import Metric
from .engine import Prepared
from .step import Built


class LastStep(NamedTuple):
    """The last step that was made, which the next one repeats if its batch has the same shapes."""

    key: Any
    """Shapes of the batch, and the kind of the step."""
    executable: Executable | Prepared
    built: Built


@dataclass(eq=False)
class Program:
    """The operations that a trainer has built for one combination of settings."""

    inputs: Any = None
    """Placeholders of the inputs of batches."""
    prediction_inputs: Any = None
    """Placeholders for predictions, which are those of batches unless the step is custom."""
    prediction: Any = None
    """Outputs of the model in inference mode."""
    prediction_of: Any = None
    """Inputs for which `prediction` was built."""
    prediction_losses: list[Tensor] = field(default_factory=list)
    """Losses that modules added to the prediction."""
    steps: dict[tuple[bool, bool], Built] = field(default_factory=dict)
    """Builds, keyed by whether the batches have labels and whether they have weights."""
    last_step: LastStep | None = None
    rates: tuple[list[float], list[np.ndarray]] | None = None
    """Learning rates that were fed to the last step, and the arrays that hold them."""
    metrics: Mapping[str, Metric] | None = None
    """Metrics of the single output, which may depend on its labels, or None before the first build."""
    predictors: dict[Any, tuple[Tensor, Executable]] = field(default_factory=dict)
    """Executables of predictions of single arrays, which skip all checks, keyed by shape, dtype, and batch size."""

    @property
    def last_built(self) -> Built | None:
        """The operations of the last step, or those built last."""
        if self.last_step is not None:
            return self.last_step.built
        return next(reversed(self.steps.values()), None)
