"""Contents of a trainer's checkpoint, and how a trainer continues from it.

Variables are stored under names that do not depend on other contents of the graph. If two trainers share a graph, a
checkpoint of the second one can therefore be loaded in a process that creates only the second one.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path as FilePath

import numpy as np

from .._core import DType, Tensor, bfloat16
from ..errors import CheckpointError, Error, GraphError
from ..nn.module import Module
from ..nn.parts import is_built
from ..nn.quantized import QuantizedEmbedding, QuantizedLinear
from ..optim import by_hand
from . import checkpoint, sharded_checkpoint
from .builder import StepBuilder
from .checkpoint_contents import Contents
from .checkpoint_values import packed
from .engine import Engine
from .forms import Description
from .history import History
from .sharded_checkpoint import Part
from .state import unset_average
from .transaction import all_or_nothing

_FIT = "fit"  # Prefix of the names of arrays that belong to the fit. Variables are stored under other names.
Path = str | os.PathLike[str]


def save(
    builder: StepBuilder, path: Path, frozen: bool = True, sharded: bool = False, background: bool = False
) -> None:
    """Save a trainer; see Trainer.save."""
    state, settings = builder.state, builder.settings
    if sharded and state.partnership is not None:
        raise GraphError(
            "Trainer.save: all processes of distributed=True have the whole state, which the first one writes: pass "
            "sharded=False"
        )
    state.writer.wait()
    if not builder.specs:
        raise GraphError("Trainer.save: there is nothing to save yet: train or evaluate first")
    state.steps.wait()
    builder.follow_settings()
    arrays: dict[str, np.ndarray] = {}
    described = packed(state.resumed if state.fit is None else state.fit.state_dict(), arrays, _FIT)
    used, dormant = state.variables(), state.dormant()
    left_out = [] if frozen else _frozen_paths(builder)
    variables = {name: variable for name, variable in (used | dormant).items() if name not in set(left_out)}
    # The parts of a sharded checkpoint are read from the engine's devices instead.
    by_parts = sharded and builder.engine is not None
    values = {} if by_parts else dict(zip(variables, state.values(variables.values()), strict=True))
    dtypes = {name: str(v.dtype) for name, v in variables.items()}
    state.drop_stale_sums()
    # Values that an earlier checkpoint contained for variables that this trainer has not needed yet.
    waiting = {name: value for name, value in state.unclaimed.items() if name not in variables}
    optional = state.optional_variables(settings.optimizer)
    averages = set(state.averages.values())
    metadata = {
        "kind": "trainer",
        "optimizer": type(settings.optimizer).__name__,
        "step": str(state.steps.made),
        "forms": json.dumps(builder.specs),
        "data": json.dumps(state.data.state_dict() if state.data is not None else state.data_position),
        "history": json.dumps(state.history.state_dict()),
        "fit": json.dumps(described),
        "optimizers": json.dumps(by_hand.described(builder.optimizers())),
        "seed": json.dumps(state.seed),
        "left_out": json.dumps(left_out),
        "precision": settings.precision,
        "precision_choices": json.dumps({p: asdict(c) for p, c in state.precision_choices.items()}),
        "dormant": json.dumps([*dormant, *waiting, *(name for name, v in used.items() if v in optional)]),
        "averages": json.dumps([name for name, variable in variables.items() if variable in averages]),
    }
    arrays |= waiting
    partnership, engine = state.partnership, state.engine
    if partnership is None or not partnership.agreed:
        if sharded:
            parts = [] if builder.engine is None else builder.engine.parts(variables)
            whole = sharded_checkpoint.parts_of(values | arrays)
            _write(builder, background, _sharded(engine, FilePath(path), parts, whole, metadata, dtypes))
        elif engine is None or engine.process[0] == 0:
            _write(builder, background, lambda: checkpoint.save(path, values | arrays, metadata, dtypes))
        else:
            _write(builder, background, lambda: None)
        return
    states = {name: values[name] for name in state.of_random_states(variables)}
    metadata["distributed"] = json.dumps(partnership.description(states))
    values |= {name: partnership.total(values[name], dtypes[name]) for name in state.of_gradient_sums(variables)}
    if background:
        if partnership.is_first:
            state.writer.start(lambda: checkpoint.save(path, values | arrays, metadata, dtypes))
        return
    partnership.by_first(lambda: checkpoint.save(path, values | arrays, metadata, dtypes), "the checkpoint")


def _sharded(
    engine: Engine | None,
    folder: FilePath,
    parts: Sequence[Part],
    whole: Sequence[Part],
    metadata: Mapping[str, str],
    dtypes: Mapping[str, str],
) -> Callable[[], None]:
    """Return a function that writes this process's file of a sharded checkpoint, and in the first process the index."""
    process, processes = (0, 1) if engine is None else engine.process
    number = secrets.randbits(31)
    token = f"{number if engine is None else engine.of_first(number):08x}"

    def write() -> None:
        own = [*parts, *whole] if process == 0 else parts
        sharded_checkpoint.write_parts(folder, token, process, processes, own, dtypes)
        if process == 0:
            sharded_checkpoint.write_index(folder, token, processes, metadata)

    return write


def _write(builder: StepBuilder, background: bool, write: Callable[[], None]) -> None:
    """Write a checkpoint now, in all processes of an engine, or in the background.

    Raises:
        CheckpointError: If any process fails to write.
    """
    if background:
        builder.state.writer.start(write)
        return
    failed: Error | None = None
    try:
        write()
    except Error as error:
        failed = error
    engine = builder.state.engine
    of_process = None if engine is None else engine.first_failure(failed is not None)
    if failed is not None:
        raise failed
    if of_process is not None:
        raise CheckpointError(f"process {of_process} could not write its part of the checkpoint; its error says why")


