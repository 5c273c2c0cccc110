"""Contents: a trainer's checkpoint, read completely before loading it changes anything."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any

import numpy as np

from .._display import shown
from ..errors import CheckpointError, Error, GraphError
from ..precision.layer_precision import LayerPrecision, as_choices
from .checkpoint_values import names_in, unpacked
from .forms import Description, example_of
from .history import History
from .means import Means

_NEEDED = {"step", "forms", "data"}


@dataclass
class Contents:
    """The contents of a trainer's checkpoint, each of the type that loading needs."""

    variables: dict[str, np.ndarray]
    step: int
    seed: int | None
    forms: list[dict[str, Description]]
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
    """Names of variables that the steps did not use when the checkpoint was saved."""
    left_out: set[str]
    """Names of frozen parameters that the checkpoint does not contain."""
    averages: set[str]
    """Names of the moving averages. A weight that was always frozen has none."""
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
