"""Contents of a trainer's checkpoint, and how a trainer continues from it.

Variables are stored under names that do not depend on other contents of the graph. If two trainers share a graph, a
checkpoint of the second one can therefore be loaded in a process that creates only the second one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from .._core import DType, Tensor, bfloat16
from ..errors import CheckpointError, Error, GraphError
from ..graph import Graph
from ..nn.module import Module
from ..nn.quantized import QuantizedEmbedding, QuantizedLinear
from ..optim import Optimizer, by_hand
from ..optim.by_hand import optimizers_in
from . import checkpoint
from .checkpoint_contents import Contents, all_or_nothing
from .checkpoint_values import packed
from .history import History
from .step import unset_average
from .trainer_type import Trainer
from .variables import dormant_of, variables_of

_FIT = "fit"  # Prefix of the names of arrays that belong to the fit. Variables are stored under other names.


def save(trainer: Trainer, path: str | os.PathLike[str], frozen: bool = True) -> None:
    """Save a trainer; see Trainer.save."""
    if not trainer._specs:
        raise GraphError("Trainer.save: there is nothing to save yet: train or evaluate first")
    trainer.wait()
    trainer._follow_settings()
    arrays: dict[str, np.ndarray] = {}
    fit = trainer._resumed if trainer._fit is None else trainer._fit.state_dict()
    described = packed(fit, arrays, _FIT)
    used, dormant = variables_of(trainer), dormant_of(trainer)
    variables = used | dormant
    trained = {variable for _, variable in trainer.network.named_parameters()} | set(trainer.network.buffers())
    if isinstance(trainer.model, Module):  # Packed weights never change.
        packed_layers = [
            m for _, m in trainer.model.named_modules() if isinstance(m, (QuantizedLinear, QuantizedEmbedding))
        ]
        trained -= {variable for layer in packed_layers for variable in vars(layer)["_buffers"].values()}
    left_out = [] if frozen else [path for path, v in trainer.network.named_variables().items() if v not in trained]
    variables = {name: variable for name, variable in variables.items() if name not in set(left_out)}
    partnership = trainer._partnership
    metadata = {
        "kind": "trainer",
        "optimizer": type(trainer.optimizer).__name__,
        "step": str(trainer.step),
        "forms": json.dumps(trainer._specs),
        "data": json.dumps(trainer._data.state_dict() if trainer._data is not None else trainer._data_state),
        "history": json.dumps(trainer.history.state_dict()),
        "fit": json.dumps(described),
        "optimizers": json.dumps(by_hand.described(_outer_optimizers(trainer))),
        "seed": json.dumps(trainer.seed),
        "left_out": json.dumps(left_out),
        "precision": trainer.precision,
        "precision_choices": json.dumps({p: asdict(c) for p, c in trainer.precision_choices.items()}),
    }
    copies = trainer.graph.variable_values(variables.values(), device=trainer.device)
    values = dict(zip(variables, copies, strict=True))
    dtypes = {name: str(v.dtype) for name, v in variables.items()}
    trainer._drop_stale_sums()
    # Values that an earlier checkpoint contained for variables that this trainer has not needed yet.
    waiting = {name: value for name, value in trainer._dormant.items() if name not in values}
    still = set(trainer._averages.values()) - set(trainer._trained_averages()) | trainer._frozen_sums()
    optional = [name for name, variable in used.items() if variable in still]
    metadata["dormant"] = json.dumps([*dormant, *waiting, *optional])
    averages = set(trainer._averages.values())
    metadata["averages"] = json.dumps([name for name, variable in variables.items() if variable in averages])
    arrays |= waiting
    if partnership is None or not partnership.agreed:
        checkpoint.save(path, values | arrays, metadata, dtypes)
        return
    states = _states(trainer, variables, values)
    metadata["distributed"] = json.dumps(partnership.description(states))
    values |= {name: partnership.total(values[name], dtypes[name]) for name in _sums(trainer, variables)}
    partnership.by_first(lambda: checkpoint.save(path, values | arrays, metadata, dtypes), "the checkpoint")


def load(trainer: Trainer, path: str | os.PathLike[str]) -> None:
    """Load a trainer; see Trainer.load.

    The whole checkpoint is read and compared with the trainer before anything changes. Operations that must be built
    for the comparison are discarded if the checkpoint does not match.
    """
    partnership = trainer._partnership
    if partnership is None:
        values, metadata = checkpoint.load(path)
    else:
        values, metadata = partnership.by_first(lambda: checkpoint.load(path), "the checkpoint")
    contents = Contents.of(path, values, metadata)
    trainer.wait()
    trainer._follow_settings()
    with all_or_nothing(trainer):
        together = contents.together
        _take_seed(trainer, contents.seed)
        if partnership is not None and partnership.reference is None:
            partnership.reference = together.get("reference")
        _load_precision(trainer, path, contents)
        _restore_options(trainer, path, contents)
        for known, described in zip(trainer._specs, contents.forms, strict=False):
            _require_same_inputs(path, known, described)
        try:
            for described in contents.forms[len(trainer._specs) :]:
                trainer._build_again(described)
        except Error as error:
            raise CheckpointError(f"{path} belongs to another model: {error}") from error
        _restore_options(trainer, path, contents)  # Custom steps may use further optimizers, which exist only now.
        if trainer._settings is not None:
            trainer._follow_settings()
        variables = variables_of(trainer)
        values, dormant = _matched(trainer, path, contents, variables)
        if partnership is not None:
            values |= partnership.states(together, _states(trainer, variables, values))
            # The first process restores the gradient sums of all processes; the others start at zero.
            if not partnership.is_first:
                values |= {name: np.zeros_like(values[name]) for name in _sums(trainer, variables)}
        history = History(trainer.seed)
        history.load_state_dict(contents.history)
    stored = {v: values[name] for name, v in variables.items() if name in values}
    trainer.graph.set_variables(stored, device=trainer.device)
    trainer.step, trainer.history = contents.step, history
    trainer._data_state = contents.data
    trainer._fit, trainer._resumed = None, contents.fit
    own = dormant_of(trainer)
    _start_anew(trainer, {variable for name, variable in own.items() if name not in dormant})
    used = {own[name]: dormant.pop(name) for name in list(dormant) if name in own}
    trainer.graph.set_variables(used, device=trainer.device)
    trainer._dormant, trainer._dormant_updates = dormant, trainer._updates_made()


def _matched(
    trainer: Trainer, path: Any, contents: Contents, variables: Mapping[str, Tensor]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return a checkpoint's values as two dicts: for the variables that the trainer uses, and for unused variables.

    Raises:
        CheckpointError: If names, shapes, or dtypes differ.
    """
    own = dormant_of(trainer)
    found = {n: v for n, v in contents.variables.items() if n in variables or n not in contents.dormant}
    dormant = {n: v for n, v in contents.variables.items() if n not in found}
    # A weight that was frozen until the checkpoint was saved has no average there yet.
    averages = set(trainer._averages.values())
    begun = {name: variable for name, variable in variables.items() if variable in averages}
    if contents.averages:
        for name in begun.keys() - found.keys() - contents.averages:
            dtype = begun[name].dtype.numpy
            found[name] = np.full(begun[name].shape or (), unset_average(dtype), dtype)
    missing, unknown = (
        sorted(variables.keys() - found.keys() - contents.left_out),
        sorted(found.keys() - variables.keys() - own.keys()),
    )
    if missing or unknown:
        raise CheckpointError(
            f"{path} belongs to another model or optimizer: missing variables {missing}, unexpected variables {unknown}"
        )
    dormant |= {name: found.pop(name) for name in found.keys() - variables.keys()}
    known = {
        name: (_stored(variable.dtype), tuple(variable.shape or ())) for name, variable in {**own, **variables}.items()
    }
    wrong = [
        f"'{name}' must be {known[name][0]} of shape {known[name][1]}, got {value.dtype} of shape {value.shape}"
        for name, value in (found | dormant).items()
        if name in known and known[name] != (str(value.dtype), value.shape)
    ]
    if wrong:
        raise CheckpointError(f"{path} belongs to another model: shapes or dtypes of its variables differ: {wrong[0]}")
    if contents.optimizer not in (None, type(trainer.optimizer).__name__):
        raise CheckpointError(
            f"{path} belongs to another model or optimizer: it was saved with {contents.optimizer}, but this trainer "
            f"has {type(trainer.optimizer).__name__}"
        )
    return found, dormant


