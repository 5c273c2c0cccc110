"""ChangedSettings: notices changes to settings of a trainer, its model, and its optimizers after the step was built.

A step is built from the attributes of the trainer, its modules, and its optimizers. When one of them has changed, such
as a dropout rate, a weight decay, or which layers are frozen, the builder builds the step again with the same variables
before the next step, evaluation, or checkpoint. If building fails, the previously built step is kept, and the error is
raised each time until the setting is corrected.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np

from .._core import ConstantData, Operation, Tensor
from .._tracking import Snapshot, changes
from ..graph import Graph
from ..model import Model
from ..nn.module import Module
from ..nn.moving import follow_parts
from ..nn.parts import Part
from ..optim import Optimizer
from .program import Program
from .settings import Settings

REMEMBERED = 8
"""Number of previous programs to keep, for callers that alternate between settings, such as frozen layers."""
MANY = 32
"""Number of rebuilds after which a warning advises changing settings less often."""


@dataclass(eq=False)
class PreviousProgram:
    """The program that a trainer has built for one combination of settings."""

    program: Program
    settings: Snapshot
    signature: list[Any] | None
    used: set[Tensor] | None
    """Variables that the operations use, or None if all of them do."""
    averages: int
    """Number of moving averages that existed. Weights frozen at that time may have got one since."""


class ChangedSettings:
    """The settings on which the built operations depend, and the programs built for earlier settings."""

    def __init__(self) -> None:
        self.known: Snapshot | None = None
        """The settings for which the operations were built, or None before the first build."""
        self.previous: list[PreviousProgram] = []
        self.signature: list[Any] | None = None
        self.rebuilds = 0
        self.seen = 0
        """Number of the latest change that has been compared."""
        self._parts: WeakSet[Part] = WeakSet()  # Parts of the model that are built in its graph.
        self._irrelevant: set[tuple[int, str]] = set()  # Changed settings on which no operation depends.
        self._irrelevant_owners: list[Snapshot] = []  # Keeps the objects of these settings alive.

    @property
    def may_have_changed(self) -> bool:
        """Whether a setting may have changed since the last comparison. Reading this attribute is fast."""
        known = self.known
        return known is not None and (changes.latest != self.seen or known.altered_in_place())

    def snapshot(self, settings: Settings, optimizers: Iterable[Optimizer]) -> Snapshot:
        """Return the current settings of a trainer and of the optimizers of its steps."""
        model = settings.model
        taken = Snapshot([settings, *optimizers, settings.optimizer, model], self._irrelevant)
        if isinstance(model, Module):
            # Training mode is relative to the mode of the whole model; see `mode_of`.
            whole = model.training is not False
            for _, module in model.named_modules():
                mode = module.training
                taken.settings[id(module), "training"] = mode if isinstance(mode, Tensor) else bool(mode) or not whole
                # An instance may have the default of its class.
                for name in ("frozen", "precision", "passes_mask", "checkpointed"):
                    taken.settings[id(module), name] = getattr(module, name)
        return taken

    def record(self, settings: Settings, optimizers: Iterable[Optimizer], graph: Graph) -> None:
        """Record the current settings as those for which the operations were built."""
        self._follow_parts(settings.model, graph)
        self.seen = changes.latest
        self.known = self.snapshot(settings, optimizers)

    def compare(
        self, settings: Settings, optimizers: Iterable[Optimizer], graph: Graph
    ) -> tuple[Snapshot, set[tuple[int, str]], int]:
        """Return the current settings, those that have changed, and the number to pass to `compared`."""
        assert self.known is not None
        self._follow_parts(settings.model, graph)
        latest = changes.latest
        now = self.snapshot(settings, optimizers)
        return now, now.differences(self.known), latest

    def compared(self, latest: int) -> None:
        """Note that the operations now match the settings as they were at a change."""
        self.seen = latest

    def _follow_parts(self, model: Module | Model, graph: Graph) -> None:
        if isinstance(model, Module):
            follow_parts(model, graph, self._parts)

    def ignore(self, changed: set[tuple[int, str]], snapshots: Sequence[Snapshot]) -> None:
        """Ignore further changes of settings on which no operation depends."""
        self._irrelevant.update(changed)
        self._irrelevant_owners += snapshots

    def rebuilt(self, names: Sequence[str]) -> None:
        """Count a rebuild, after which all settings count again, and warn once there are many."""
        self.rebuilds += 1
        if self.rebuilds == MANY:
            warnings.warn(
                f"the training step has been built {MANY} times because settings changed, last {', '.join(names)}; "
                "each time it is compiled again and the graph grows: change settings less often, or pass values that "
                "change at each step as inputs",
                stacklevel=4,
            )

    def count_all_settings(self) -> None:
        """Stop ignoring settings."""
        self._irrelevant.clear()
        self._irrelevant_owners.clear()

    def keep(self, previous: PreviousProgram) -> None:
        """Keep a program for a later return to its settings."""
        self.previous.append(previous)
        del self.previous[:-REMEMBERED]

    def take_previous(self, now: Snapshot, averages: int) -> PreviousProgram | None:
        """Return the kept program for the given settings and number of moving averages, no longer keeping it."""
        for previous in self.previous:
            if previous.averages == averages and not now.differences(previous.settings):
                self.previous.remove(previous)
                return previous
        return None


def signature_of(operations: Sequence[Operation]) -> list[Any]:
    """Return a description of operations that does not depend on when they were created."""
    numbers: dict[Tensor, int] = {}
    places: dict[int, int] = {}

    def number(tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            numbers[tensor] = len(numbers)

    def described(operation: Operation) -> Any:
        places[operation.id] = len(places)
        inputs = [numbers.get(x, x.name) for x in operation.inputs]
        after = [places.get(other.id, -1 - other.id) for other in operation.control_dependencies]
        attributes = {name: _comparable(value) for name, value in operation.attributes.items()}
        blocks = []
        for block in operation.blocks:
            number(block.arguments)
            blocks.append([described(inner) for inner in block.operations])
        number(operation.outputs)
        return operation.kind, inputs, after, attributes, blocks

    return [described(operation) for operation in operations]


def _comparable(value: Any) -> Any:
    if isinstance(value, ConstantData):
        return str(value.dtype), tuple(value.shape), np.asarray(value.numpy()).tobytes()
    return str(value)


def variables_of(operations: Sequence[Operation]) -> set[Tensor]:
    """Return the variables that operations and their blocks use."""
    found: set[Tensor] = set()
    for operation in operations:
        if operation.kind == "variable":
            found.update(operation.outputs)
        found.update(x for x in operation.inputs if x.operation.kind == "variable")
        for block in operation.blocks:
            found |= variables_of(block.operations)
    return found
