"""Saving trainers as packages: the training step as functions of the graph, and all state as variables.

A step in a package is the program that the trainer runs, with the same inputs, so training that continues from the
package gives bitwise identical results. The graph stores the values that Python computes for a trainer: the number of
steps made, and a table with the learning rates of future updates, because a schedule can be any Python function.
`trainable_model.py` reads packages.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from .. import _core
from .._core import Tensor, int32
from ..errors import GraphError, UnsupportedError
from ..model import Model
from ..nn.module import Module
from ..optim.schedules import Schedule, as_rate, end_of
from .clock import Clock
from .forms import as_json
from .objective import shares_of
from .state import TrainingState
from .step import Built
from .structure import mapped, named_leaves
from .trainer import Trainer

UPDATES = 100_000
"""Default number of updates for which learning rates are stored if the schedule has no end."""
_NEVER = np.iinfo(np.int32).max
_OURS = ("train_step", "fit", "evaluate", "predict", "wait")


def save(
    trainer: Trainer, path: str | os.PathLike[str], updates: int | None, leave_out: Collection[str], locations: bool
) -> None:
    """Save a trainer as a package; see mpsgraph.save."""
    state, builder = trainer.state, trainer.builder
    state.require_own_weights("Trainer.save")
    builder.follow_settings()
    built = builder.last_built
    if built is None:
        raise GraphError("there is no training step to save: train or evaluate first, or load a checkpoint")
    _refuse(trainer, built, leave_out)
    trainer.wait()
    g, clock = state.graph, _clock_of(state)
    rates, tables = _rates(state, built, clock, updates)
    state.set_values({clock.step: np.int32(trainer.step)})
    model = trainer.model if isinstance(trainer.model, Model) else builder.model()
    batch = _batch_of(trainer.model, built)
    results = dict(zip(built.names, built.targets, strict=True))
    fed = {**batch, **{name: rate for name, (rate, _) in rates.items()}}
    outputs = {**results, **{f"output.{place}": tensor for place, tensor in enumerate(built.outputs)}}
    step_counts = {tensor: f"count.{place}" for place, tensor in enumerate(dict.fromkeys(built.counts.values()))}
    outputs |= {name: tensor for tensor, name in step_counts.items()}
    functions: dict[str, Any] = {
        "train_step": (fed, outputs, [*built.operations(True), clock.count]),
        "rates": ({}, {name: now for name, (_, now) in rates.items()}, []),
    }
    if state.accumulation > 1:
        functions["accumulate"] = (fed, outputs, [*built.operations(False), clock.count])
    counts = _evaluation(built, batch, functions)
    variables = {**state.variables(), **{v.name: v for v in (clock.step, clock.first_update, clock.last_row)}}
    variables |= {table.name: table for table in tables}
    names = {v: name for name, v in variables.items()}
    training = {
        "step": clock.step,
        "first_update": clock.first_update,
        "last_row": clock.last_row,
        "tables": tables,
        "every": state.accumulation,
        "rates": list(rates),
        "results": list(results),
        "description": json.dumps(
            {
                "batch": [as_json(mapped(lambda _: 0, part)) for part in (built.inputs, built.labels, built.weights)],
                "outputs": as_json(mapped(lambda _: 0, builder.inference(built.inputs))),
                "counts": counts,
                "step_counts": {name: step_counts[tensor] for name, tensor in built.counts.items()},
                "step_shares": built.shares,
                "shares": shares_of(built.evaluation),
                "weights": list(state.network.named_variables()),
                "averages": [[names[v], names[average]] for v, average in state.averages.items() if v in names],
                "seed": state.seed,
            }
        ),
    }
    _core.save_package(
        os.fspath(path), g, model.inputs, model.outputs, variables, [v for v in g.trainable_variables if v in names],
        g.on(state.device), locations, functions, training,
    )  # fmt: skip


def _refuse(trainer: Trainer, built: Built, leave_out: Collection[str]) -> None:
    """Raise UnsupportedError if the trainer uses something that a package cannot contain.

    Examples are overridden methods and accumulated metrics, which run in Python. Metrics and options listed in
    `leave_out` are omitted from the package and do not raise the error.
    """
    if trainer.state.partnership is not None:
        raise UnsupportedError(
            "a distributed trainer cannot be saved as a package, whose step runs in one process: write a checkpoint "
            "with trainer.save(path), load it into a trainer without distributed, and save that trainer"
        )
    overridden = [name for name in _OURS if getattr(type(trainer), name) is not getattr(Trainer, name)]
    if overridden:
        raise UnsupportedError(
            f"a package cannot contain {type(trainer).__name__}.{overridden[0]}, which runs in Python: move its "
            "computation to training_step, which becomes part of the graph"
        )
    parts = [*built.parts, *built.evaluated]
    inside = {name: "a metric that accumulates in Python" for part in parts for name in part.accumulated}
    if trainer.check_finite:
        inside["check_finite"] = "which is an option of compilation"
    for name in leave_out:
        if name not in inside:
            known = ", ".join(map(repr, inside)) or "nothing"
            raise GraphError(f"leave_out must name parts of this trainer that can be left out ({known}), got '{name}'")
    for name, what in inside.items():
        if name not in leave_out:
            raise UnsupportedError(
                f"a package cannot contain '{name}', {what}: pass leave_out=['{name}'] to save without it"
            )


def _clock_of(state: TrainingState) -> Clock:
    if state.clock is None:
        g = state.graph
        names = ("training/step", "training/first_update", "training/last_row")
        step, first, last = (g.variable(0, int32, name, trainable=False) for name in names)
        state.foreign |= {step, first, last}
        state.clock = Clock(step, first, last, g.assign(step, g.read(step) + 1))
    return state.clock


def _table(state: TrainingState, clock: Clock, place: int, rate: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Return the table of a schedule and the rates that the next update uses, creating them on first use."""
    if (place, rows) not in clock.tables:
        g, shape = state.graph, tuple(rate.shape or ())
        zeros = _core.ConstantData.splat(0.0, (rows, *shape), rate.dtype)
        table = g.variable(zeros, None, "learning_rate/table", trainable=False)
        state.foreign.add(table)
        update = g.division(g.read(clock.step), state.accumulation) - g.read(clock.first_update)
        row = g.reshape(g.minimum(update, g.read(clock.last_row)), (1,))
        now = g.reshape(g.gather(g.read(table), row, out_of_range="error"), shape)
        clock.tables[place, rows] = table, now
    return clock.tables[place, rows]


