"""Assignments to attributes of a trainer: checks of the new values, and errors for attributes that cannot change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from .._checks import is_number
from .._core import Device
from .._display import shown
from ..errors import GraphError
from ..nn.checkpointing import checked_layers, layers_to_checkpoint
from ..nn.module import Module
from ..optim import Optimizer, optimizer_named
from ..optim.low_precision import checked_way
from .builder import StepBuilder
from .history import History
from .objective import Objective
from .settings import Settings
from .state import TrainingState


class Assignable(Settings, Protocol):
    """Protocol of the trainer whose attributes are assigned."""

    @property
    def state(self) -> TrainingState:
        """The state of training."""

    @property
    def builder(self) -> StepBuilder:
        """The builder of the operations."""


class ReadOnlyMetrics(dict[str, Any]):
    """The metrics of a trainer, which are changed by assigning new ones to `Trainer.metrics`."""

    def _refuse(self, *arguments: Any, **options: Any) -> Any:
        raise GraphError("Trainer.metrics cannot be changed in place: assign a new list of metrics to trainer.metrics")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


def assigned(trainer: Assignable, name: str, value: Any) -> Any:
    """Return the value to store in an attribute of a trainer. Raise an error if it is invalid or cannot change."""
    if name in _FIXED:
        if getattr(trainer, name) is value:
            return value
        raise GraphError(
            f"Trainer.{name} cannot be changed: create a new Trainer for the model, which continues with the same "
            "variables"
        )
    check = _CHECKS.get(name)
    return value if check is None else check(trainer, value)


def _optimizer(trainer: Assignable, value: Any) -> Any:
    if not isinstance(value, (str, Optimizer)):
        raise GraphError(
            f"Trainer.optimizer must be an optimizer of mpsgraph.optim, such as Adam(1e-3), or the name of one, got "
            f"{shown(value)}"
        )
    return optimizer_named(value)


def _loss(trainer: Assignable, value: Any) -> Any:
    return _new_objective(trainer, value, trainer.objective.loss_weights, trainer.objective.asked).loss


def _metrics(trainer: Assignable, value: Any) -> Any:
    if value is not None and (not isinstance(value, (Sequence, Mapping)) or isinstance(value, str)):
        raise GraphError(
            "Trainer.metrics must be a list of metrics, a dict of lists keyed by output name, or None, got "
            f"{shown(value)}"
        )
    return _new_objective(trainer, trainer.objective.loss, trainer.objective.loss_weights, value).metrics


def _new_objective(trainer: Assignable, loss: Any, weights: Any, metrics: Any) -> Objective:
    objective = Objective(loss, weights, metrics)
    vars(trainer)["objective"] = objective
    trainer.builder.program.metrics = None
    return objective


def _loss_weights(trainer: Assignable, value: Any) -> Any:
    if value is not None and (not isinstance(value, (Sequence, Mapping)) or isinstance(value, str)):
        raise GraphError(f"Trainer.loss_weights must be a dict, a sequence of numbers, or None, got {shown(value)}")
    _new_objective(trainer, trainer.objective.loss, value, trainer.objective.asked)
    return value


def _checkpoint_layers(trainer: Assignable, value: Any) -> Any:
    layers = checked_layers(value)
    if isinstance(trainer.model, Module):
        layers_to_checkpoint(trainer.model, layers)
    elif layers:
        raise GraphError("Trainer: checkpoint_layers must be False for an imported model, which has no layers")
    return layers


def _low_precision_weights(trainer: Assignable, value: Any) -> Any:
    return None if value is None else checked_way("Trainer", value)


def _accumulation(trainer: Assignable, value: Any) -> Any:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise GraphError(f"Trainer.gradient_accumulation_steps must be an int of at least 1, got {shown(value)}")
    if value != trainer.state.accumulation and (trainer.state.steps.made or trainer.builder.program.steps):
        raise GraphError(
            "Trainer.gradient_accumulation_steps cannot be changed after the first batch, because gradients of earlier "
            "batches may be accumulated, and schedules count updates: create a new Trainer for the model, which "
            "continues with the same variables"
        )
    return value


def _ema_decay(trainer: Assignable, value: Any) -> Any:
    if value is not None and not (is_number(value) and 0 <= value < 1):
        raise GraphError(f"Trainer.ema_decay must be a number in [0, 1), or None, got {shown(value)}")
    if value is None:
        trainer.builder.forget_averages()
    return value


def _check_finite(trainer: Assignable, value: Any) -> Any:
    if not isinstance(value, bool):
        raise GraphError(f"Trainer.check_finite must be True or False, got {shown(value)}")
    if value and (trainer.builder.engine is not None or trainer.state.partnership is not None):
        raise GraphError("Trainer.check_finite cannot be combined with an engine or distributed training")
    return value


def _device(trainer: Assignable, value: Any) -> Any:
    if value is not None and not isinstance(value, (str, Device)):
        raise GraphError(f"Trainer.device must be a device, its name, or None, got {shown(value)}")
    trainer.builder.move_to(value)
    return value


def _history(trainer: Assignable, value: Any) -> Any:
    if not isinstance(value, History):
        raise GraphError(f"Trainer.history must be a History, got {shown(value)}")
    return value


_FIXED = frozenset(
    (
        *("model", "network", "graph", "objective", "seed", "dtype", "engine", "distributed", "state", "builder"),
        *("precision", "precision_error", "precision_choices"),
    )
)
_CHECKS: dict[str, Callable[[Assignable, Any], Any]] = {
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
