"""Contents of a trainer's checkpoint, and how a trainer continues from it.

Variables are stored under names that do not depend on other contents of the graph. If two trainers share a graph, a
checkpoint of the second one can therefore be loaded in a process that creates only the second one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from .._core import Tensor
from ..errors import CheckpointError, Error, GraphError
from ..optim import Optimizer
from ..precision.layer_precision import as_choices
from . import checkpoint
from .batch import Batch
from .checkpoint_values import names_in, packed, unpacked
from .history import History
from .step import example_of
from .trainer_type import Trainer
from .variables import variables_of

_FIT = "fit"  # Prefix of the names of arrays that belong to the fit. Variables are stored under other names.
_NEEDED = {"structure", "step", "forms", "data"}


def save(trainer: Trainer, path: str | os.PathLike[str]) -> None:
    """Save a trainer; see Trainer.save."""
    if not trainer._specs:
        raise GraphError("Trainer.save: there is nothing to save yet: train or evaluate first")
    trainer.wait()
    arrays: dict[str, np.ndarray] = {}
    fit = trainer._resumed if trainer._fit is None else trainer._fit.state_dict()
    described = packed(fit, arrays, _FIT)
    variables = variables_of(trainer)
    partnership = trainer._partnership
    metadata = {
        "kind": "trainer",
        "structure": _structure(trainer),
        "step": str(trainer.step),
        "forms": json.dumps(trainer._specs),
        "data": json.dumps(trainer._data.state_dict() if trainer._data is not None else trainer._data_state),
        "history": json.dumps(trainer.history.state_dict()),
        "fit": json.dumps(described),
        "rate_factors": json.dumps([each._rate_factors for each in _optimizers(trainer)]),
        "precision": trainer.precision,
        "precision_choices": json.dumps({p: asdict(c) for p, c in trainer.precision_choices.items()}),
    }
    values = {name: trainer.graph.variable_value(v, device=trainer.device) for name, v in variables.items()}
    dtypes = {name: str(v.dtype) for name, v in variables.items()}
    if partnership is None or not partnership.agreed:
        checkpoint.save(path, values | arrays, metadata, dtypes)
        return
    states = _states(trainer, variables, values)
    metadata["distributed"] = json.dumps(partnership.description(states))
    values |= {name: partnership.total(values[name], dtypes[name]) for name in _sums(trainer, variables)}
    partnership.by_first(lambda: checkpoint.save(path, values | arrays, metadata, dtypes), "the checkpoint")


def load(trainer: Trainer, path: str | os.PathLike[str]) -> None:
    """Load a trainer; see Trainer.load."""
    partnership = trainer._partnership
    if partnership is None:
        values, metadata = checkpoint.load(path)
    else:
        values, metadata = partnership.by_first(lambda: checkpoint.load(path), "the checkpoint")
    together = json.loads(metadata.get("distributed", "{}"))
    if partnership is not None and partnership.reference is None:
        partnership.reference = together.get("reference")
    if metadata.get("kind") != "trainer" or not metadata.keys() >= _NEEDED:
        raise CheckpointError(f"{path} is not a trainer's checkpoint: read it with mg.checkpoint.load")
    _load_precision(trainer, path, metadata)
    forms = json.loads(metadata["forms"])
    try:
        for described in forms[len(trainer._specs) :]:
            _rebuild(trainer, described)
    except Error as error:
        raise CheckpointError(f"{path} belongs to another model: {error}") from error
    described = json.loads(metadata.get("fit", "{}"))
    fit = unpacked(described, values)
    values = {name: value for name, value in values.items() if name not in names_in(described)}
    variables = variables_of(trainer)
    if metadata["structure"] != _structure(trainer) or values.keys() != variables.keys():
        missing, unknown = sorted(variables.keys() - values.keys()), sorted(values.keys() - variables.keys())
        raise CheckpointError(
            f"{path} belongs to another model or optimizer: missing variables {missing}, unexpected variables {unknown}"
            if missing or unknown
            else f"{path} belongs to another model: shapes or dtypes of its variables differ"
        )
    trainer.wait()
    if partnership is not None:
        values |= partnership.states(together, _states(trainer, variables, values))
        # The first process restores the gradient sums of all processes; the others start at zero.
        if not partnership.is_first:
            values |= {name: np.zeros_like(values[name]) for name in _sums(trainer, variables)}
    for name, variable in variables.items():
        trainer.graph.set_variable(variable, values[name], device=trainer.device)
    trainer.step = int(metadata["step"])
    trainer.history = History()
    trainer.history.load_state_dict(json.loads(metadata.get("history", "{}")))
    trainer._data_state = json.loads(metadata["data"])
    trainer._fit, trainer._resumed = None, fit
    for own, factors in zip(_optimizers(trainer), json.loads(metadata.get("rate_factors", "[]")), strict=False):
        own._rescale(factors)


def _optimizers(trainer: Trainer) -> list[Optimizer]:
    """Return the optimizers with learning rates of their own: first the trainer's, then all others that its steps
    use.
    """
    outer = [trainer.optimizer, *(m.optimizer for built in trainer._builts.values() for m in built.minimized)]
    return list({id(each): each for one in outer for each in one._innermost()}.values())


def _states(
    trainer: Trainer, variables: Mapping[str, Tensor], values: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the values of the random states, keyed by name."""
    own = set(trainer._random_states)
    return {name: values[name] for name, v in variables.items() if v in own}


def _sums(trainer: Trainer, variables: Mapping[str, Tensor]) -> list[str]:
    """Return the names of the variables that accumulate gradients over several batches.

    They are saved for each process separately.
    """
    own = {v for sums in trainer._sums.values() for v in sums.values()}
    return [name for name, v in variables.items() if v in own]


def _rebuild(trainer: Trainer, described: Mapping[str, Any]) -> None:
    """Rebuild the operations that the saved trainer had built, in the same order, so that random states match."""
    batch = Batch(*(example_of(described.get(what)) for what in ("inputs", "labels", "weights")))
    if trainer._take(batch):
        trainer._forget()
    for what, form in described.items():
        shapes = [tuple(shape) for shape in form["shapes"]]
        if trainer._forms[what].shapes != shapes:
            trainer._forms[what].shapes = shapes
            trainer._forget()
    key = batch.labels is not None, batch.weights is not None
    trainer._builts[key] = trainer._build(batch)


def _load_precision(trainer: Trainer, path: str | os.PathLike[str], metadata: Mapping[str, str]) -> None:
    """Use the layer precisions of a checkpoint. Raise CheckpointError if it was trained with a different precision."""
    precision = metadata.get("precision", "float32")
    if precision != trainer.precision:
        raise CheckpointError(
            f"{path} was trained with precision='{precision}', but this trainer has precision='{trainer.precision}': "
            f"create it with precision='{precision}', or load only the weights with model.load_state_dict"
        )
    choices = as_choices(json.loads(metadata.get("precision_choices", "{}")))
    if not trainer._specs:
        trainer._take_choices(choices)
    elif {p: c.precision for p, c in choices.items()} != {p: c.precision for p, c in trainer.precision_choices.items()}:
        raise CheckpointError(
            f"{path} has layer precisions that differ from those this trainer has already chosen: load the checkpoint "
            "before the first step"
        )


def _structure(trainer: Trainer) -> str:
    """Hash the names, dtypes, and shapes of all variables, which a checkpoint and its trainer must share."""
    described = [[name, str(v.dtype), list(v.shape or ())] for name, v in sorted(variables_of(trainer).items())]
    return hashlib.sha256(json.dumps([type(trainer.optimizer).__name__, described]).encode()).hexdigest()