def _rates(
    state: TrainingState, built: Built, clock: Clock, updates: int | None
) -> tuple[dict[str, tuple[Tensor, Tensor]], list[Tensor]]:
    """Return a dict of learning-rate placeholders, each with the next rate from its table, and the list of tables."""
    by_placeholder = {m.rate: m.optimizer.rates() for m in built.minimized}
    rows, ends = _rows([s for schedules in by_placeholder.values() for s in schedules], updates)
    first = 0 if ends else state.updates
    rates, tables = {}, []
    for place, (rate, schedules) in enumerate(by_placeholder.items()):
        table, now = _table(state, clock, place, rate, rows)
        values = [[_rate(schedule, first + row) for schedule in schedules] for row in range(rows)]
        state.set_values({table: np.array(values, rate.dtype.numpy).reshape(rows, *(rate.shape or ()))})
        rates["learning_rate" if place == 0 else f"learning_rate_{place}"] = rate, now
        tables.append(table)
    state.set_values({clock.first_update: np.int32(first), clock.last_row: np.int32(rows - 1 if ends else _NEVER)})
    return rates, tables


def _rows(schedules: list[Schedule], updates: int | None) -> tuple[int, bool]:
    """Return the number of rows of the tables, and whether the last row applies to all later updates.

    Schedules with an end are stored from the beginning, so that all packages of a trainer have tables of the same
    length and can exchange their state.
    """
    ends = [end_of(schedule) for schedule in schedules]
    if any(end is None for end in ends):
        return updates or UPDATES, False
    return max(end or 0 for end in ends) + 1, True


def _rate(schedule: Schedule, update: int) -> float:
    return as_rate(f"the schedule's rate for update {update}", schedule(update))


def _batch_of(model: Module | Model, built: Built) -> dict[str, Tensor]:
    """Return the placeholders of a batch, keyed by name, in the order in which they are fed."""
    found = {}
    for what, structure in (("inputs", built.inputs), ("labels", built.labels), ("weights", built.weights)):
        for path, tensor in named_leaves(structure):
            found[tensor] = path or what if what == "inputs" else f"{what}.{path}" if path else what
    if isinstance(model, Model):
        found |= {tensor: name for name, tensor in model.inputs.items() if tensor in found}
    if len(set(found.values())) < len(found) or any(name.startswith("learning_rate") for name in found.values()):
        raise GraphError(
            f"inputs, labels and learning rates must have different names, got {', '.join(found.values())}"
        )
    return {name: tensor for tensor, name in found.items()}


def _evaluation(built: Built, batch: Mapping[str, Tensor], functions: dict[str, Any]) -> dict[str, str]:
    """Add the function "evaluate" to the package.

    Return a dict that maps each result that is not a mean over all samples to the name of the output that counts its
    labels. If the trainer has a custom training step, the function is added only after the trainer has evaluated,
    because the loss is unknown before.
    """
    if not built.evaluation:
        return {}
    outputs = {term.name: term.value for term in built.evaluation}
    counts: dict[str, str] = {}
    known: dict[Tensor, str] = {}
    for term in built.evaluation:
        if term.counted is not None:
            counts[term.name] = known.setdefault(term.counted, f"{term.name}/count")
    functions["evaluate"] = (dict(batch), {**outputs, **{name: tensor for tensor, name in known.items()}}, [])
    return counts
