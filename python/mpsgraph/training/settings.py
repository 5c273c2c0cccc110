"""Changes to settings of a trainer, its model, and its optimizers after the step was built.

A step is built from the attributes of the trainer, its modules, and its optimizers. When one of them has changed, such
as a dropout rate, a weight decay, or which layers are frozen, the step is built again with the same variables before
the next step, evaluation, or checkpoint. If building fails, the previously built step is kept, and the error is raised
each time until the setting is corrected. Assigning a setting that cannot change raises an error.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._checks import is_number
from .._core import ConstantData, Device, Operation, Tensor
from .._display import shown
from .._tracking import Snapshot, changes
from ..errors import GraphError
from ..nn.checkpointing import checked_layers, layers_to_checkpoint
from ..nn.module import Module
from ..nn.moving import follow_parts
from ..optim import Optimizer, optimizer_named
from ..optim.low_precision import checked_way
from .history import History
from .objective import Objective
from .trainer_type import Trainer

KEPT = 8
"""Number of previously built steps to keep, for programs that alternate between settings, such as frozen layers."""
MANY = 32
"""Number of rebuilds after which a warning advises changing settings less often."""

UNWATCHED = frozenset(("step", "history", "stopped", "learning_rate", "metrics", "loss", "device", "check_finite"))
"""Attributes of a trainer on which built operations do not depend."""


class Everything:
    """A container that contains every value."""

    def __contains__(self, value: object) -> bool:
        return True


class ReadOnly(dict[str, Any]):
    """The metrics of a trainer, which are changed by assigning new ones to `Trainer.metrics`."""

    def _refuse(self, *arguments: Any, **options: Any) -> Any:
        raise GraphError("Trainer.metrics cannot be changed in place: assign a new list of metrics to trainer.metrics")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


@dataclass
class BuiltStep:
    """The operations that a trainer has built for one combination of settings."""

    settings: Snapshot
    parts: dict[str, Any]
    """Attributes of the trainer that refer to the built operations."""
    signature: list[Any] | None
    used: set[Tensor] | None
    """Variables that the operations use, or None if all of them do."""
    averages: int
    """Number of moving averages that existed. Weights frozen at that time may have got one since."""


PARTS = (
    *("_inputs", "_prediction", "_prediction_of", "_prediction_inputs", "_prediction_losses", "_added", "_builts"),
    *("_last_step", "_last_rates", "metrics"),
)


def snapshot(trainer: Trainer) -> Snapshot:
    """Return the current settings of a trainer."""
    outer = [trainer, *(m.optimizer for built in trainer._builts.values() for m in built.minimized)]
    taken = Snapshot([*outer, trainer.optimizer, trainer.model], trainer._irrelevant)
    if isinstance(trainer.model, Module):
        # Training mode is relative to the mode of the whole model; see `mode_of`.
        whole = trainer.model.training is not False
        for _, module in trainer.model.named_modules():
            mode = module.training
            taken.settings[id(module), "training"] = mode if isinstance(mode, Tensor) else bool(mode) or not whole
            for name in (
                "frozen",
                "precision",
                "passes_mask",
                "checkpointed",
            ):  # An instance may have the default of its class.
                taken.settings[id(module), name] = getattr(module, name)
    return taken


def remember(trainer: Trainer, start: int) -> None:
    """Record the settings, and the variables used by the operations that were built since operation `start`."""
    if trainer._used is not None:
        trainer.__dict__["_used"] = trainer._used | _variables_of(_operations_since(trainer, start))
    if isinstance(trainer.model, Module):
        follow_parts(trainer.model, trainer.graph, trainer._parts)
    trainer.__dict__["_changes_seen"] = changes.latest
    trainer.__dict__["_settings"] = snapshot(trainer)


def follow(trainer: Trainer) -> None:
    """Build the operations again if a setting has changed since they were built."""
    before = trainer._settings
    if isinstance(trainer.model, Module):
        follow_parts(trainer.model, trainer.graph, trainer._parts)
    latest = changes.latest
    now = snapshot(trainer)
    changed = now.differences(before)
    if changed:
        _change(trainer, before, now, changed)
    else:
        trainer.__dict__["_settings"] = now
    trainer.__dict__["_changes_seen"] = latest


def _change(trainer: Trainer, before: Snapshot, now: Snapshot, changed: set[tuple[int, str]]) -> None:
    if trainer._used is None:
        trainer.__dict__["_used"] = set(trainer.graph.variables)
    old = _taken(trainer, before)
    for kept in trainer._kept:
        if kept.averages == len(trainer._averages) and not now.differences(kept.settings):
            trainer._kept.remove(kept)
            _keep(trainer, old)
            _put_back(trainer, kept)
            trainer.__dict__["_settings"] = now
            return
    start = trainer.graph.operation_count
    specs, kept_steps = list(trainer._specs), list(trainer._kept)
    described = [built.described for built in trainer._builts.values()]
    with trainer._undone_by_errors():
        trainer._forget()
        trainer.__dict__["_last_rates"] = None
        if isinstance(trainer.model, Module):
            trainer.model._name_children()
        for each in described:
            trainer._build_again(each)
    # Loading a checkpoint builds each form once, whatever the settings were.
    trainer.__dict__.update(_specs=specs, _kept=kept_steps)
    operations = _operations_since(trainer, start)
    signature = _signature(operations) if described else None
    if signature is not None and signature == old.signature:
        # The operations do not depend on the changed attribute, which may be a list that the program appends to.
        _put_back(trainer, old)
        trainer._irrelevant.update(changed)
        trainer._irrelevant_owners.append((before, now))
        trainer.__dict__["_settings"] = snapshot(trainer)
        return
    trainer._irrelevant.clear()
    trainer._irrelevant_owners.clear()
    trainer.__dict__["_signature"] = signature
    trainer.__dict__["_used"] = _variables_of(operations) if described else None
    _keep(trainer, old)
    trainer.__dict__["_settings"] = snapshot(trainer)
    trainer._restore_dormant()
    trainer.__dict__["_rebuilds"] += 1
    if trainer._rebuilds == MANY:
        warnings.warn(
            f"the training step has been built {MANY} times because settings changed, last "
            f"{', '.join(now.names(changed))}; each time it is compiled again and the graph grows: change settings "
            "less often, or pass values that change at each step as inputs",
            stacklevel=4,
        )


def _taken(trainer: Trainer, settings: Snapshot) -> BuiltStep:
    parts = {name: trainer.__dict__[name] for name in PARTS}
    return BuiltStep(settings, parts, trainer._signature, trainer._used, len(trainer._averages))


def _keep(trainer: Trainer, step: BuiltStep) -> None:
    trainer._kept.append(step)
    del trainer._kept[:-KEPT]


def _put_back(trainer: Trainer, step: BuiltStep) -> None:
    trainer.__dict__.update(step.parts)
    trainer.__dict__.update(_signature=step.signature, _used=step.used)


def _operations_since(trainer: Trainer, start: int) -> list[Operation]:
    return [operation for operation in trainer.graph.operations if operation.id >= start]


def _signature(operations: Sequence[Operation]) -> list[Any]:
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


def _variables_of(operations: Sequence[Operation]) -> set[Tensor]:
    """Return the variables that operations and their blocks use."""
    found: set[Tensor] = set()
    for operation in operations:
        if operation.kind == "variable":
            found.update(operation.outputs)
        found.update(x for x in operation.inputs if x.operation.kind == "variable")
        for block in operation.blocks:
            found |= _variables_of(block.operations)
    return found


# --- assignments to attributes of a trainer ---------------------------------------------------------------------------


def assigned(trainer: Trainer, name: str, value: Any) -> Any:
    """Return the value to store in an attribute of a trainer. Raise an error if it is invalid or cannot change."""
    if name in _FIXED:
        if trainer.__dict__.get(name) is value:
            return value
        raise GraphError(
            f"Trainer.{name} cannot be changed: create a new Trainer for the model, which continues with the same "
            "variables"
        )
    check = _CHECKS.get(name)
    return value if check is None else check(trainer, value)


def _optimizer(trainer: Trainer, value: Any) -> Any:
    if not isinstance(value, (str, Optimizer)):
        raise GraphError(
            f"Trainer.optimizer must be an optimizer of mpsgraph.optim, such as Adam(1e-3), or the name of one, got "
            f"{shown(value)}"
        )
    return optimizer_named(value)


def _loss(trainer: Trainer, value: Any) -> Any:
    return _new_objective(trainer, value, trainer.objective.loss_weights, trainer.objective.asked).loss


def _metrics(trainer: Trainer, value: Any) -> Any:
    if value is not None and (not isinstance(value, (Sequence, Mapping)) or isinstance(value, str)):
        raise GraphError(
            "Trainer.metrics must be a list of metrics, a dict of lists keyed by output name, or None, got "
            f"{shown(value)}"
        )
    objective = _new_objective(trainer, trainer.objective.loss, trainer.objective.loss_weights, value)
    return ReadOnly(objective.metrics)


def _new_objective(trainer: Trainer, loss: Any, weights: Any, metrics: Any) -> Objective:
    objective = Objective(loss, weights, metrics)
    trainer.__dict__.update(objective=objective, loss=objective.loss, metrics=ReadOnly(objective.metrics))
    return objective


def _loss_weights(trainer: Trainer, value: Any) -> Any:
    if value is not None and (not isinstance(value, (Sequence, Mapping)) or isinstance(value, str)):
        raise GraphError(f"Trainer.loss_weights must be a dict, a sequence of numbers, or None, got {shown(value)}")
    _new_objective(trainer, trainer.objective.loss, value, trainer.objective.asked)
    return value


def _checkpoint_layers(trainer: Trainer, value: Any) -> Any:
    layers = checked_layers(value)
    if isinstance(trainer.model, Module):
        layers_to_checkpoint(trainer.model, layers)
    elif layers:
        raise GraphError("Trainer: checkpoint_layers must be False for an imported model, which has no layers")
    return layers


def _low_precision_weights(trainer: Trainer, value: Any) -> Any:
    return None if value is None else checked_way("Trainer", value)


def _accumulation(trainer: Trainer, value: Any) -> Any:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise GraphError(f"Trainer.gradient_accumulation_steps must be an int of at least 1, got {shown(value)}")
    if value != trainer.accumulation and (trainer.step or trainer._builts):
        raise GraphError(
            "Trainer.gradient_accumulation_steps cannot be changed after the first batch, because gradients of earlier "
            "batches may be accumulated, and schedules count updates: create a new Trainer for the model, which "
            "continues with the same variables"
        )
    return value


def _ema_decay(trainer: Trainer, value: Any) -> Any:
    if value is not None and not (is_number(value) and 0 <= value < 1):
        raise GraphError(f"Trainer.ema_decay must be a number in [0, 1), or None, got {shown(value)}")
    if value is None:
        trainer._forget_averages()
    return value


def _check_finite(trainer: Trainer, value: Any) -> Any:
    if not isinstance(value, bool):
        raise GraphError(f"Trainer.check_finite must be True or False, got {shown(value)}")
    if value and (trainer.engine is not None or trainer._partnership is not None):
        raise GraphError("Trainer.check_finite cannot be combined with an engine or distributed training")
    return value


def _device(trainer: Trainer, value: Any) -> Any:
    if value is not None and not isinstance(value, (str, Device)):
        raise GraphError(f"Trainer.device must be a device, its name, or None, got {shown(value)}")
    trainer._move_to(value)
    return value


def _history(trainer: Trainer, value: Any) -> Any:
    if not isinstance(value, History):
        raise GraphError(f"Trainer.history must be a History, got {shown(value)}")
    return value


_FIXED = frozenset(
    (
        *("model", "network", "graph", "objective", "seed", "dtype", "engine", "distributed"),
        *("precision", "precision_error", "precision_choices"),
    )
)
_CHECKS: dict[str, Callable[[Trainer, Any], Any]] = {
    "optimizer": _optimizer,
    "loss": _loss,
    "metrics": _metrics,
    "loss_weights": _loss_weights,
    "accumulation": _accumulation,
    "ema_decay": _ema_decay,
    "check_finite": _check_finite,
    "checkpoint_layers": _checkpoint_layers,
    "low_precision_weights": _low_precision_weights,
    "device": _device,
    "history": _history,
}