def _frozen_paths(builder: StepBuilder) -> list[str]:
    """Return the paths of the variables that a checkpoint without frozen parameters leaves out."""
    model, network = builder.settings.model, builder.network
    trained = {variable for _, variable in network.named_parameters()} | set(network.buffers())
    if isinstance(model, Module):  # Packed weights never change.
        for _, module in model.named_modules():
            if isinstance(module, (QuantizedLinear, QuantizedEmbedding)) and is_built(module):
                trained -= set(module.buffers())
    return [path for path, v in network.named_variables().items() if v not in trained]


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    return sharded_checkpoint.load(FilePath(path)) if FilePath(path).is_dir() else checkpoint.load(path)


def load(builder: StepBuilder, path: Path, take_seed: bool) -> None:
    """Load a trainer; see Trainer.load.

    The whole checkpoint is read and compared with the trainer before anything changes. Operations that must be built
    for the comparison are discarded if the checkpoint does not match.

    Args:
        builder: The trainer's builder.
        path: Path of the file.
        take_seed: Whether to continue with the seed of the checkpoint.
    """
    state = builder.state
    partnership = state.partnership
    state.writer.wait()
    if partnership is None:
        values, metadata = _read(path)
    else:
        values, metadata = partnership.by_first(lambda: _read(path), "the checkpoint")
    contents = Contents.of(path, values, metadata)
    state.steps.wait()
    builder.follow_settings()
    with all_or_nothing(builder):
        if take_seed and contents.seed is not None and contents.seed != state.seed:
            state.take_seed(contents.seed, keep_graph=builder.engine is not None)
        if partnership is not None and partnership.reference is None:
            partnership.reference = contents.together.get("reference")
        _load_precision(builder, path, contents)
        _restore_options(builder, path, contents)
        for known, described in zip(builder.specs, contents.forms, strict=False):
            _require_same_inputs(path, known, described)
        try:
            for described in contents.forms[len(builder.specs) :]:
                builder.build_again(described)
        except Error as error:
            raise CheckpointError(f"{path} belongs to another model: {error}") from error
        if builder.settings.ema_decay is not None and state.add_averages(contents.averages):
            builder.rebuild()
        _restore_options(builder, path, contents)  # Custom steps may use further optimizers, which exist only now.
        builder.follow_settings()
        variables = state.variables()
        values, unclaimed = _matched(builder, path, contents, variables)
        if partnership is not None:
            states = {name: values[name] for name in state.of_random_states(variables)}
            values |= partnership.states(contents.together, states)
            # The first process restores the gradient sums of all processes; the others start at zero.
            if not partnership.is_first:
                values |= {name: np.zeros_like(values[name]) for name in state.of_gradient_sums(variables)}
        history = History(state.seed)
        history.load_state_dict(contents.history)
    state.set_values({v: values[name] for name, v in variables.items() if name in values})
    state.steps.made, state.history = contents.step, history
    state.data_position, state.fit, state.resumed = contents.data, None, contents.fit
    own = state.dormant()
    absent = {variable for name, variable in own.items() if name not in unclaimed}
    if absent:
        for optimizer in builder.optimizers():
            by_hand.forget_states(optimizer, absent)
        state.forget(absent)
        builder.changed.previous = []
    state.set_values({own[name]: unclaimed.pop(name) for name in list(unclaimed) if name in own})
    state.unclaimed, state.unclaimed_since = unclaimed, state.updates


def _matched(
    builder: StepBuilder, path: Path, contents: Contents, variables: Mapping[str, Tensor]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return a checkpoint's values as two dicts: for the variables that the trainer uses, and for unused variables.

    Raises:
        CheckpointError: If names, shapes, or dtypes differ.
    """
    state, kind = builder.state, type(builder.settings.optimizer).__name__
    own = state.dormant()
    found = {n: v for n, v in contents.variables.items() if n in variables or n not in contents.dormant}
    dormant = {n: v for n, v in contents.variables.items() if n not in found}
    # A weight that was frozen until the checkpoint was saved has no average there yet.
    averages = set(state.averages.values())
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
    if contents.optimizer not in (None, kind):
        raise CheckpointError(
            f"{path} belongs to another model or optimizer: it was saved with {contents.optimizer}, but this trainer "
            f"has {kind}"
        )
    return found, dormant


def _stored(dtype: DType) -> str:
    """Return the dtype of the arrays in which checkpoints store tensors of a given dtype."""
    return "uint16" if dtype == bfloat16 else str(dtype)


def _require_same_inputs(path: Path, known: Mapping[str, Description], described: Mapping[str, Description]) -> None:
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


def _restore_options(builder: StepBuilder, path: Path, contents: Contents) -> None:
    """Restore the optimizers' rates and options that a caller had set before the checkpoint was saved."""
    try:
        by_hand.restore(builder.optimizers(), contents.optimizers)
    except (Error, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged: it contains invalid optimizer options: {error}") from error


def _load_precision(builder: StepBuilder, path: Path, contents: Contents) -> None:
    """Use the layer precisions of a checkpoint. Raise CheckpointError if it was saved with a different `precision`."""
    precision, choices = contents.precision, contents.precision_choices
    mine, known = builder.settings.precision, builder.state.precision_choices
    if precision != mine:
        raise CheckpointError(
            f"{path} was trained with precision='{precision}', but this trainer has precision='{mine}': "
            f"create it with precision='{precision}', or load only the weights with model.load_state_dict"
        )
    if not builder.specs:
        builder.take_choices(choices)
    elif {p: c.precision for p, c in choices.items()} != {p: c.precision for p, c in known.items()}:
        raise CheckpointError(
            f"{path} has layer precisions that differ from those this trainer has already chosen: load the checkpoint "
            "before the first step"
        )