def _stored(dtype: DType) -> str:
    """Return the dtype of the arrays in which checkpoints store tensors of a given dtype."""
    return "uint16" if dtype == bfloat16 else str(dtype)


def _start_anew(trainer: Trainer, unknown: set[Tensor]) -> None:
    """Forget unused variables that a checkpoint does not contain, so that they start again when they are used."""
    if not unknown:
        return
    for optimizer in [each for outer in _outer_optimizers(trainer) for each in optimizers_in(outer)]:
        optimizer._states = {key: v for key, v in optimizer._states.items() if v not in unknown}
    trainer._averages = {v: average for v, average in trainer._averages.items() if average not in unknown}
    for sums in trainer._sums.values():
        sums.sums = {v: total for v, total in sums.sums.items() if total not in unknown}
    trainer._before_us |= unknown
    trainer._kept = []


def _require_same_inputs(path: Any, known: Mapping[str, Any], described: Mapping[str, Any]) -> None:
    """Raise CheckpointError if a checkpoint's inputs do not have the dtypes and sizes of the trainer's batches."""
    mine, theirs = known["inputs"], described["inputs"]
    pairs = [
        pair for shapes in zip(mine["shapes"], theirs["shapes"], strict=False) for pair in zip(*shapes, strict=False)
    ]
    if mine["structure"] != theirs["structure"] or mine["dtypes"] != theirs["dtypes"]:
        raise CheckpointError(f"{path} belongs to another model: its batches have inputs of other structures or dtypes")
    if any(len(a) != len(b) for a, b in zip(mine["shapes"], theirs["shapes"], strict=True)) or any(
        a != b and a >= 0 and b >= 0 for a, b in pairs
    ):
        raise CheckpointError(
            f"{path} belongs to another model: its batches have inputs of shape {theirs['shapes']}, but this trainer's "
            f"have {mine['shapes']}"
        )


