"""Built: the operations for batches of one form, which are placeholders, the training step, and the evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._core import Operation, Tensor
from ..distributed.weighing import Weighing
from ..optim import Optimizer
from .objective import Part, Term
from .step_result import StepResult
from .structure import leaves


@dataclass
class Minimized:
    """One optimizer's part of a step: the placeholder of its learning rates, and its updates and accumulations."""

    optimizer: Optimizer
    rate: Tensor
    updates: list[Operation]
    accumulating: list[Operation] = field(default_factory=list)
    scale: Tensor | None = None
    """Factor by which the loss is multiplied if loss scaling is used."""


@dataclass
class Built:
    """Operations built for batches with one structure, dtypes, and ranks."""

    inputs: Any
    labels: Any
    weights: Any
    targets: list[Tensor] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    """Model outputs that accumulated metrics need, fetched after the targets."""
    parts: list[Part] = field(default_factory=list)
    minimized: list[Minimized] = field(default_factory=list)
    evaluation: list[Term] = field(default_factory=list)
    evaluated: list[Part] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)
    """The loss and metrics of the step, unless it is custom and does not use them."""
    counted: Tensor | None = None
    """Number of items over which the loss of a batch is averaged, if these are not the samples; see Term.counted."""
    results: dict[str, Tensor] = field(default_factory=dict)
    """Loss and metrics, keyed by name."""
    counts: dict[str, Tensor] = field(default_factory=dict)
    """For each result that is not a mean over samples, the number of items that it is averaged over, keyed by name."""
    shares: dict[str, float] = field(default_factory=dict)
    """Factors of the losses in the total loss, keyed by name, if the losses count different labels."""
    weighings: list[Weighing] = field(default_factory=list)
    described: dict[str, Any] = field(default_factory=dict)
    """Forms of the batches, as JSON types."""
    others: list[tuple[Any, list[Term]]] = field(default_factory=list)
    """Losses and other metrics that evaluations have requested, with the key of these metrics."""

    @property
    def fetched(self) -> list[Tensor]:
        """The tensors whose values a step returns, in order."""
        return [*self.targets, *self.outputs, *dict.fromkeys(self.counts.values())]

    def counts_in(self, result: StepResult) -> dict[str, float]:
        """Return the number of items that each result averages, keyed by name, except for means over samples."""
        if not self.counts:
            return {}
        found = dict(zip(dict.fromkeys(self.counts.values()), result.outputs[len(self.outputs) :], strict=True))
        return {name: float(found[count]) for name, count in self.counts.items()}

    @property
    def placeholders(self) -> list[Tensor]:
        """Placeholders in the order in which the arrays of a batch are fed."""
        return leaves((self.inputs, self.labels, self.weights))

    def operations(self, applying: bool) -> list[Operation]:
        """Return the target operations of a step that applies gradients, or accumulates them if `applying` is False."""
        kinds = [m.updates if applying else m.accumulating for m in self.minimized]
        kinds += [w.always + (w.gives if applying else []) for w in self.weighings]
        return [operation for kind in kinds for operation in kind]
