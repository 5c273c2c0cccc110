"""Reading a trainer's checkpoint completely before loading it changes anything, and undoing a failed load."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import NoneType
from typing import Any

import numpy as np

from .._display import shown
from ..errors import CheckpointError, Error, GraphError
from ..graph import Graph
from ..nn.module import Module
from ..optim.by_hand import optimizers_in
from ..precision.layer_precision import LayerPrecision, as_choices
from .checkpoint_values import names_in, unpacked
from .history import History
from .means import Means
from .step import example_of
from .trainer_type import Trainer

_NEEDED = {"step", "forms", "data"}


@dataclass
class Contents:
    """The contents of a trainer's checkpoint, each of the type that loading needs."""

    variables: dict[str, np.ndarray]
    step: int
    seed: int | None
    forms: list[dict[str, Any]]
    data: dict[str, Any] | None
    history: dict[str, Any]
    fit: dict[str, Any]
    together: dict[str, Any]
    """State of distributed training."""
    optimizer: str | None
    """Class of the trainer's optimizer."""
    optimizers: list[dict[str, Any]]
    """Rates and options set by hand."""
    dormant: set[str]
    left_out: set[str]
    """Names of frozen parameters that the checkpoint does not contain."""
    averages: set[str]
    """Names of the moving averages. A weight that was always frozen has none."""
    """Names of variables that the steps did not use when the checkpoint was saved."""
    precision: str
    precision_choices: dict[str, LayerPrecision]

    @classmethod
    def of(
        cls, path: str | os.PathLike[str], values: Mapping[str, np.ndarray], metadata: Mapping[str, str]
    ) -> Contents:
        """Read all parts of a checkpoint. Raise CheckpointError if no trainer saved it, or if a part is invalid."""
        if metadata.get("kind") != "trainer" or not metadata.keys() >= _NEEDED:
            raise CheckpointError(f"{path} is not a trainer's checkpoint: read it with mg.checkpoint.load")
        try:
            return cls._read(values, metadata)
        except (Error, ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError) as e:
            raise CheckpointError(f"{path} is damaged: its description of the trainer cannot be read: {e!r}") from e

    @classmethod
    def _read(cls, values: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> Contents:
        def read(name: str, kind: type, default: str) -> Any:
            value = json.loads(metadata.get(name, default))
            if not isinstance(value, kind):
                raise GraphError(f"'{name}' must be a {kind.__name__}, got {shown(value)}")
            return value

        described, forms = read("fit", dict, "{}"), read("forms", list, "")
        for form in forms:
            for part in form.values():
                example_of(part)
        history = read("history", dict, "{}")
        History().load_state_dict(history)
        data = json.loads(metadata["data"])
        if data is not None and not (isinstance(data, dict) and all(isinstance(n, (int, str)) for n in data)):
            raise GraphError(f"'data' must be a dict or null, got {shown(data)}")
        step = int(metadata["step"])
        if step < 0:
            raise GraphError(f"'step' must be at least 0, got {step}")
        seed = json.loads(metadata.get("seed", "null"))
        if seed is None and data is not None:
            seed = data.get("seed")
        if not isinstance(seed, (int, NoneType)) or isinstance(seed, bool):
            raise GraphError(f"'seed' must be an int, got {shown(seed)}")
        optimizers = read("optimizers", list, "[]")
        if "optimizers" not in metadata:
            optimizers = [{"factors": factors} for factors in read("rate_factors", list, "[]")]
        for state in optimizers:
            factors = state.get("factors", [])
            if not all(isinstance(f, (int, float)) and 0 <= f < float("inf") for f in factors):
                raise GraphError(f"factors of a learning rate must be finite numbers of at least 0, got {factors}")
        fit, names = unpacked(described, values), names_in(described)
        epoch = fit.get("epoch")
        if epoch is not None:
            if not epoch.keys() >= {"means", "steps", "given", "metrics"}:
                raise GraphError(f"'fit' must describe the epoch, got {shown(epoch)}")
            Means().load_state_dict(epoch["means"])
        if not all(each.keys() >= {"kind", "state"} for each in fit.get("callbacks", [])):
            raise GraphError("'fit' must describe the callbacks")
        variables = {name: value for name, value in values.items() if name not in names}
        return cls(
            variables=variables,
            step=step,
            seed=seed,
            forms=forms,
            data=data,
            history=history,
            fit=fit,
            together=read("distributed", dict, "{}"),
            optimizer=metadata.get("optimizer"),
            optimizers=optimizers,
            dormant=set(read("dormant", list, "[]")),
            left_out=set(read("left_out", list, "[]")),
            averages=set(read("averages", list, "[]")),
            precision=metadata.get("precision", "float32"),
            precision_choices=as_choices(read("precision_choices", dict, "{}")),
        )


@contextmanager
def all_or_nothing(trainer: Trainer) -> Iterator[None]:
    """Restore a trainer, its model, and its optimizers if an error occurs within a `with` block.

    Variables created in the block stay in the graph if it already had variables before, but no longer belong to the
    trainer.
    """
    owners: list[Any] = [trainer, trainer.objective, *optimizers_in(trainer.optimizer), *trainer._scalings.values()]
    owners += trainer._sums.values()
    if isinstance(trainer.model, Module):
        owners += {id(module): module for _, module in trainer.model.named_modules()}.values()
    before = [(owner, _copied(vars(owner))) for owner in owners]
    forms = [(form, list(form.shapes)) for form in trainer._forms.values()]
    variables, empty = set(trainer.graph.variables), not trainer.graph.operation_count
    try:
        yield
    except BaseException:
        for owner, attributes in before:
            vars(owner).clear()
            vars(owner).update(attributes)
        for form, shapes in forms:
            form.shapes = shapes
        if empty and trainer.engine is None and trainer._partnership is None:
            # A new graph draws the same initial values and seeds that the trainer would have drawn without the failed
            # load.
            trainer.network.graph = Graph(seed=trainer.seed)
            trainer.__dict__["graph"] = trainer.network.graph
        else:
            trainer._before_us |= set(trainer.graph.variables) - variables
        raise


def _copied(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes, with copies of the containers that building a step changes in place."""

    def copied(value: Any) -> Any:
        if type(value) is dict:
            return {key: copied(item) if type(item) is dict else item for key, item in value.items()}
        return value.copy() if type(value) in (list, set, deque) else value

    return {name: copied(value) for name, value in attributes.items()}