def _outer_optimizers(trainer: Trainer) -> list[Optimizer]:
    """Return the trainer's optimizer, followed by the other optimizers that the trainer's steps use."""
    outer = [trainer.optimizer, *(m.optimizer for built in trainer._builts.values() for m in built.minimized)]
    return list({id(each): each for each in outer}.values())


def _restore_options(trainer: Trainer, path: Any, contents: Contents) -> None:
    """Restore the optimizers' rates and options that a caller had set before the checkpoint was saved."""
    try:
        by_hand.restore(_outer_optimizers(trainer), contents.optimizers)
    except (Error, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged: it contains invalid optimizer options: {error}") from error


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
    own = {v for sums in trainer._sums.values() for v in sums.sums.values()}
    return [name for name, v in variables.items() if v in own]


def _take_seed(trainer: Trainer, seed: int | None) -> None:
    """Continue with the seed of a checkpoint, unless the trainer was created with a seed."""
    if seed is None or trainer._seed_chosen or seed == trainer.seed:
        return
    trainer.__dict__["seed"] = seed
    if not trainer.graph.operation_count and trainer.engine is None:
        trainer.network.graph = Graph(seed=seed)
        trainer.__dict__["graph"] = trainer.network.graph


def _load_precision(trainer: Trainer, path: str | os.PathLike[str], contents: Contents) -> None:
    """Use the layer precisions of a checkpoint. Raise CheckpointError if it was saved with a different `precision`."""
    precision, choices = contents.precision, contents.precision_choices
    if precision != trainer.precision:
        raise CheckpointError(
            f"{path} was trained with precision='{precision}', but this trainer has precision='{trainer.precision}': "
            f"create it with precision='{precision}', or load only the weights with model.load_state_dict"
        )
    if not trainer._specs:
        trainer._take_choices(choices)
    elif {p: c.precision for p, c in choices.items()} != {p: c.precision for p, c in trainer.precision_choices.items()}:
        raise CheckpointError(
            f"{path} has layer precisions that differ from those this trainer has already chosen: load the checkpoint "
            "before the first step"
        )
